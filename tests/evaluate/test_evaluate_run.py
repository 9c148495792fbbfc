"""The runner: bounded, resumable after ``kill -9``, honest about outages. Rollouts are scripted at the real seam."""

import asyncio
import datetime
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sanderling.agent.agent import Agent
from sanderling.agent.opening import AgentConfig
from sanderling.core.errors import UserError
from sanderling.core.profiles import get_profile
from sanderling.core.record import Node, NodeKind, Question, Seeds, Trajectory
from sanderling.core.types import BudgetSpentError, Ending, FixedClock, Message, Role
from sanderling.evaluate.attempts import Attempts
from sanderling.evaluate.figures import summarise
from sanderling.evaluate.log import JsonlAttempts, RunLog
from sanderling.evaluate.result import EvalResult
from sanderling.evaluate.run import EvalConfig, chosen_of, evaluate, evaluate_async
from sanderling.judge.rules import RuleJudge, exact_match
from sanderling.judge.verdict import Code, Judge, Ruling, Verdict, decided, unscored
from sanderling.policy.contract import PolicyOutageError, SampleKey, ScriptedPolicy
from sanderling.runs.jsonl import TrajectoryStore
from sanderling.tools.contract import ToolOutageError
from sanderling.tools.python.rungs import bare
from sanderling.tools.python.sandbox import SandboxLimits
from sanderling.tools.python.sessions import Sessions
from sanderling.tools.python.tool import PythonTool
from sanderling.tools.world_tools import world_tools
from sanderling.world.contract import Page
from sanderling.world.local import LocalWorld

QUESTIONS = [Question(id=f"q{i}", text=f"text {i}", answers=(f"a{i}",)) for i in range(4)]
EXACT = RuleJudge("exact", exact_match)
PATIENT = (0.0, 0.0)


def episode(question: Question, attempt: int, answer: str | None, ending: Ending = Ending.ANSWERED, run: int = 7) -> Trajectory:
    node = Node(parent=None, role=Role.ASSISTANT, kind=NodeKind.TURN, text=answer or "", answer=answer)
    return Trajectory(
        id=f"{question.id}/{attempt}", question=question, nodes=(node,), leaf=0, ending=ending, answer=answer,
        model="tiny", seeds=Seeds(run=run, attempt=attempt),
    )  # fmt: skip


class Script:
    """A rollout that plays a list of outcomes per attempt and counts its calls."""

    def __init__(self, play: Callable[[Question, int, int], Trajectory] | None = None) -> None:
        self.calls: Counter[tuple[str, int]] = Counter()
        self.running = self.most = 0
        self._play = play or (lambda question, attempt, _: episode(question, attempt, f"a{attempt}"))

    async def __call__(self, question: Question, attempt: int) -> Trajectory:
        self.calls[question.id, attempt] += 1
        self.running += 1
        self.most = max(self.most, self.running)
        try:
            await asyncio.sleep(0)
            return self._play(question, attempt, self.calls[question.id, attempt])
        finally:
            self.running -= 1


async def run(
    script: Script, store: TrajectoryStore, *, questions: Sequence[Question] = QUESTIONS, attempts: int = 2, seed: int = 7,
    judge: Judge = EXACT, concurrency: int = 8, pauses: Sequence[float] = PATIENT,
) -> EvalResult:  # fmt: skip
    """Attempts in a file of their own, and their figures."""
    wanted = Attempts(questions, attempts, seed, script, judge, JsonlAttempts(store), pauses=pauses)
    made = await wanted.make(concurrency)
    if made.stopped:
        raise UserError(made.stopped)
    about = {"command": "c", "seed": seed, "version": "0", "date": "", "seconds": 0.0, "resumed": made.resumed}
    return summarise(made.episodes.values(), questions, attempts, judge=judge.name, **about)


@pytest.fixture
def store(tmp_path: Path) -> TrajectoryStore:
    return TrajectoryStore(tmp_path / "episodes.jsonl")


