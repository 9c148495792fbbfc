"""Models behind an OpenAI-compatible server: ``/chat/completions`` of any server, and vLLM's ``/completions`` token by token.

Busy or broken servers (429, 408, 5xx, time-outs, lost connections, replies that are no JSON) are tried again with growing
pauses, and are a PolicyOutageError when they stay so. Any other refusal (4xx) is the caller's to mend: a UserError of one
sentence with the server's own words. A stream that breaks after its first event is not tried again: somebody has read from it;
one that breaks after it has said why the turn stopped is whole.
"""

import asyncio
import json
import re
import time
import warnings
from collections.abc import AsyncGenerator, Container, Sequence
from contextlib import aclosing
from functools import cache
from typing import Any
from urllib.parse import unquote, urlsplit

import httpx

from sanderling.core.chat import Tokenizer
from sanderling.core.errors import UserError
from sanderling.core.types import Message, Role, Sampling, ToolSpec
from sanderling.policy.contract import (
    END_TOKEN,
    Completion,
    ContextFullError,
    Delta,
    Finish,
    Gate,
    MessageSession,
    OnText,
    PolicyOutageError,
    SampleKey,
    Session,
    TokenSession,
    cut_at_stop,
)
from sanderling.policy.native import REASONING, Reply, in_words, native_messages, tool_schemas

_RETRIED = frozenset({408, 409, 425, 429})
_LONGEST_PAUSE_S = 30.0
_LONGEST_ASKED_S = 300.0  # for which a server that says so is left alone; one that wants longer is an outage
_QUIET_S = 60.0  # a server that gives no answer is warned of once in so many seconds
_MEND = ": change what it names."
_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
_tls = cache(httpx.create_ssl_context)  # to read all certificates takes longer than to ask a server


class _BusyError(Exception):
    """The server may answer if asked again."""

    def __init__(self, reason: str, pause_s: float | None = None) -> None:
        super().__init__(reason)
        self.pause_s = pause_s


class RefusedError(UserError):
    """The server will not take this request: a person's mistake at the start of a conversation."""


class HttpClient:
    """One server. Connections are shared by its sessions and belong to the running event loop."""

    def __init__(
        self, base_url: str, api_key: str | None = None, *, retries: int = 5, backoff_s: float = 1.0, timeout_s: float = 600.0
    ) -> None:
        """``base_url``: up to ``/v1``, credentials in it are never shown; ``timeout_s``: the longest silence."""
        parts = urlsplit(base_url.rstrip("/"))
        self.base_url = parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()
        self._auth = None if parts.username is None else (unquote(parts.username), unquote(parts.password or ""))
        self._headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
        self._retries, self._backoff_s, self._quiet_until = retries, backoff_s, 0.0
        self._timeout = httpx.Timeout(timeout_s, connect=min(timeout_s, 10.0))
        self._opened: tuple[asyncio.AbstractEventLoop, httpx.AsyncClient] | None = None

    async def json(self, path: str, body: dict[str, Any] | None = None, *, answered: bool = True) -> dict[str, Any]:
        """POST (GET without a body) and return the reply's object; not ``answered``: an empty reply will do, and is {}."""
        async with aclosing(self.events(path, body, answered=answered)) as events:
            return await anext(events)

    async def events(self, path: str, body: dict[str, Any] | None, *, answered: bool = True) -> AsyncGenerator[dict[str, Any]]:
        """POST (GET without a body) and yield each event of a stream, or the one object of a plain reply."""
        reason = ""
        for attempt in range(self._retries + 1):
            begun = False
            try:
                async with aclosing(self._once(path, body, answered)) as found:
                    async for event in found:
                        begun = True
                        yield event
                if begun:
                    return
                reason, pause_s = "an empty reply", None
            except (_BusyError, httpx.RequestError) as error:
                reason, pause_s = str(error) or type(error).__name__, getattr(error, "pause_s", None)
                if begun:
                    raise PolicyOutageError(f"The stream of {self.base_url} broke ({reason}).") from error
            if (pause_s or 0.0) > _LONGEST_ASKED_S:
                raise PolicyOutageError(f"{self.base_url} is busy, and wants to be left alone for {pause_s:,.0f} s ({reason}).")
            if attempt < self._retries:
                own = min(_LONGEST_PAUSE_S, self._backoff_s * 2**attempt)
                pause_s = pause_s or own
                if time.monotonic() >= self._quiet_until:  # hundreds of sessions may wait for one server
                    self._quiet_until = time.monotonic() + _QUIET_S
                    again = f"attempt {attempt + 2} of {self._retries + 1} in {pause_s:g} s"
                    warnings.warn(f"{self.base_url} gave no answer ({reason}): {again}", stacklevel=2)
                await asyncio.sleep(pause_s)
        raise PolicyOutageError(f"{self.base_url} gave no answer in {self._retries + 1} attempts ({reason}).")

    async def aclose(self) -> None:
        if self._opened is not None:
            await self._opened[1].aclose()
            self._opened = None

    async def _once(self, path: str, body: dict[str, Any] | None, answered: bool) -> AsyncGenerator[dict[str, Any]]:
        url, method = f"{self.base_url}/{path}", "GET" if body is None else "POST"
        # A text may hold half of a character, which UTF-8 cannot.
        content = None if body is None else json.dumps(body, ensure_ascii=False).encode("utf-8", errors="replace")
        headers = {**self._headers, "Content-Type": "application/json"}
        async with self._client().stream(method, url, content=content, headers=headers) as reply:
            if reply.status_code >= 300:
                await reply.aread()
                _refuse(reply, self.base_url)
            if not reply.headers.get("content-type", "").startswith("text/event-stream"):
                text = (await reply.aread()).decode("utf-8", errors="replace")
                if not text.lstrip().startswith(("data:", "event:", ":")):  # a stream by another name
                    yield _object(text) if text or answered else {}
                    return
            async for line in _lines(reply):
                data = line.removeprefix("data:").strip()
                if data == "[DONE]":
                    return
                if line.startswith("data:"):
                    yield _object(data)
            raise _BusyError("the stream ended early")

    def _client(self) -> httpx.AsyncClient:
        loop = asyncio.get_running_loop()
        if self._opened is None or self._opened[0] is not loop:
            limits = httpx.Limits(max_connections=None, max_keepalive_connections=64)
            beyond = urlsplit(self.base_url).hostname not in _LOOPBACK  # no proxy leads to this machine
            how = {"timeout": self._timeout, "limits": limits, "trust_env": beyond, "auth": self._auth}
            self._opened = loop, httpx.AsyncClient(verify=_tls(trust_env=beyond), **how)
        return self._opened[1]


