"""What the research loop itself costs: everything between one generation and the next but tools and tokenisation.

A token-level fake policy returns ready-made ids at once; the time spent in it, in the fake tool and in the tokenizer is
subtracted. Turns are as long as real ones (350 sampled tokens with log-probabilities, observations of 750 tokens), so that 200
turns fill 220,000 tokens of context. Goal: below 1 ms a turn at 200 turns, and no dearer at the end than at the beginning.

Run: ``OMP_NUM_THREADS=1 python benchmarks/loop.py``; writes ``benchmarks/results/loop.json``.
"""

import asyncio
import datetime
import json
import platform
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sanderling.agent.agent import Agent
from sanderling.agent.loop import Event
from sanderling.core.profiles import get_profile
from sanderling.core.record import Question, Seeds, Trajectory
from sanderling.core.types import Ending, FixedClock, Sampling, ToolSpec
from sanderling.policy.contract import Completion, Delta, Finish, SampleKey
from sanderling.tools.contract import ToolContext, ToolResult

TURN_TOKENS, OBSERVATION_TOKENS, CHARS_PER_TOKEN = 350, 750, 4
TURNS = (25, 50, 100, 200)
REPEATS = 5
GOAL_MS = 1.0
OUT = Path(__file__).parent / "results" / "loop.json"


@dataclass
class Stopwatch:
    """Seconds that are not the loop's: in the policy, the tool and the tokenizer."""

    outside: float = 0.0
    marks: list[float] = field(default_factory=list)
    """The loop's own seconds so far, at each generation."""
    started: float = 0.0

    def start(self) -> None:
        self.outside, self.started = 0.0, time.perf_counter()
        self.marks.clear()

    def own(self, now: float) -> float:
        return now - self.started - self.outside


