"""What the evaluation harness adds to a run's wall time: a policy of 500 ms a turn, 64 attempts at once.

`bare` sleeps as long as the policy would and does nothing else. `harness` is what stands behind `sanderling eval run`, with
tools that answer at once with a text as long as a page's part: the agent loop, a journal line for every turn and call,
records on disk, judging, the index, and the result at the end. `with a world` has search and visit in a world
of fifty pages under the guard in their place: what the agent's own tools take is no harness, and comes on top. Overhead = run /
bare - 1. Goal: harness below 2%.

Run on idle cores: ``OMP_NUM_THREADS=1 python benchmarks/evaluate.py``; writes ``benchmarks/results/evaluate.json``.
"""

import argparse
import asyncio
import datetime
import json
import platform
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sanderling.agent.agent import Agent
from sanderling.agent.journal import Journal
from sanderling.core.profiles import get_profile
from sanderling.core.record import Question
from sanderling.core.types import Ending, Message, Sampling, SystemClock, ToolSpec
from sanderling.evaluate.benchmarks import leaks
from sanderling.evaluate.judging import with_book
from sanderling.evaluate.log import About, RunLog, sha256_of_questions
from sanderling.evaluate.result import EvalResult
from sanderling.evaluate.run import run_evaluation
from sanderling.judge.book import ByHand
from sanderling.judge.rules import rule_judge
from sanderling.policy.contract import Completion, Finish, MessageSession, OnText, SampleKey, ScriptedPolicy, Session
from sanderling.tools.contract import Tool, ToolContext, ToolResult
from sanderling.tools.world_tools import world_tools
from sanderling.world.contract import Page
from sanderling.world.filters import GuardedWorld
from sanderling.world.guard import Blocklist, Guard
from sanderling.world.local import LocalWorld

TURN_CHARS, OBSERVATION_CHARS = 1400, 3000
"""As long as 350 and 750 tokens."""
PAGES = 50
GOAL = 0.02
OUT = Path(__file__).parent / "results" / "evaluate.json"


