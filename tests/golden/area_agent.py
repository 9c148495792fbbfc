"""Scripted episodes of every profile, on text and on token ids; episodes killed and gone on with; the teacher's; tools.

Scripts, faults of tools and budgets come from seeded generators; each episode's record and its events are pinned by digest.
"""

import asyncio
import contextlib
import dataclasses
import datetime
import json
import random
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from goldens import digest

from sanderling.agent.agent import Agent
from sanderling.agent.journal import Journal
from sanderling.core.profiles import PROFILES as ALL_PROFILES
from sanderling.core.profiles import Profile, default_specs
from sanderling.core.record import Question, Seeds, Trajectory
from sanderling.core.types import FixedClock, Message, Reply, Sampling, ToolSpec, ToolStatus, Usage
from sanderling.policy import contract
from sanderling.runs.work import in_parallel
from sanderling.synth.chains import chain_questions
from sanderling.synth.head import ModeShares
from sanderling.synth.teacher import TeacherPolicy
from sanderling.tools.contract import Tool, ToolContext, ToolOutageError, ToolResult, tool_roles
from sanderling.tools.page_reader import PageReader, ReadingLimits
from sanderling.tools.recording import open_recording, recorded_tools
from sanderling.tools.world_tools import world_tools
from sanderling.world.contract import Page
from sanderling.world.encyclopedia import Names, generate_encyclopedia
from sanderling.world.local import LocalWorld

PROFILES = {name: profile for name, profile in ALL_PROFILES.items() if not profile.general}  # those of checkpoints

DAY = datetime.date(2026, 3, 1)
SCRIPTS = 60
QUESTION = Question(id="q1", text="Which bird crosses oceans? 矶鹬", masked_urls=("https://w.example/secret",))


# -- adapters: what may be called otherwise one day --------------------------------------------------------------------


async def episode(
    policy: contract.Policy, tools: dict[str, Tool], profile: Profile, clock: FixedClock, **options: Any
) -> Trajectory:
    """One episode through the loop."""
    agent = Agent(policy, tools, profile, clock, "w")
    return await agent.run(QUESTION, Seeds(run=1, episode=5, attempt=2), id="t1", **options)


async def many(
    asked: Sequence[Question], policy: contract.Policy, tools: dict[str, Tool], profile: Profile
) -> list[Trajectory]:
    """Several episodes at once."""
    agent, seeds = Agent(policy, tools, profile, FixedClock(DAY)), Seeds(run=3, episode=2, attempt=1)
    return await in_parallel(lambda question: agent.run(question, seeds), asked, 4)


def tools_over(world: LocalWorld, profile: Profile, reader: PageReader | None = None) -> dict[str, Tool]:
    """Search and visit over a world."""
    return world_tools(world, profile, reader)


# -- a model and tools that obey a script ------------------------------------------------------------------------------


class Bytes:
    """One id for each byte of UTF-8, and two control tokens."""

    fingerprint = "bytes"
    vocab_size = 258

    def encode(self, text: str) -> list[int]:
        return list(text.encode("utf-8", "replace"))

    def decode(self, ids: Sequence[int]) -> str:
        names = {256: b"<|im_start|>", 257: b"<|im_end|>"}
        return b"".join(names.get(i) or bytes([i]) for i in ids).decode("utf-8", errors="replace")

    def token_id(self, token: str) -> int:
        return {"<|im_start|>": 256, "<|im_end|>": 257}[token]


class Killed(Exception):
    """The process is gone."""


@dataclasses.dataclass
class Life:
    """What one process has: a clock, and how many steps are left to it."""

    clock: FixedClock
    left: int = 1_000_000

    def step(self) -> None:
        self.left -= 1
        if self.left < 0:
            raise Killed


