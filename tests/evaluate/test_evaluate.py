"""``evaluate(agent, questions) -> Result``, as another program calls it."""

import asyncio
import datetime
from collections.abc import Sequence
from pathlib import Path

import pytest

from sanderling.agent.agent import Agent
from sanderling.core.errors import UserError
from sanderling.core.profiles import get_profile
from sanderling.core.record import Question, Trajectory
from sanderling.core.types import BudgetSpentError, FixedClock, Message
from sanderling.evaluate.log import RunLog
from sanderling.evaluate.run import evaluate, evaluate_async
from sanderling.judge.verdict import Code, Verdict, decided, unscored
from sanderling.policy.contract import SampleKey, ScriptedPolicy
from sanderling.tools.world_tools import world_tools
from sanderling.world.contract import Page
from sanderling.world.local import LocalWorld

QUESTIONS = [Question(id=f"q{n}", text=f"What is number {n}?", answers=(f"a{n}",)) for n in range(4)]


def agent_of(said: list[str]) -> Agent:
    """Right at its first attempt at each question alone; ``said`` hears which attempts were made."""

    def reply(messages: Sequence[Message], key: SampleKey) -> str:
        said.append(f"{key.question}-{key.attempt}")
        return f"<think>\nso\n</think>\n<answer>{'wrong' if key.attempt else f'a{key.question[1:]}'}</answer>"

    profile = get_profile("tiny")
    world = LocalWorld.in_memory([Page(url="https://w.example/", title="t", text="t")], name="w")
    clock = FixedClock(datetime.date(2026, 1, 1))
    return Agent(ScriptedPolicy(reply), world_tools(world, profile), profile, clock, "w", "f")


def test_figures_of_an_agent_and_a_run_that_goes_on(tmp_path: Path) -> None:
    said = list[str]()
    out = tmp_path / "run"
    first = evaluate(agent_of(said), QUESTIONS, "exact", out)
    assert first.pass_at_1.value == 1.0 and first.judge == "exact"
    second = evaluate(agent_of(said), QUESTIONS, "exact", out, attempts=2, concurrency=2)
    assert (second.pass_at_1.value, second.pass_at_k[2].value, second.resumed) == (0.5, 1.0, 4)
    assert sorted(said) == [f"q{n}-{attempt}" for n in range(4) for attempt in range(2)], "nothing is made twice"
    assert len(RunLog(out).episodes()) == 8 and RunLog(out).require().finished
    with pytest.raises(UserError, match="begun with something else"):
        evaluate(agent_of(said), QUESTIONS[:2], "exact", out)


async def test_within_an_event_loop_and_without_a_directory() -> None:
    said: list[str] = []
    result = await evaluate_async(agent_of(said), QUESTIONS[:2], attempts=2, together=True)
    assert result.per_question() == {"q0": 0.5, "q1": 0.5} and said[:2] != ["q0-0", "q1-0"]
    with pytest.raises(UserError, match="There is no judge 'exakt'"):
        await evaluate_async(agent_of(said), QUESTIONS[:2], "exakt")


class Poor:
    """A judge of one's own, whose budget ends."""

    name, places = "poor", ("here",)

    def __init__(self, left: int) -> None:
        self.left = left

    async def __call__(self, trajectory: Trajectory) -> Verdict:
        self.left -= 1
        return decided(True, "fine") if self.left >= 0 else unscored(Code.BUDGET, "The limit is reached.")


def test_a_spent_budget_gives_no_figure_and_keeps_what_is_done(tmp_path: Path) -> None:
    said: list[str] = []
    with pytest.raises(UserError, match=r"limit is reached.*the next run goes on"):
        evaluate(agent_of(said), QUESTIONS, Poor(2), tmp_path / "run", concurrency=1)
    assert not RunLog(tmp_path / "run").result_file.exists()
    result = evaluate(agent_of(said), QUESTIONS, Poor(9), tmp_path / "run")
    assert result.pass_at_1.value == 1.0 and len(said) == 4, "attempts are not repeated"


def test_a_rollouts_spent_budget_stops_the_run(tmp_path: Path) -> None:
    def reply(messages: Sequence[Message], key: SampleKey) -> str:
        raise BudgetSpentError("No money is left.")

    poor = agent_of([])
    poor = Agent(ScriptedPolicy(reply), poor.tools, poor.profile, poor.clock, "w", "f")
    with pytest.raises(UserError, match="No money is left"):
        asyncio.run(evaluate_async(poor, QUESTIONS, "exact", tmp_path / "run"))