async def test_concurrency_is_bounded_and_changes_no_figure(tmp_path: Path) -> None:
    results = []
    for width in (1, 3, 50):
        script = Script()
        results.append(await run(script, TrajectoryStore(tmp_path / f"{width}.jsonl"), concurrency=width))
        assert script.most == min(width, 8)
    figures = [result.model_dump(exclude={"seconds", "date"}) for result in results]
    assert figures[0] == figures[1] == figures[2]


@pytest.mark.parametrize("error", [PolicyOutageError("down"), ToolOutageError("down")])
async def test_outages_are_retried_and_then_unscored(store: TrajectoryStore, error: Exception) -> None:
    def play(question: Question, attempt: int, call: int) -> Trajectory:
        if question.id == "q0" and attempt == 0:
            raise error
        if question.id == "q1" and call <= 2:
            return episode(question, attempt, None, Ending.TOOL_OUTAGE)
        return episode(question, attempt, f"a{question.id[1]}")

    script = Script(play)
    found = await run(script, store)
    assert script.calls["q0", 0] == 3
    assert script.calls["q1", 0] == 3
    assert (found.unscored, found.valid) == (1, False)
    assert found.pass_at_1.value == 1.0
    assert found.questions[0].scored == 1


async def test_a_model_out_of_reach_ends_the_run_instead_of_every_attempt(store: TrajectoryStore) -> None:
    def gone(question: Question, attempt: int, _: int) -> Trajectory:
        if attempt < 5:
            return episode(question, attempt, "a0")
        raise PolicyOutageError("http://m gave no answer")

    with pytest.raises(UserError, match=r"last 16 attempts .*http://m gave no answer"):
        await run(Script(gone), store, attempts=50, concurrency=4, pauses=())
    made = Script()
    found = await run(made, store, attempts=50, concurrency=4)
    assert len(made.calls) == 4 * 45 and found.valid, "what ended stands, and all the rest is made"


@pytest.mark.parametrize("answer", [None, "a0"])
async def test_no_answer_of_its_own_is_wrong_and_the_judge_is_not_asked(store: TrajectoryStore, answer: str | None) -> None:
    def forbidden(answer: str, accepted: str) -> float:
        raise AssertionError("the judge was asked")

    script = Script(lambda question, attempt, _: episode(question, attempt, answer, Ending.NO_ANSWER))
    found = await run(script, store, judge=RuleJudge("none", forbidden))
    assert (found.pass_at_1.value, found.unscored) == (0.0, 0)


class FlakyJudge:
    """Fails a number of times for each question, then tells."""

    name = "flaky"
    places = ()

    def __init__(self, failures: int) -> None:
        self._left = Counter({q.id: failures for q in QUESTIONS})

    async def __call__(self, trajectory: Trajectory) -> Verdict:
        question = trajectory.question.id
        if self._left[question] > 0:
            self._left[question] -= 1
            return Verdict(Ruling.UNSCORED, None, "busy")
        return Verdict(Ruling.CORRECT, 1.0, "")


async def test_what_the_judge_could_not_judge_is_judged_later_without_a_new_episode(store: TrajectoryStore) -> None:
    first = await run(Script(), store, judge=FlakyJudge(10**6))
    assert (first.unscored, first.pass_at_1.value, first.valid) == (8, None, False)
    script = Script()
    second = await run(script, store, judge=FlakyJudge(0))
    assert not script.calls
    assert (second.unscored, second.pass_at_1.value, second.valid) == (0, 1.0, True)


