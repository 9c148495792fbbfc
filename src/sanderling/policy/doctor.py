"""What a chat server speaks, found out in a few calls: ``sanderling doctor --model URL``.

Each call is one that the agent will make, so what is told here is what an episode meets: a plain turn, a turn with tools whose
result is sent back, and where the server has it, vLLM's completion with token ids. Nothing is taken from the server's name.
"""

from collections.abc import Callable
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

from sanderling.core.errors import UserError
from sanderling.core.general import parse_general
from sanderling.core.profiles import PROFILES, default_specs, render_system
from sanderling.core.types import Message, Role, Sampling, SystemClock
from sanderling.policy.contract import Completion, Delta, PolicyOutageError, SampleKey
from sanderling.policy.endpoint import ChatEndpointPolicy, HttpClient, RefusedError
from sanderling.policy.load import client_of, models_at

_GENERAL = PROFILES["general"]
_SPECS = default_specs(_GENERAL)
_QUESTION = "How many people live in the village of Upper Tamsel? Use the search tool first."
_RESULT = "1. [Upper Tamsel](https://tamsel.example/)\n\nUpper Tamsel is a village of 412 people."
_KEY = SampleKey(seed=0, question="doctor", attempt=0, turn=0)
_LEAST_CONTEXT = 16_384


@dataclass(frozen=True)
class Finding:
    """One thing that a server can do or not; ``good`` is None where it does not matter to asking."""

    about: str
    good: bool | None
    text: str


@dataclass(frozen=True)
class Examined:
    """All that was found, and the address to ask with; empty: it cannot research as it is."""

    findings: tuple[Finding, ...]
    model: str = ""


async def examine(spec: str, tell: Callable[[str], None] = lambda line: None) -> Examined:
    """Ask a server. ``tell`` hears what it is asked, before. Raises UserError for an address that is none, or a refused key."""
    tell("Which models are there?")
    models = await _models(spec)
    parts = urlsplit(spec)
    if not parts.fragment:
        if len(models) != 1:
            raise UserError(f"Name the model behind a #: {', '.join(list(models)[:20]) or 'the server does not list any'}.")
        parts = parts._replace(fragment=next(iter(models)))
    listed = _several(list(models)) if models else "not listed"
    unknown = f"{parts.fragment} is none of them: " if models and parts.fragment not in models else ""
    findings = [Finding("models", None, f"{unknown}{listed}")]
    async with aclosing(client_of(parts.geturl(), retries=1)) as client:
        policy, options = ChatEndpointPolicy(client, parts.fragment), dict(parse_qsl(parts.query))
        tell(f"Does {parts.fragment} answer?")
        try:
            ask = Delta((Message(role=Role.USER, content="Reply with the one word: ready."),))
            plain = await policy.open(_KEY).generate(ask, Sampling(max_tokens=2_048), _KEY)
        except (PolicyOutageError, RefusedError) as error:
            return Examined((*findings, Finding("answers", False, str(error))))
        findings.append(Finding("answers", bool(plain.text.strip()), _brief(plain.text)))
        tell("Does it call a tool, and read the result?")
        tools, takes_tools = await _tools(policy)
        findings.append(tools)
        if not takes_tools:
            options["tools"] = "text"
            tell("Does it call one that it is told of in the text?")
            tools, _ = await _tools(policy, natively=False)
            findings.append(replace(tools, about="calls in text"))
        tell("What does the server tell of context, reasoning and token ids?")
        context = models.get(policy.name) or await _context(client)
        findings.append(_context_finding(context))
        if context:
            options["context"] = str(context)
        findings += [_reasoning(plain), *await _tokens(policy)]
    model = parts._replace(query=urlencode(options, safe="/:")).geturl()
    return Examined(tuple(findings), model if tools.good else "")


async def _models(spec: str) -> dict[str, int | None]:
    """What it says it serves; nothing where it has no such list, and a model is named."""
    try:
        return await models_at(spec)
    except PolicyOutageError as error:
        if urlsplit(spec).fragment:
            return {}
        raise UserError(f"{error} Start the server, or correct the address: http://host:port/v1#model.") from error


