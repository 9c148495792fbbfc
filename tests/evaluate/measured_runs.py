"""A run of an evaluation that a test can kill: scripted turns through the real loop, outages that follow from the attempt."""

import asyncio
import datetime
import os
import random
import signal
from collections.abc import Sequence
from pathlib import Path

from sanderling.agent.agent import Agent
from sanderling.agent.journal import Journal
from sanderling.core.profiles import get_profile
from sanderling.core.record import Question
from sanderling.core.types import FixedClock, Message
from sanderling.evaluate.attempts import Made, Watch
from sanderling.evaluate.judging import Judges
from sanderling.evaluate.log import About, RunLog, sha256_of_questions
from sanderling.evaluate.result import EvalResult
from sanderling.evaluate.run import run_evaluation
from sanderling.judge.rules import RuleJudge, exact_match
from sanderling.policy.contract import PolicyOutageError, SampleKey, ScriptedPolicy
from sanderling.tools.world_tools import world_tools
from sanderling.world.contract import Page
from sanderling.world.local import LocalWorld

PROFILE = get_profile("tiny")
SEED = 3
DOWN, FLAKY = 0.1, 0.1
"""Shares of attempts whose server never answers, and whose server fails once and then answers."""


def questions(count: int) -> list[Question]:
    return [
        Question(id=f"q{i}", text=f"What is number {i}?", answers=(f"a{i}",), meta={"level": str(i % 3)}) for i in range(count)
    ]


class Server:
    """What an attempt meets follows from its name and from how often it was asked; the count outlives the process in files."""

    def __init__(self, place: Path, die_after: int | None) -> None:
        self.place, self.left = place, die_after
        place.mkdir(parents=True, exist_ok=True)

    def reply(self, messages: Sequence[Message], key: SampleKey) -> str:
        del messages
        dice = random.Random(f"{key.question} {key.attempt}")
        fate, right = dice.random(), dice.random() < 0.6
        if fate < DOWN or (fate < DOWN + FLAKY and key.turn == 1 and self._first(key)):
            raise PolicyOutageError("the server is away")
        if self.left is not None:
            self.left -= 1
            if self.left < 0:
                os.kill(os.getpid(), signal.SIGKILL)
        with (self.place / "turns").open("a") as file:
            file.write(f"{key.question} {key.attempt} {key.turn}\n")
        if key.turn < 2:
            call = f'{{"name": "search", "arguments": {{"query": ["{key.question} {key.turn}"]}}}}'
            return f"<think>\nlook\n</think>\n<tool_call>\n{call}\n</tool_call>"
        answer = f"a{key.question[1:]}" if right else "something else"
        return f"<think>\nso\n</think>\n<answer>{answer}</answer>"

    def _first(self, key: SampleKey) -> bool:
        seen = self.place / f"{key.question}-{key.attempt}"
        known = seen.exists()
        seen.touch()
        return not known


async def go(
    root: Path, count: int, attempts: int, die_after: int | None = None, watch: Watch | None = None
) -> tuple[Made, EvalResult]:
    """Begin a run, or go on with it."""
    asked = questions(count)
    directory = RunLog(root)
    about = About(benchmark="jsonl", questions=count, questions_sha256=sha256_of_questions(asked), seed=SEED)
    server = Server(root.with_name(f"{root.name}.server"), die_after)
    pages = [Page(url=f"https://w.example/{i}", title=f"Page {i}", text=f"number {i} is a{i}") for i in range(20)]
    world = LocalWorld.in_memory(pages, name="w")
    clock = FixedClock(datetime.date(2026, 1, 1))
    agent = Agent(ScriptedPolicy(server.reply), world_tools(world, PROFILE), PROFILE, clock, "w", "f")
    with directory.exclusive():
        begun = directory.begin(about, asked, attempts, "test")
        judges = Judges(RuleJudge("exact", exact_match))
        with Journal(directory.root) as journal:
            made = await run_evaluation(directory, begun, asked, agent, judges, journal, pauses=[0.0], watch=watch)
    return made, EvalResult.load(directory.result_file)


def live(root: Path, count: int, attempts: int, die_after: int) -> None:
    """Begin a run or go on with it, and die by SIGKILL after so many turns."""
    asyncio.run(go(root, count, attempts, die_after))