async def test_mended_answers_are_judged_anew_and_other_masks_are_another_run(store: TrajectoryStore) -> None:
    """A stored verdict is on the answers that it was given on, and an episode on what it could not see."""
    await run(Script(), store)
    script = Script()
    mended = [one.model_copy(update={"answers": ("nobody's answer",)}) for one in QUESTIONS]
    found = await run(script, store, questions=mended)
    assert not script.calls and found.pass_at_1.value == 0.0
    masked = [one.model_copy(update={"masked_urls": ("https://w.example/a",)}) for one in QUESTIONS]
    with pytest.raises(UserError, match="another run"):
        await run(Script(), store, questions=masked)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"questions": []}, "no questions"),
        ({"questions": [QUESTIONS[0], QUESTIONS[0]]}, "give each its own"),
        ({"questions": [Question(id="x", text="?")]}, "no accepted answer"),
    ],
)
async def test_what_cannot_be_evaluated(store: TrajectoryStore, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        await run(Script(), store, **changes)


def test_questions_without_an_answer_are_left_out_and_change_no_other_draw() -> None:
    every = [*QUESTIONS, Question(id="x", text="?")]
    config = EvalConfig(agent=AgentConfig(model="m"))
    assert chosen_of(QUESTIONS, config) == (QUESTIONS, "all")
    assert chosen_of(every, config) == (QUESTIONS, "all with an answer")
    first = config.model_copy(update={"limit": 2})
    assert chosen_of(every, first) == (QUESTIONS[:2], "first 2")
    with pytest.raises(UserError, match=r"None of the 1 questions has an accepted answer"):
        chosen_of(every[-1:], config)


# ``evaluate(agent, questions)``, as another program calls it --------------------------------------------------------------

ASKED = [Question(id=f"q{n}", text=f"What is number {n}?", answers=(f"a{n}",)) for n in range(4)]


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
    first = evaluate(agent_of(said), ASKED, "exact", out)
    assert first.pass_at_1.value == 1.0 and first.judge == "exact"
    second = evaluate(agent_of(said), ASKED, "exact", out, attempts=2, concurrency=2)
    assert (second.pass_at_1.value, second.pass_at_k[2].value, second.resumed) == (0.5, 1.0, 4)
    assert sorted(said) == [f"q{n}-{attempt}" for n in range(4) for attempt in range(2)], "nothing is made twice"
    assert len(RunLog(out).episodes()) == 8 and RunLog(out).require().finished
    with pytest.raises(UserError, match="begun with something else"):
        evaluate(agent_of(said), ASKED[:2], "exact", out)


def test_a_run_goes_on_with_its_tools_as_they_were(tmp_path: Path) -> None:
    def with_programs(seconds: float) -> Agent:
        limits, agent = SandboxLimits(seconds=seconds), agent_of([])
        return replace(agent, tools={**agent.tools, "python": PythonTool(Sessions(bare(limits), None, {}), limits)})

    evaluate(with_programs(9.0), ASKED, "exact", tmp_path / "run")
    evaluate(with_programs(9.0), ASKED, "exact", tmp_path / "run", attempts=2)
    with pytest.raises(UserError, match=r"python.seconds was 9.0 and is 5.0"):
        evaluate(with_programs(5.0), ASKED, "exact", tmp_path / "run", attempts=3)


async def test_within_an_event_loop_and_without_a_directory() -> None:
    said: list[str] = []
    result = await evaluate_async(agent_of(said), ASKED[:2], attempts=2, together=True)
    assert result.per_question() == {"q0": 0.5, "q1": 0.5} and said[:2] != ["q0-0", "q1-0"]
    with pytest.raises(UserError, match="There is no judge 'exakt'"):
        await evaluate_async(agent_of(said), ASKED[:2], "exakt")


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
        evaluate(agent_of(said), ASKED, Poor(2), tmp_path / "run", concurrency=1)
    assert not RunLog(tmp_path / "run").result_file.exists()
    result = evaluate(agent_of(said), ASKED, Poor(9), tmp_path / "run")
    assert result.pass_at_1.value == 1.0 and len(said) == 4, "attempts are not repeated"


def test_a_rollouts_spent_budget_stops_the_run(tmp_path: Path) -> None:
    def reply(messages: Sequence[Message], key: SampleKey) -> str:
        raise BudgetSpentError("No money is left.")

    poor = agent_of([])
    poor = Agent(ScriptedPolicy(reply), poor.tools, poor.profile, poor.clock, "w", "f")
    with pytest.raises(UserError, match="No money is left"):
        asyncio.run(evaluate_async(poor, ASKED, "exact", tmp_path / "run"))