class Model:
    """Says a script by turn and retry, and a digest of what was heard; a text of ``!`` is an outage."""

    name, version = "model", 3

    def __init__(self, script: Sequence[Sequence[str]], life: Life, *, tokens: bool, context: int | None) -> None:
        self.script, self.life, self.context_length = script, life, context
        self.tokenizer = Bytes() if tokens else None

    def open(self, key: contract.SampleKey) -> contract.Session:
        return SaidInIds(self) if self.tokenizer else SaidInText(self)

    def text(self, heard: object, key: contract.SampleKey) -> str:
        self.life.step()
        attempts = self.script[min(key.turn, len(self.script) - 1)]
        text = attempts[min(key.retry, len(attempts) - 1)]
        if text == "!":
            raise contract.PolicyOutageError("The script says so.")
        self.life.clock.advance(1.5)
        return f"{digest(heard)} {text}"


class SaidInIds(contract.TokenSession):
    """A branch of ids."""

    def __init__(self, model: Model) -> None:
        super().__init__()
        self.model = model

    async def _speak(
        self, ids: Sequence[int], sampling: Sampling, key: contract.SampleKey, on_text: Any
    ) -> contract.Completion:
        await asyncio.sleep(0)
        text, finish = self.model.text(list(ids), key), contract.Finish.END
        said = [*Bytes().encode(text), 257]
        if len(said) > sampling.max_tokens:
            said, finish = said[: sampling.max_tokens], contract.Finish.LENGTH
            text = Bytes().decode(said)
        if on_text is not None:
            on_text(text)
        numbers = tuple(-index / 8 for index in range(len(said)))
        return contract.Completion(text, finish, tuple(said), numbers, (3,) * len(said), prompt_tokens=len(ids))


