"""Fakes at the loop's real seams: a byte tokenizer, a token-level policy that counts, tools that obey a script."""

import asyncio
import datetime
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from sanderling.agent.agent import Agent
from sanderling.core.profiles import Profile, get_profile
from sanderling.core.record import NodeKind, Question, Seeds, Trajectory
from sanderling.core.types import FixedClock, Sampling, ToolSpec
from sanderling.policy import contract
from sanderling.policy.contract import Completion, Delta, Finish, OnText, PolicyOutageError, SampleKey, ScriptedPolicy, Session
from sanderling.tools.contract import ToolContext, ToolResult

CLOCK_DAY = datetime.date(2026, 3, 1)


class ByteTokenizer:
    """One id for each byte of UTF-8, and two control tokens."""

    fingerprint = "bytes"
    vocab_size = 258
    start, end = 256, 257

    def encode(self, text: str) -> list[int]:
        return list(text.encode("utf-8"))

    def decode(self, ids: Sequence[int]) -> str:
        names = {self.start: b"<|im_start|>", self.end: b"<|im_end|>"}
        return b"".join(names.get(i) or bytes([i]) for i in ids).decode("utf-8", errors="replace")

    def token_id(self, token: str) -> int:
        return {"<|im_start|>": self.start, "<|im_end|>": self.end}[token]


class TokenSession(contract.TokenSession):
    """Says the policy's next turn."""

    def __init__(self, policy: "TokenPolicy") -> None:
        super().__init__()
        self.policy = policy

    async def generate(self, delta: Delta, sampling: Sampling, key: SampleKey, on_text: OnText = None) -> Completion:
        self.policy.calls.append((delta, sampling, key))
        return await super().generate(delta, sampling, key, on_text)

    async def _speak(self, ids: Sequence[int], sampling: Sampling, key: SampleKey, on_text: OnText) -> Completion:
        await asyncio.sleep(0)
        policy = self.policy
        if not policy.turns:
            raise PolicyOutageError("The fake has no more turns.")
        text = policy.turns.pop(0)
        said, finish = (*policy.tokenizer.encode(text), policy.tokenizer.end), Finish.END
        if len(said) > sampling.max_tokens:
            said, finish = said[: sampling.max_tokens], Finish.LENGTH
            text = policy.tokenizer.decode(said)
        policy.seen.append([*ids, *said])
        if on_text is not None:
            on_text(text)
        probabilities, versions = (-0.5,) * len(said), (policy.version,) * len(said)
        return Completion(text, finish, said, probabilities, versions, len(ids) - self.mark(), len(ids))

    def close(self) -> None:
        self.policy.closed += 1


class TokenPolicy:
    """A token-level policy with a list of turns; records every delta, sampling and key, and what was seen after each turn."""

    name = "tokens"
    version = 7

    def __init__(self, turns: Sequence[str], context_length: int | None = None) -> None:
        self.turns = list(turns)
        self.context_length = context_length
        self.tokenizer = ByteTokenizer()
        self.calls: list[tuple[Delta, Sampling, SampleKey]] = []
        self.seen: list[list[int]] = []
        self.closed = 0

    def open(self, key: SampleKey) -> Session:
        return TokenSession(self)


def in_order(turns: Sequence[str]) -> ScriptedPolicy:
    """A text-level policy that says the turns one after the other, rewound or not, and then is out of order."""
    left = iter(turns)

    def reply(messages: object, key: SampleKey) -> str:
        for turn in left:
            return turn
        raise PolicyOutageError("The script has no more turns.")

    return ScriptedPolicy(reply, "list")


class FakeTool:
    """Answers with a function of arguments and context; remembers both."""

    def __init__(self, name: str, reply: Callable[[dict[str, Any], ToolContext], Any]) -> None:
        self.spec = ToolSpec(name=name, description=name, parameters={"type": "object", "properties": {}})
        self.reply = reply
        self.made: list[tuple[dict[str, Any], ToolContext]] = []

    async def __call__(self, arguments: dict[str, Any], context: ToolContext) -> ToolResult:
        self.made.append((arguments, context))
        result = self.reply(arguments, context)
        if isinstance(result, Awaitable):
            result = await result
        return result if isinstance(result, ToolResult) else ToolResult(text=str(result))


def echo(name: str = "search") -> FakeTool:
    """A tool that says what it was asked."""
    return FakeTool(name, lambda arguments, context: f"found {arguments['query']}")


def call(query: str = "tides", name: str = "search", think: str = "look") -> str:
    """A turn that searches, as a model with an open think prefix says it."""
    return f'{think}\n</think>\n<tool_call>\n{{"name": "{name}", "arguments": {{"query": ["{query}"]}}}}\n</tool_call>'


def answer(text: str = "Paris") -> str:
    """A turn that answers."""
    return f"done\n</think>\n<answer>{text}</answer>"


def fake_profile(
    *, guards: dict[str, Any] | None = None, budgets: dict[str, Any] | None = None, max_tokens: int = 400, **fields: Any
) -> Profile:
    """The tiny profile with a wide context and these fields changed."""
    tiny = get_profile("tiny")
    wide = {"max_turns": 8, "max_context_tokens": 20_000, "answer_reserve_tokens": 200, **(budgets or {})}
    update = {
        "guards": tiny.guards.model_copy(update=guards or {}),
        "budgets": tiny.budgets.model_copy(update=wide),
        "sampling": Sampling(max_tokens=max_tokens),
        "think_prefix": "<think>\n",
        **fields,
    }
    return tiny.model_copy(update=update)


async def play(
    turns: Sequence[str] | TokenPolicy | ScriptedPolicy, *tools: FakeTool, profile: Profile | None = None, **kwargs: Any
) -> Trajectory:
    """Run one episode over the fakes."""
    policy = TokenPolicy(turns) if isinstance(turns, list) else turns
    question = kwargs.pop("question", Question(id="q1", text="Where?"))
    clock, world = kwargs.pop("clock", FixedClock(CLOCK_DAY)), kwargs.pop("world", "")
    settings: dict[str, Any] = {"seeds": Seeds(run=1, episode=5, attempt=2), "id": "t1", **kwargs}
    agent = Agent(policy, {tool.spec.name: tool for tool in tools or (echo(),)}, profile or fake_profile(), clock, world)
    return await agent.run(question, **settings)


BOTH = 'x\n</think>\n<tool_call>\n{"name": "search", "arguments": {"query": ["a"]}}\n</tool_call>\n<answer>b</answer>'
NEITHER = "hmm\n</think>\nlet me see"
LOOP = "z" * 20 + "round and round the garden like a teddy bear it went, " * 7


def kinds(trajectory: Trajectory) -> list[NodeKind]:
    """Kinds along the main branch."""
    return [node.kind for node in trajectory.branch()]


SYS, ASK, SAY, OBS = NodeKind.SYSTEM, NodeKind.QUESTION, NodeKind.TURN, NodeKind.OBSERVATION