class SlowSession(MessageSession):
    """A branch whose every turn takes its time."""

    def __init__(self, turns: int, seconds: float) -> None:
        super().__init__()
        self._turns, self._seconds = turns, seconds

    async def _speak(self, messages: Sequence[Message], sampling: Sampling, key: SampleKey, on_text: OnText) -> Completion:
        await asyncio.sleep(self._seconds)
        text = said(key, self._turns)
        sizes = sum(len(message.content) for message in messages)
        return Completion(text=text, finish=Finish.END, prompt_tokens=sizes // 4, sampled_tokens=len(text) // 4)


class SlowPolicy(ScriptedPolicy):
    """As an endpoint would be: text in, text out, with the server's counts, after so many seconds."""

    def __init__(self, turns: int, seconds: float) -> None:
        super().__init__(lambda messages, key: "", name="slow")
        self._turns, self._seconds = turns, seconds

    def open(self, key: SampleKey) -> Session:
        return SlowSession(self._turns, self._seconds)


def said(key: SampleKey, turns: int) -> str:
    """A turn of the usual length: a search, a visit, and so on; at last an answer, right for two questions in three."""
    thought = f"<think>\n{key.question} {key.attempt} {key.turn} " + "so it goes " * (TURN_CHARS // 11) + "\n</think>\n"
    if key.turn == turns - 1:
        number = int(key.question)
        return f"{thought}<answer>{f'a{number}' if number % 3 else 'nobody'}</answer>"
    page = (int(key.question) + key.turn) % PAGES
    call: dict[str, Any] = {"name": "search", "arguments": {"query": [f"page number {page}"]}}
    if key.turn % 2:
        call = {"name": "visit", "arguments": {"url": [f"https://w.example/{page}"], "goal": "find it"}}
    return f"{thought}<tool_call>\n{json.dumps(call)}\n</tool_call>"


async def bare(attempts: int, turns: int, concurrency: int, seconds: float) -> float:
    """Wall seconds of the same waiting with nothing around it."""
    pending = iter(range(attempts))

    async def work() -> None:
        for _ in pending:
            for _ in range(turns):
                await asyncio.sleep(seconds)

    began = time.perf_counter()
    await asyncio.gather(*(work() for _ in range(concurrency)))
    return time.perf_counter() - began


@dataclass(frozen=True)
class Canned:
    """A tool that is done before it is asked."""

    spec: ToolSpec

    async def __call__(self, arguments: dict[str, Any], context: ToolContext) -> ToolResult:
        return ToolResult("and then it was told that " * (OBSERVATION_CHARS // 26))


async def run(root: Path, attempts: int, turns: int, concurrency: int, seconds: float, *, canned: bool) -> tuple[float, float]:
    """Wall and processor seconds of the whole run, its result included; not of opening the world."""
    asked = [Question(id=str(n), text=f"Which of them all is meant by number {n}, and why is that so?", answers=(f"a{n}",))
             for n in range(attempts)]  # fmt: skip
    directory, profile = RunLog(root), get_profile("dr-venus-4b")
    guard = Guard(Blocklist.parse(leaks()), {one.id: one.text for one in asked}, (), lambda line: None)
    words = "and then it was told that " * (OBSERVATION_CHARS // 26)
    pages = [Page(url=f"https://w.example/{n}", title=f"Page {n}", text=f"page number {n}. {words}") for n in range(PAGES)]
    world = GuardedWorld(LocalWorld.in_memory(pages, name="w"), guard)
    tools: dict[str, Tool] = dict(world_tools(world, profile))
    if canned:
        tools = {name: Canned(tool.spec) for name, tool in tools.items()}
    agent = Agent(SlowPolicy(turns, seconds), tools, profile, SystemClock(), world.name, world.fingerprint)
    about = About(benchmark="jsonl", questions=attempts, questions_sha256=sha256_of_questions(asked), seed=0)
    wall, processor = time.perf_counter(), time.process_time()
    with directory.exclusive():
        began = directory.begin(about, asked, 1, "benchmark")
        judges = with_book(directory, rule_judge("exact"), None, ByHand())
        with Journal(directory.root) as journal:
            await run_evaluation(directory, began, asked, agent, judges, journal, concurrency=concurrency)
    result = EvalResult.load(directory.result_file)
    if result.endings != {Ending.ANSWERED: attempts} or result.mean_turns != turns or result.unscored:
        raise RuntimeError(f"the benchmark's run went wrong: {result.endings}, {result.mean_turns} turns")
    return time.perf_counter() - wall, time.process_time() - processor


def main() -> None:
    """Measure, print, write the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--attempts", type=int, default=192)
    parser.add_argument("--turns", type=int, default=40)
    parser.add_argument("--concurrency", type=int, default=64)
    parser.add_argument("--policy-ms", type=float, default=500.0)
    parser.add_argument("--out", type=Path, default=OUT)
    chosen = parser.parse_args()
    shape = (chosen.attempts, chosen.turns, chosen.concurrency, chosen.policy_ms / 1e3)
    alone = asyncio.run(bare(*shape))
    results = {"bare": {"seconds": round(alone, 3)}}
    for name, canned in (("harness", True), ("with a world", False)):
        with tempfile.TemporaryDirectory() as place:
            wall, processor = asyncio.run(run(Path(place) / "run", *shape, canned=canned))
            size = sum(file.stat().st_size for file in (Path(place) / "run").iterdir() if file.is_file())
        results[name] = {
            "seconds": round(wall, 3),
            "overhead": round(wall / alone - 1, 4),
            "processor_ms_per_turn": round(1e3 * processor / (chosen.attempts * chosen.turns), 3),
            "written_mb": round(size / 1e6, 1),
        }
    for name, figures in results.items():
        print(name.ljust(14), *(f"{figure} {value:,}" for figure, value in figures.items()), sep="  ")
    share = results["harness"]["overhead"]
    print(f"goal: below {GOAL:.0%} of the wall time: {'met' if share < GOAL else 'MISSED'} ({share:.2%})")
    report = {
        "command": " ".join(["OMP_NUM_THREADS=1 python benchmarks/evaluate.py", *sys.argv[1:]]),
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "machine": {"cpu": _cpu(), "python": sys.version.split()[0], "system": platform.system()},
        "settings": {name: getattr(chosen, name) for name in ("attempts", "turns", "concurrency", "policy_ms")},
        "goal": GOAL,
        "results": results,
    }
    chosen.out.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")


def _cpu() -> str:
    """The processor's name, where the system tells."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text(encoding="utf-8").splitlines() if info.is_file() else []
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.processor())


if __name__ == "__main__":
    main()