async def _lines(reply: httpx.Response) -> AsyncGenerator[str]:
    """The lines of a stream. Only a line feed ends one: JSON may hold whatever else separates lines."""
    rest = b""
    async for piece in reply.aiter_bytes():
        *whole, rest = (rest + piece).split(b"\n")
        for line in whole:
            yield line.decode("utf-8", errors="replace")
    yield rest.decode("utf-8", errors="replace")


def _object(text: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except ValueError as error:
        raise _BusyError(f"a reply that is no JSON: {text[:60]!r}") from error
    if not isinstance(found, dict):
        raise _BusyError(f"a reply that is no object: {text[:60]!r}")
    if found.get("error"):
        raise _BusyError(in_words(found["error"]))
    return found


def _refuse(reply: httpx.Response, server: str) -> None:
    """Raise what a status of 300 or more means."""
    status = reply.status_code
    if status < 400:
        raise UserError(f"{server} sends requests on to {reply.headers.get('location', 'nowhere')}: give that address.")
    try:
        found = json.loads(reply.content)
        words = in_words(found.get("error", found) if isinstance(found, dict) else found)
    except ValueError:
        words = in_words(reply.text)
    if status in _RETRIED or status >= 500:
        after = reply.headers.get("retry-after", "")
        raise _BusyError(f"status {status}: {words}", float(after) if re.fullmatch(r"[0-9.]*[0-9]", after) else None)
    if status in (401, 403):
        raise UserError(
            f"{server} refused the API key (status {status}): set OPENAI_API_KEY, or name a variable with ?key_env=."
        )
    if status == 404 and "tool" not in words:
        raise UserError(f"{server} does not know this path or model (status 404: {words}): check the URL and its #name.")
    raise RefusedError(f"{server} refused the request (status {status}: {words}){_MEND}")


class _Endpoint:
    def __init__(self, client: HttpClient, model: str, *, context_length: int | None = None) -> None:
        self.client, self.name, self.context_length = client, model, context_length
        self.version = 0  # updates behind the weights that the server has; set by whoever hands it new ones

    async def aclose(self) -> None:
        await self.client.aclose()


class ChatEndpointPolicy(_Endpoint):
    """Any chat model behind a URL. What a server keeps apart, reasoning and calls, is put into tags around the text.

    A session whose deltas name tools says them natively, and leaves out a setting that the server refuses by name from then on,
    with a warning. There, and where a server takes no tools, what nobody has set of how to sample is the server's to decide.
    """

    tokenizer = None

    def __init__(self, client: HttpClient, model: str, *, context_length: int | None = None, takes_tools: bool = True) -> None:
        super().__init__(client, model, context_length=context_length)
        self.takes_tools = takes_tools
        self.reasoning_field: str | None = None  # where this server gives reasoning; it is sent back there
        self.refused: set[str] = set()  # settings that it does not know

    def open(self, key: SampleKey) -> Session:
        return _ChatSession(self)


class _ChatSession(MessageSession):
    _policy: ChatEndpointPolicy
    _specs: tuple[ToolSpec, ...] = ()  # all that it was ever told
    _callable = False  # in the turn that comes

    def _new(self, delta: Delta) -> Sequence[Message]:
        self._specs, self._callable = delta.tools or self._specs, not delta.must_answer
        return delta.messages

    async def _speak(self, branch: Sequence[Message], sampling: Sampling, key: SampleKey, on_text: OnText) -> Completion:
        begun = any(message.role is Role.ASSISTANT for message in branch)
        policy = self._policy
        while True:
            body = self._body(branch, sampling, key)
            try:
                reply = await _receive(policy.client, "chat/completions", body, on_text)
                break
            except RefusedError as error:
                field = _refused_field(str(error), (*body, policy.reasoning_field) if self._specs else {"max_tokens"})
                if field is None or field in policy.refused:
                    raise self._refusal(error, begun) from error
                policy.refused.add(field)
                if field not in ("max_tokens", *REASONING):
                    warnings.warn(f"{policy.client.base_url} does not take {field}: it is left out from now on", stacklevel=2)
        policy.reasoning_field = reply.reasoning_field or policy.reasoning_field
        text, cut = cut_at_stop(reply.as_text(), sampling.stop)
        return Completion(
            text=text,
            finish=reply.finish(cut),
            prefilled_tokens=max(reply.prompt_tokens - reply.cached, 0),
            prompt_tokens=reply.prompt_tokens,
            sampled_tokens=reply.sampled_tokens,
            reasoning_field=reply.reasoning_field,
        )

    def _body(self, branch: Sequence[Message], sampling: Sampling, key: SampleKey) -> dict[str, Any]:
        policy, fields = self._policy, _sampling_fields(sampling, key)
        told: dict[str, Any] = {"messages": [{"role": message.role.value, "content": message.content} for message in branch]}
        if self._specs or not policy.takes_tools:
            fields = {name: fields[name] for name in fields if name in sampling.model_fields_set or name not in _THEIRS}
        if self._specs:
            apart = None if policy.reasoning_field in policy.refused else policy.reasoning_field
            told = {"messages": list(native_messages(branch, apart)), "tools": tool_schemas(self._specs)}
            told |= {} if self._callable else {"tool_choice": "none"}
        elif sampling.top_k:  # not in OpenAI's own interface: sent only when asked for
            fields["top_k"] = sampling.top_k
        if "max_tokens" in policy.refused:  # OpenAI's reasoning models have it under another name
            fields["max_completion_tokens"] = sampling.max_tokens
        return {"model": policy.name} | {name: value for name, value in (told | fields).items() if name not in policy.refused}

    def _refusal(self, error: RefusedError, begun: bool) -> Exception:
        """What a refusal means that no setting of the request explains: amid a conversation, its end."""
        server, words = self._policy.client.base_url, str(error)
        if (full := _FULL.search(words)) is not None:
            most = int(found.replace(",", "")) if (found := full[1] or full[2]) else None
            told = f"{words.removesuffix(_MEND)}: put ?context={most or 'TOKENS'} before the # of the model's address."
            return ContextFullError(told, most) if begun else RefusedError(told)
        if begun:
            return PolicyOutageError(words)
        if "tool" in words and self._specs:
            return RefusedError(f"{words} If {server} takes no tools, put ?tools=text before the # of the model's address.")
        return error


_THEIRS = ("temperature", "top_p")
_OPTIONAL = ("max_tokens", "seed", "stop", "presence_penalty", "temperature", "top_p", "tool_choice", *REASONING)
_FULL = re.compile(
    r"(?i)context (?:length|size|window)(?:\s*(?:of|is|=|:|\())*\s*([\d,]*\d)?"
    r"|context_length_exceeded|(?:prompt|input) is too long(?:[^>]*> ?([\d,]*\d))?"
)
"""How servers say that a conversation has grown too long, with the most that they take."""


def _refused_field(words: str, sent: Container[str]) -> str | None:
    """The optional field of a request that a refusal names first; none where the conversation is too long for any."""
    named = [(at.start(), name) for name in _OPTIONAL if name in sent and (at := re.search(rf"\b{name}\b", words))]
    return min(named)[1] if named and not _FULL.search(words) else None


class CompletionEndpointPolicy(_Endpoint):
    """A model behind vLLM (0.10.2 or later), token by token. ``tokenizer`` must be the served model's own.

    Training needs a server started with ``--logprobs-mode processed_logprobs``, which no reply shows: log-probabilities are
    else those before temperature and cuts. Whoever hands it other weights (`weight_sync`) closes ``gate`` meanwhile and sets
    ``version``; a turn's tokens carry the one that was set when its request was sent, the oldest that they can be of.
    """

    def __init__(self, client: HttpClient, model: str, tokenizer: Tokenizer, *, context_length: int | None = None) -> None:
        super().__init__(client, model, context_length=context_length)
        self.tokenizer = tokenizer
        self.gate = Gate()

    def open(self, key: SampleKey) -> Session:
        return _CompletionSession(self)


class _CompletionSession(TokenSession):
    _policy: CompletionEndpointPolicy

    async def _speak(self, branch: Sequence[int], sampling: Sampling, key: SampleKey, on_text: OnText) -> Completion:
        client, tokenizer = self._policy.client, self._policy.tokenizer
        end = tokenizer.token_id(END_TOKEN)
        body = {
            "model": self._policy.name,
            "prompt": list(branch),
            **_sampling_fields(sampling, key),
            "top_k": sampling.top_k or -1,
            "min_p": 0.0,
            "repetition_penalty": 1.0,
            "stop_token_ids": [end],
            "skip_special_tokens": False,
            "logprobs": 1,
            "return_token_ids": True,
        }
        async with self._policy.gate.passing():
            version = self._policy.version
            try:
                reply = await _receive(client, "completions", body, on_text)
            except RefusedError as error:
                if self.mark() > 0 or key.turn > 0:  # one that goes on with an episode has heard nothing yet
                    raise PolicyOutageError(str(error)) from error
                raise
        if not reply.ids:
            raise UserError(f"{client.base_url} returned no token ids: serve the model with vLLM 0.10.2 or later.")
        if len(reply.ids) != len(reply.logprobs):
            raise PolicyOutageError(f"The server sent {len(reply.logprobs)} log-probabilities for {len(reply.ids)} tokens.")
        ended = reply.ids[-1] == end
        text, cut = cut_at_stop(tokenizer.decode(reply.ids[:-1] if ended else reply.ids), sampling.stop)
        return Completion(
            text=text,
            finish=Finish.END if ended else reply.finish(cut),
            token_ids=tuple(reply.ids),
            logprobs=tuple(reply.logprobs),
            versions=(version,) * len(reply.ids),
            prefilled_tokens=len(branch) - reply.cached,
            prompt_tokens=len(branch),
        )


async def _receive(client: HttpClient, path: str, body: dict[str, Any], on_text: OnText) -> Reply:
    """One turn, streamed when somebody listens."""
    reply = Reply()
    try:
        if on_text is None:
            reply.add(await client.json(path, body))
        else:
            streamed = {**body, "stream": True, "stream_options": {"include_usage": True}}
            async with aclosing(client.events(path, streamed)) as events:
                async for event in events:
                    if text := reply.add(event):
                        on_text(text)
    except PolicyOutageError:
        if reply.finish_reason is None:  # else all was said
            raise
    if reply.finish_reason is None and (reply.ids or not (reply.text or reply.parts)):
        raise PolicyOutageError(f"{client.base_url} sent a reply without a finished choice.")
    if reply.finish_reason == "abort":
        raise PolicyOutageError(f"{client.base_url} gave up a turn under way.")
    return reply


def _sampling_fields(sampling: Sampling, key: SampleKey) -> dict[str, Any]:
    fields: dict[str, Any] = {name: getattr(sampling, name) for name in ("max_tokens", "temperature", "top_p")}
    asked = {"presence_penalty": sampling.presence_penalty, "stop": list(sampling.stop)}
    return fields | {"seed": seed_of(key)} | {name: value for name, value in asked.items() if value}


def seed_of(key: SampleKey) -> int:
    """What a server is sent as a turn's seed: 31 bits of the key's hash. How far draws follow it is the server's business."""
    return int.from_bytes(key.digest()[:4], "little") >> 1