class SaidInText(contract.MessageSession):
    """A branch of messages."""

    def __init__(self, model: Model) -> None:
        super().__init__()
        self.model = model

    async def _speak(
        self, messages: Sequence[Message], sampling: Sampling, key: contract.SampleKey, on_text: Any
    ) -> contract.Completion:
        await asyncio.sleep(0)
        text = "<think>" + self.model.text([(message.role, message.content) for message in messages], key)
        if on_text is not None:
            on_text(text)
        counted = {} if key.turn % 2 else {"prompt_tokens": sum(len(m.content) for m in messages) // 3, "sampled_tokens": 9}
        return contract.Completion(text, contract.Finish.END, **counted)


class Scripted:
    """A tool whose statuses, delays, lengths and outages follow from what it is asked."""

    def __init__(self, spec: ToolSpec, life: Life, *, breaks: bool) -> None:
        self.spec, self.life, self.breaks = spec, life, breaks

    async def __call__(self, arguments: dict[str, Any], context: ToolContext) -> ToolResult:
        await asyncio.sleep(0)
        self.life.step()
        asked = json.dumps(arguments, sort_keys=True)
        rng = random.Random(zlib.crc32(f"{self.spec.name} {asked} {context.occurrence}".encode()))
        self.life.clock.advance(rng.choice([0.0, 0.25, 4.0]))
        if self.breaks and rng.random() < 0.1:
            raise ToolOutageError(rng.choice(["", "The backend is gone."]))
        if rng.random() < 0.05:
            await asyncio.sleep(30)
        said = dataclasses.replace(context, deadline_s=None)
        text = f"{said.ordinal} {said.occurrence} {sorted(said.masked_urls)} {asked}\n" + "mud flats é " * rng.choice(
            [1, 5, 90]
        )
        arguments.clear()
        status = rng.choice([*[ToolStatus.OK] * 4, ToolStatus.EMPTY, ToolStatus.TIMEOUT, ToolStatus.RATE_LIMITED])
        return ToolResult(text, status, rng.choice([0.0, 0.5]), ("https://w.example/1",), (status, ToolStatus.OK))


# -- scripts and settings ----------------------------------------------------------------------------------------------


def script(rng: random.Random, profile: Profile) -> list[list[str]]:
    """Turns with their attempts."""
    names = profile.tools

    def call() -> str:
        search = {"name": names.search, "arguments": {rng.choice(["query", "queries"]): [f"tides {rng.randrange(6)}"]}}
        visit = {"name": names.visit, "arguments": {names.visit_url: f"https://w.example/{rng.randrange(4)}", "goal": "mud"}}
        return (
            f"<tool_call>\n{json.dumps(rng.choice([search, search, visit, {'name': 'dance', 'arguments': {}}]))}\n</tool_call>"
        )

    def attempt() -> str:
        kind = rng.random()
        if kind < 0.55:
            return "look\n</think>\n" + "\n".join(call() for _ in range(rng.choice([1, 1, 1, 2, 3])))
        if kind < 0.65:
            return f"look\n</think>\n{call()}<answer>both</answer>"
        odd = ["hmm</think> let me see", "never closed " + call(), "round and round the garden like a teddy bear went " * 8]
        odd += [
            "x</think><answer></answer>", "x</think><tool_call>{broken</tool_call>", "x</think><answer>cut",
            "a <tool_response>b",
        ]  # fmt: skip
        if kind < 0.9:
            return rng.choice(odd)
        return "!" if kind > 0.99 else f"sure\n</think>\n<answer>\nThe sanderling {rng.randrange(9)}\n</answer>"

    return [[attempt() for _ in range(rng.randint(1, 3))] for _ in range(rng.randint(2, 12))]


def changed(profile: Profile, rng: random.Random, system_tokens: int) -> Profile:
    """The profile with smaller budgets, of which one or another is soon spent."""
    budgets = {
        "max_turns": rng.choice([2, 4, 8, 200]),
        "max_context_tokens": system_tokens + rng.choice([100, 900, 2_500, 60_000]),
        "answer_reserve_tokens": rng.choice([40, 200, 900]),
        "max_seconds": rng.choice([None, None, 6.0, 15.0]),
        "tool_timeout_s": 0.05,
        "force_answer": rng.random() < 0.8,
    }
    guards = {
        "max_retries": rng.randrange(3),
        "max_repeated_calls": rng.choice([1, 2, 8]),
        "max_malformed": rng.choice([1, 2, 5]),
    }
    update = {
        "budgets": profile.budgets.model_copy(update=budgets),
        "guards": profile.guards.model_copy(update=guards),
        "sampling": profile.sampling.model_copy(update={"max_tokens": rng.choice([120, 400, 4_000])}),
        "think_prefix": rng.choice(["<think>\n", "<think>\n", ""]),
    }
    return profile.model_copy(update=update)


@dataclasses.dataclass
class Play:
    """One scripted episode."""

    number: int
    name: str
    tokens: bool

    async def run(self, life: Life, **options: Any) -> tuple[Trajectory, list[Any]]:
        """Its record and events."""
        rng = random.Random(f"{self.number} {self.name}")
        named = PROFILES[self.name]
        profile = changed(named, rng, len(named.system_prompt) // (1 if self.tokens else 4) + (1_800 if self.tokens else 450))
        turns, breaks, context = script(rng, profile), rng.random() < 0.4, rng.choice([None, None, 5_000])
        policy = Model(turns, life, tokens=self.tokens, context=context)
        tools: dict[str, Tool] = {spec.name: Scripted(spec, life, breaks=breaks) for spec in default_specs(profile)}
        events: list[Any] = []
        on_event = options.pop("on_event", lambda event: None)

        def watch(event: Any) -> None:
            events.append([type(event).__name__, {} if hasattr(event, "trajectory") else dataclasses.asdict(event)])
            on_event(event)

        return await episode(policy, tools, profile, life.clock, on_event=watch, **options), events


def pinned(trajectory: Trajectory) -> list[Any]:
    """A record in short: how it ended, how long it is, and a digest of all of it."""
    return [trajectory.ending, len(trajectory.nodes), digest(trajectory.model_dump(mode="json"))]


async def played(play: Play) -> list[Any]:
    """One episode from its start to its end."""
    found, events = await play.run(Life(FixedClock(DAY)))
    told = json.loads(json.dumps(events, default=lambda value: getattr(value, "__dict__", str(value))))
    return [*pinned(found), digest(told)]


async def stopped(play: Play, at: int) -> list[Any]:
    """The same episode stopped at an event, asked to finish there, and its task cancelled there."""
    said: list[Any] = []
    running: list[asyncio.Future[Any]] = []
    for way in ("cancel", "finish_early", "task"):
        flag, kept, count = asyncio.Event(), [], 0

        def watch(event: object, way: str = way, flag: asyncio.Event = flag) -> None:
            nonlocal count
            count += 1
            if count == at:
                flag.set()
                if way == "task":
                    running[0].cancel()

        options: dict[str, Any] = {"on_event": watch, "on_cancel": kept.append}
        if way != "task":
            options[way] = flag
        running[:] = [asyncio.ensure_future(play.run(Life(FixedClock(DAY)), **options))]
        with contextlib.suppress(asyncio.CancelledError):
            kept = [(await running[0])[0]]
        said.append([pinned(found) for found in kept])
    return said


async def resumed(play: Play, directory: Path) -> list[Any]:
    """The same episode in processes that are killed again and again; the last record, and how many it took."""
    for lives in range(1, 100):
        with Journal(directory) as journal:
            try:
                found, _ = await play.run(Life(FixedClock(DAY, seconds=64.0 * lives), left=lives), journal=journal)
            except Killed:
                continue
            journal.forget(found)
        return [*pinned(found), lives]
    raise AssertionError


# -- the teacher, tools over a world, the page reader ------------------------------------------------------------------


async def teacher() -> dict[str, Any]:
    """Trajectories of the teacher over an encyclopedia, with its faults and without."""
    encyclopedia = generate_encyclopedia(150, 4, Names.HELD_OUT)
    world = LocalWorld.in_memory((item.page for item in encyclopedia.pages), name=encyclopedia.name)
    questions = chain_questions(encyclopedia, 40, 1, {1: 0.3, 2: 0.4, 3: 0.3})
    by_id, tiny = {question.id: question for question in questions}, PROFILES["tiny"]
    cases: dict[str, Any] = {"questions": digest([question.model_dump(mode="json") for question in questions])}
    none = ModeShares(first_result=0, trust_snippet=0, stop_early=0, repeat_call=0, slip=0)
    for name, shares in (("faultless", none), ("faulty", ModeShares()), ("slips", ModeShares(slip=0.5, repeat_call=0.5))):
        found = await many(questions, TeacherPolicy(encyclopedia, by_id, shares), tools_over(world, tiny), tiny)
        cases[f"teacher {name}"] = [digest(trajectory.model_dump(mode="json")) for trajectory in found]
        cases[f"teacher {name} is right"] = sum(one.answer in one.question.answers for one in found)
    return cases


TEXT = (
    "# Orlo\n\nOrlo is a town by the sea. It has a café, “old” as the sea; it never closes.\n\n## History\n\nAnna Bel founded "
    "the town hall in 1903 with [Ivo Kern](https://w.example/Ivo_(mason)). It burnt in 1911 — and was “rebuilt” by 1920.\n\n"
    "## Trade\n\n| Year | Boats |\n|---|---|\n| 1903 | 12 |\n| 1911 | 7 |\n\nHerring   is\nsold at the café. 矶鹬在潮间带觅食。"
)
PAGES = [
    Page(url=f"https://w.example/{n}", title=f"Orlo {n}", text=TEXT.replace("Orlo", f"Orlo{n} Orlo") * (1 + 9 * (n % 3 == 2)))
    for n in range(6)
]


class ScriptedReader:
    """A model that quotes from what it is shown, more or less well."""

    name, place = "reader", ""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng

    async def ask(self, messages: Sequence[Message], **_: object) -> Reply:
        rng = self.rng
        shown = messages[-1].content
        quotes = []
        for _ in range(rng.randrange(5)):
            at = rng.randrange(len(shown))
            quote = shown[at : at + rng.randint(5, 160)]
            quotes.append(
                rng.choice([quote, quote.upper(), quote.replace("—", "-"), quote[:30] + " ... " + quote[-30:], "Nothing."])
            )
        reply = json.dumps(
            {"rationale": "Because.", "evidence": quotes, "summary": "A town. It has a sea. " * rng.randrange(4)}
        )
        said = rng.choice([reply, reply, reply, f"```json\n{reply}\n```", "no", f"Well.</think>{reply}", reply[:-1] + ",}"])
        return Reply(said, Usage("reader"))


CALLS = [
    {"x": 1}, {"{q}": []}, {"{q}": "orlo sea"}, {"{q}": ["orlo sea", "herring 1911", "nothing there zzz"]},
    {"{q}": ["a", ""]}, {"{q}": [" b\ud83d"]},
]  # fmt: skip
VISITS = [
    {"{u}": "https://w.example/1"},
    {"{u}": ["https://w.example/2#page=2", "https://w.example/9", "https://w.example/2"], "{g}": "town hall"},
]
VISITS += [
    {"{u}": ["https://w.example/3"], "{g}": 4},
    {"{u}": ["https://w.example/4", "https://w.example/5#page=7"], "{g}": "boats 1911"},
]


async def tool_calls(scratch: Path) -> dict[str, Any]:
    """What search and visit return in every profile, with and without a page reader, recorded."""
    world = LocalWorld.in_memory(PAGES, name="orlo")
    cases: dict[str, Any] = {}
    contexts = [ToolContext(), ToolContext(masked_urls=frozenset({"https://w.example/2"}), deadline_s=0.0)]
    for (name, profile), parts, reads in (
        (item, *way) for item in PROFILES.items() for way in ((0, 0), (1, 0), (1, 1), (0, 1))
    ):
        profile = profile.model_copy(update={"visit_parts": bool(parts), "visit_words": min(profile.visit_words, 300)})
        limits = ReadingLimits(part_words=150)
        reader = PageReader(ScriptedReader(random.Random(name)), limits=limits) if reads else None
        log = open_recording(scratch / f"{name}-{parts}-{reads}.jsonl")
        tools = recorded_tools(tools_over(world, profile, reader), tool_roles(profile), log, episode="e", question="q")
        slots = {"{q}": profile.tools.search_query, "{u}": profile.tools.visit_url, "{g}": profile.tools.visit_goal}
        results = []
        for tool, calls in ((profile.tools.search, CALLS), (profile.tools.visit, VISITS)):
            for context in contexts:
                for call in calls:
                    results.append(await tools[tool]({slots.get(key, key): value for key, value in call.items()}, context))
        case = f"tools {name} parts={parts} reader={reads}"
        cases[case] = [[str(result.status), digest(dataclasses.asdict(result))] for result in results]
        if reader is not None:
            counts = reader.counts
            cases[f"{case} counts"] = [
                counts.pages, counts.asked, counts.kept, counts.dropped, dict(sorted(counts.fallbacks.items())),
            ]  # fmt: skip
        cases[f"{case} schemas"] = digest([tool.spec.model_dump() for tool in tools.values()])
    return cases


def plays() -> Iterator[Play]:
    """All scripted episodes."""
    for name in PROFILES:
        for number in range(SCRIPTS):
            yield Play(number, name, tokens=number % 3 < 2)


async def made(scratch: Path) -> dict[str, Any]:
    """The area's cases."""
    cases = {**await teacher(), **await tool_calls(scratch)}
    for play in plays():
        case = f"episode {play.name} {play.number:02}"
        cases[case] = await played(play)
        if play.number % 6 == 0:
            cases[f"{case} stopped"] = [await stopped(play, at) for at in (2, 7)]
        if play.number % 4 == 1:
            cases[f"{case} resumed"] = await resumed(play, scratch / f"{play.name}-{play.number}.journal")
    return cases


def make(scratch: Path, recorded: Path | None) -> dict[str, Any]:
    """The area's cases."""
    return asyncio.run(made(scratch))