class CannedTokenizer:
    """Gives as many ids as a real tokenizer would, without the work."""

    fingerprint = "canned"
    vocab_size = 151_936

    def __init__(self, watch: Stopwatch) -> None:
        self._watch = watch
        self._ids = list(range(100, 100 + 50_000))

    def encode(self, text: str) -> list[int]:
        began = time.perf_counter()
        ids = self._ids[: len(text) // CHARS_PER_TOKEN + 1]
        self._watch.outside += time.perf_counter() - began
        return ids

    def decode(self, ids: Sequence[int]) -> str:
        raise NotImplementedError("the loop never decodes")

    def token_id(self, token: str) -> int:
        return {"<|im_start|>": 1, "<|im_end|>": 2}[token]


class CannedPolicy:
    """A session and its policy in one: searches ``turns - 1`` times, then answers."""

    name, version, context_length = "canned", 0, None

    def __init__(self, turns: int, watch: Stopwatch) -> None:
        self.tokenizer = CannedTokenizer(watch)
        self._turns, self._watch = turns, watch
        self._thought = "The river must be checked against the list again. "
        self._logprobs = tuple(-0.25 - index / 1e6 for index in range(TURN_TOKENS))
        self._ids = (*range(100, 100 + TURN_TOKENS - 1), 2)
        self._versions = (0,) * TURN_TOKENS

    def open(self, key: SampleKey) -> "CannedPolicy":
        return self

    async def generate(
        self, delta: Delta, sampling: Sampling, key: SampleKey, on_text: Callable[[str], None] | None = None
    ) -> Completion:
        began = time.perf_counter()
        self._watch.marks.append(self._watch.own(began))
        action = f'<tool_call>\n{{"name": "search", "arguments": {{"query": ["query {key.turn}"]}}}}\n</tool_call>'
        if key.turn == self._turns - 1:
            action = "<answer>the Kent</answer>"
        thought = "".join(f"{index} {self._thought}" for index in range(TURN_TOKENS * CHARS_PER_TOKEN // 54))
        completion = Completion(
            text=f"{thought}\n</think>\n{action}",
            finish=Finish.END,
            token_ids=self._ids,
            logprobs=self._logprobs,
            versions=self._versions,
            prefilled_tokens=len(delta.token_ids or ()),
        )
        self._watch.outside += time.perf_counter() - began
        return completion

    def mark(self) -> int:
        return 0

    def rewind(self, mark: int) -> None:
        raise NotImplementedError("nothing is tried again here")

    def close(self) -> None:
        """Nothing to free."""


class CannedTool:
    """Returns a page of the usual length at once."""

    spec = ToolSpec(name="search", description="search", parameters={"type": "object", "properties": {}})

    def __init__(self, watch: Stopwatch) -> None:
        self._watch = watch
        self._page = ("A list of rivers and the villages on them. " * 200)[: OBSERVATION_TOKENS * CHARS_PER_TOKEN]

    async def __call__(self, arguments: dict[str, Any], context: ToolContext) -> ToolResult:
        began = time.perf_counter()
        result = ToolResult(text=f"{context.ordinal} {self._page}", provenance=("https://example.org/rivers",))
        self._watch.outside += time.perf_counter() - began
        return result


async def episode(turns: int, watch: Stopwatch, on_event: Callable[[Event], None] | None) -> Trajectory:
    """One episode of ``turns`` turns."""
    watch.start()
    done = await Agent(
        CannedPolicy(turns, watch),
        {"search": CannedTool(watch)},
        get_profile("dr-venus-4b"),
        FixedClock(datetime.date(2026, 3, 1)),
    ).run(Question(id="q", text="Which river?"), Seeds(), id="t", on_event=on_event)
    watch.marks.append(watch.own(time.perf_counter()))
    if done.ending is not Ending.ANSWERED or len(list(done.turns())) != turns:
        raise RuntimeError(f"the benchmark's episode ended {done.ending} after {len(list(done.turns()))} turns")
    return done


def measure(turns: int, on_event: Callable[[Event], None] | None = None) -> dict[str, float]:
    """Milliseconds of the loop's own, medians over repeats."""
    rows: list[dict[str, float]] = []
    for _ in range(REPEATS + 1):
        watch = Stopwatch()
        done = asyncio.run(episode(turns, watch, on_event))
        steps = [1e3 * (after - before) for before, after in zip(watch.marks[:-1], watch.marks[1:], strict=True)]
        quarter = max(1, turns // 4)
        rows.append(
            {
                "context_tokens": float(len(done.token_ids() or ())),
                "ms_per_turn": 1e3 * watch.marks[-1] / turns,
                "first_quarter_ms_per_turn": statistics.mean(steps[:quarter]),
                "last_quarter_ms_per_turn": statistics.mean(steps[-quarter - 1 : -1]),
                "opening_ms": 1e3 * watch.marks[0],
                "last_turn_and_record_ms": steps[-1],
            }
        )
    return {key: statistics.median(row[key] for row in rows[1:]) for key in rows[0]}  # the first run warms up


def main() -> None:
    """Measure, print the table, write the results."""
    table = {f"{turns} turns": measure(turns) for turns in TURNS}
    table["200 turns, watched"] = measure(200, on_event=lambda event: None)
    columns = list(next(iter(table.values())))
    print("".ljust(20), *(column.rjust(26) for column in columns))
    for name, row in table.items():
        print(name.ljust(20), *(f"{row[column]:26.3f}" for column in columns))
    figure = table["200 turns"]["ms_per_turn"]
    print(f"goal: below {GOAL_MS} ms a turn at 200 turns: {'met' if figure < GOAL_MS else 'MISSED'} ({figure:.3f} ms)")
    OUT.parent.mkdir(parents=True, exist_ok=True)
    report = {
        "command": "OMP_NUM_THREADS=1 python benchmarks/loop.py",
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "machine": {"cpu": _cpu(), "python": sys.version.split()[0], "system": platform.system()},
        "settings": {
            "turn_tokens": TURN_TOKENS,
            "observation_tokens": OBSERVATION_TOKENS,
            "repeats": REPEATS,
            "statistic": "median",
        },
        "goal_ms_per_turn": GOAL_MS,
        "results": {name: {key: round(value, 4) for key, value in row.items()} for name, row in table.items()},
    }
    OUT.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")


def _cpu() -> str:
    """The processor's name, where the system tells."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text(encoding="utf-8").splitlines() if info.is_file() else []
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.processor())


if __name__ == "__main__":
    main()