async def _tools(policy: ChatEndpointPolicy, *, natively: bool = True) -> tuple[Finding, bool]:
    """Whether a call is made and its result read; and whether the server takes tools at all."""
    session = policy.open(_KEY)
    sampling, tools = Sampling(max_tokens=2_048), _SPECS if natively else ()
    system = render_system(_GENERAL, () if natively else _SPECS, SystemClock())
    asked = (Message(role=Role.SYSTEM, content=system), Message(role=Role.USER, content=_QUESTION))
    pieces: list[str] = []
    try:
        turn = await session.generate(Delta(asked, tools=tools), sampling, _KEY, pieces.append)
        parsed = parse_general(turn.text, _SPECS, _GENERAL.tools)
        if not parsed.calls and natively and await _are_dropped(policy, asked, turn.prompt_tokens):
            told = "taken and dropped: the chat template that the server has of this model shows it none"
            return Finding("tools", False, told), False
        if not parsed.calls:
            return Finding("tools", False, f"no call came where one was asked for, but: {_brief(turn.text)}"), not natively
        if parsed.calls[0].name not in (known := [spec.name for spec in _SPECS]):
            return Finding("tools", False, f"{parsed.calls[0].name} was called, and {' and '.join(known)} were given"), True
        result = Message(role=Role.USER, content=f"<tool_response>\n{_RESULT}\n</tool_response>")
        answer = await session.generate(Delta((result,), tools=tools), sampling, replace(_KEY, turn=1), pieces.append)
    except RefusedError as error:
        return Finding("tools", False, str(error)), False
    except PolicyOutageError as error:
        return Finding("tools", False, str(error)), True
    form = "called natively" if natively and turn.text.lstrip().endswith("</tool_call>") else "called in its text"
    read = "its result was read" if "412" in answer.text else f"its result was not used: {_brief(answer.text)}"
    return Finding("tools", True, f"{form}: {parsed.calls[0].name}; {read}"), True


async def _are_dropped(policy: ChatEndpointPolicy, asked: tuple[Message, ...], tokens: int) -> bool:
    """Whether the prompt is no longer with tools than without, as by llama.cpp's server over a template that has no place."""
    bare = await policy.open(_KEY).generate(Delta(asked), Sampling(max_tokens=1), _KEY)
    return 0 < tokens <= bare.prompt_tokens


async def _context(client: HttpClient) -> int | None:
    """What llama.cpp's server says of its context, beside its ``/v1``."""
    try:
        told = (await client.json("../props")).get("default_generation_settings")
    except (UserError, PolicyOutageError):
        return None
    found = told.get("n_ctx") if isinstance(told, dict) else None
    return found if isinstance(found, int) and found > 0 else None


def _context_finding(context: int | None) -> Finding:
    if context is None:
        return Finding("context", None, "not told: add ?context=TOKENS, else 128,000 are assumed")
    return Finding("context", context >= _LEAST_CONTEXT, f"{context:,} tokens" + ("" if context >= _LEAST_CONTEXT else ", few"))


def _reasoning(plain: Completion) -> Finding:
    kept = plain.text.startswith("<think>")
    return Finding("reasoning", None, "told apart from the answer" if kept else "none seen")


async def _tokens(policy: ChatEndpointPolicy) -> list[Finding]:
    """What training needs of a server, and asking does not."""
    body: dict[str, Any] = {"model": policy.name, "prompt": "The", "max_tokens": 2, "logprobs": 1, "return_token_ids": True}
    try:
        choice = (await policy.client.json("completions", body))["choices"][0]
        ids, probabilities = choice.get("token_ids"), choice.get("logprobs")
    except (UserError, PolicyOutageError, LookupError, TypeError, AttributeError):  # it has none, or says something else
        ids = probabilities = None
    return [
        Finding("token ids", None, "given (vLLM's)" if ids else "not given: enough for asking, not for RL"),
        Finding("log-probabilities", None, "given" if probabilities else "not given"),
    ]


def _several(names: list[str]) -> str:
    return ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")


def _brief(text: str) -> str:
    line = " ".join(text.rpartition("</think>")[2].split())
    return (line[:100] + "…" if len(line) > 100 else line) or "(nothing)"
