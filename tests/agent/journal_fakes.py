"""Processes that end at a chosen moment, and a policy that proves what its session has heard: for the journal's tests."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from loop_fakes import BOTH, CLOCK_DAY, NEITHER, ByteTokenizer, FakeTool, answer, call, fake_profile

from sanderling.agent.agent import Agent
from sanderling.agent.journal import Journal, digest
from sanderling.agent.loop import Event
from sanderling.core.profiles import Profile
from sanderling.core.record import Question, Seeds, Trajectory
from sanderling.core.types import FixedClock, Message, Sampling
from sanderling.policy.contract import (
    Completion,
    Delta,
    Finish,
    MessageSession,
    OnText,
    PolicyOutageError,
    SampleKey,
    Session,
    TokenSession,
)
from sanderling.tools.contract import ToolContext, ToolResult

TWO = call("a") + call("b").removeprefix("look\n</think>")
GUARDS = {"max_retries": 2, "max_malformed": 2, "max_repeated_calls": 2}
PROFILE = fake_profile(guards=GUARDS, budgets={"max_turns": 5})
Script = Sequence[Sequence[str]]
PLAIN = [[call("a")], [TWO], [NEITHER, BOTH, call("c")], [answer("x")]]
"""Search; two calls; two rejected attempts and a search; answer."""


class Killed(Exception):
    """The process is gone."""


class Life:
    """One process: it ends at its n-th sign of life, and knows what it finished."""

    def __init__(self, length: int | None = None) -> None:
        self.left = length
        self.clock = FixedClock(CLOCK_DAY, seconds=0.0 if length is None else 64.0 * length)
        self.said: list[tuple[int, int]] = []
        self.called: list[int] = []
        self.events: list[Event] = []

    def breathe(self) -> None:
        if self.left is not None:
            self.left -= 1
            if self.left < 0:
                raise Killed

    def on_event(self, event: Event) -> None:
        self.breathe()
        self.events.append(event)

    def tool(self) -> FakeTool:
        async def reply(arguments: dict[str, Any], context: ToolContext) -> ToolResult:
            self.breathe()
            await asyncio.sleep(0)
            self.clock.advance(0.25)
            self.called.append(context.ordinal)
            text = f"{context.ordinal}.{context.occurrence}: {arguments} \x00é\u2028"
            return ToolResult(text, latency_s=0.1, provenance=(f"https://w.example/{context.ordinal}",))

        return FakeTool("search", reply)


class Speaker:
    """Says a script by turn and retry, and in each turn a digest of all that its session has heard and said."""

    version = 3
    context_length = None

    def __init__(self, script: Script, life: Life, *, tokens: bool = True, name: str = "speaker") -> None:
        self.script, self.life, self.name = script, life, name
        self.tokenizer = ByteTokenizer() if tokens else None
        self.deltas: list[Delta] = []

    def open(self, key: SampleKey) -> Session:
        return SpokenTokens(self) if self.tokenizer is not None else SpokenMessages(self)

    async def text(self, heard: object, key: SampleKey, on_text: OnText) -> str:
        self.life.breathe()
        await asyncio.sleep(0)
        attempts = self.script[key.turn] if key.turn < len(self.script) else [answer()]
        if key.retry >= len(attempts):
            raise PolicyOutageError("No more attempts.")
        text = f"{digest(heard)} {attempts[key.retry]}"
        if on_text is not None:
            on_text(text)
        self.life.clock.advance(1.0)
        self.life.said.append((key.turn, key.retry))
        return text


class SpokenTokens(TokenSession):
    """Counts what it computes as an in-process model does."""

    def __init__(self, speaker: Speaker) -> None:
        super().__init__()
        self.speaker = speaker
        self.cached = 0

    async def generate(self, delta: Delta, sampling: Sampling, key: SampleKey, on_text: OnText = None) -> Completion:
        self.speaker.deltas.append(delta)
        self.recalled = delta.recalled
        return await super().generate(delta, sampling, key, on_text)

    async def _speak(self, ids: Sequence[int], sampling: Sampling, key: SampleKey, on_text: OnText) -> Completion:
        text = await self.speaker.text(list(ids), key, on_text)
        said = (*ByteTokenizer().encode(text), ByteTokenizer.end)
        prefilled = len(ids) - self.cached
        self.cached = len(ids) + len(said) - 1
        logprobs = tuple(-i / 7 for i in range(len(said)))
        new = max(0, prefilled - self.recalled)
        return Completion(text, Finish.END, said, logprobs, (3,) * len(said), prefilled_tokens=new, prompt_tokens=len(ids))

    def rewind(self, mark: int) -> None:
        super().rewind(mark)
        self.cached = min(self.cached, mark)


class SpokenMessages(MessageSession):
    def __init__(self, speaker: Speaker) -> None:
        super().__init__()
        self.speaker = speaker

    async def _speak(self, messages: Sequence[Message], sampling: Sampling, key: SampleKey, on_text: OnText) -> Completion:
        text = "<think>" + await self.speaker.text([(m.role, m.content) for m in messages], key, on_text)
        seen = sum(len(m.content) for m in messages) // 4
        return Completion(text, Finish.END, prefilled_tokens=3, prompt_tokens=seen, sampled_tokens=len(text) // 4)


async def live(policy: Speaker, journal: Journal | None = None, *, profile: Profile = PROFILE, **changed: Any) -> Trajectory:
    """One life of the episode, to its end or its kill."""
    question = changed.pop("question", "Where?")
    tools, world = changed.pop("tools", {"search": policy.life.tool()}), changed.pop("world", "")
    fixed: dict[str, Any] = {
        "id": "e/1", "seeds": Seeds(run=1, attempt=2), "on_event": policy.life.on_event, "journal": journal,
    }  # fmt: skip
    asked = Question(id="q", text=question, masked_urls=("https://w.example/secret",))
    return await Agent(policy, tools, profile, policy.life.clock, world).run(asked, **{**fixed, **changed})


async def lives(script: Script, lengths: Sequence[int], directory: Path, **options: Any) -> tuple[Trajectory, list[Life]]:
    """Lives after another, the last of them long enough; and all of them."""
    tokens = options.pop("tokens", True)
    lived: list[Life] = []
    for length in (*lengths, None):
        life = Life(length)
        lived.append(life)
        with Journal(directory) as journal:
            try:
                done = await live(Speaker(script, life, tokens=tokens), journal, **options)
            except Killed:
                continue
            journal.stored(done)
            return done, lived
    raise AssertionError
