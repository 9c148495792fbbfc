"""The runner: bounded, resumable after ``kill -9``, honest about outages. Rollouts are scripted at the real seam."""

import asyncio
import datetime
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from sanderling.agent.agent import Agent
from sanderling.agent.journal import Journal
from sanderling.core.errors import UserError
from sanderling.core.profiles import get_profile
from sanderling.core.record import Node, NodeKind, Question, Seeds, Trajectory
from sanderling.core.types import Ending, FixedClock, Message, Role
from sanderling.evaluate.attempts import Attempts, Counting, Progress, Rollout, make_attempts
from sanderling.evaluate.figures import RunInfo, summarise
from sanderling.evaluate.log import JsonlAttempts
from sanderling.evaluate.result import EvalResult
from sanderling.judge.rules import RuleJudge, exact_match
from sanderling.judge.verdict import Judge, Ruling, Verdict
from sanderling.policy.contract import PolicyOutageError, SampleKey, ScriptedPolicy
from sanderling.runs.jsonl import TrajectoryStore
from sanderling.tools.contract import ToolOutageError

QUESTIONS = [Question(id=f"q{i}", text=f"text {i}", answers=(f"a{i}",)) for i in range(4)]
EXACT = RuleJudge("exact", exact_match)
PATIENT = (0.0, 0.0)


def episode(question: Question, attempt: int, answer: str | None, ending: Ending = Ending.ANSWERED, run: int = 7) -> Trajectory:
    node = Node(parent=None, role=Role.ASSISTANT, kind=NodeKind.TURN, text=answer or "", answer=answer)
    return Trajectory(
        id=f"{question.id}/{attempt}",
        question=question,
        nodes=(node,),
        leaf=0,
        ending=ending,
        answer=answer,
        model="tiny",
        seeds=Seeds(run=run, attempt=attempt),
    )


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


async def evaluate(
    questions: Sequence[Question],
    attempts: int,
    rollout: Rollout,
    judge: Judge,
    store: TrajectoryStore,
    *,
    seed: int,
    on_progress: Callable[[Progress], None] | None = None,
    **how: Any,
) -> EvalResult:
    """Attempts in a file of their own, and their figures."""
    watch = on_progress and Counting(len(questions) * attempts, on_progress)
    wanted = Attempts(questions, attempts, seed)
    made = await make_attempts(wanted, rollout, judge, JsonlAttempts(store), watch=watch, **how)
    if made.stopped:
        raise UserError(made.stopped)
    info = RunInfo("c", seed, "0", "", 0.0, made.resumed, judge=judge.name)
    return summarise(made.episodes.values(), questions, attempts, info)


async def run(script: Script, store: TrajectoryStore, **changes: object) -> EvalResult:
    options: dict[str, object] = {"judge": EXACT, "questions": QUESTIONS, "attempts": 2, "pauses": PATIENT, "seed": 7} | changes
    return await evaluate(rollout=script, store=store, **options)  # pyright: ignore[reportArgumentType]


@pytest.fixture
def store(tmp_path: Path) -> TrajectoryStore:
    return TrajectoryStore(tmp_path / "episodes.jsonl")


async def test_every_question_is_attempted_and_judged(store: TrajectoryStore) -> None:
    script = Script()
    found = await run(script, store)
    assert set(script.calls.values()) == {1}
    assert len(script.calls) == 8
    assert found.per_question() == {"q0": 0.5, "q1": 0.5, "q2": 0.0, "q3": 0.0}
    assert (found.model, found.seed, found.judge) == ("tiny", 7, "exact")
    assert found.valid


@pytest.mark.parametrize(
    ("together", "expected"),
    [(False, ["q00", "q10", "q20", "q01", "q11", "q21"]), (True, ["q00", "q01", "q10", "q11", "q20", "q21"])],
)
async def test_attempts_are_begun_in_rounds_or_question_by_question(
    store: TrajectoryStore, together: bool, expected: list[str]
) -> None:
    begun: list[str] = []

    def play(question: Question, attempt: int, _: int) -> Trajectory:
        begun.append(f"{question.id}{attempt}")
        return episode(question, attempt, "x")

    wanted = Attempts(QUESTIONS[:3], 2, 7, together=together)
    await make_attempts(wanted, Script(play), EXACT, JsonlAttempts(store), concurrency=2)
    assert begun == expected


async def test_concurrency_is_bounded_and_changes_no_figure(tmp_path: Path) -> None:
    results = []
    for width in (1, 3, 50):
        script = Script()
        results.append(await run(script, TrajectoryStore(tmp_path / f"{width}.jsonl"), concurrency=width))
        assert script.most == min(width, 8)
    figures = [result.model_dump(exclude={"seconds", "date"}) for result in results]
    assert figures[0] == figures[1] == figures[2]


async def test_a_finished_run_is_not_repeated(store: TrajectoryStore) -> None:
    first = await run(Script(), store)
    again = Script()
    second = await run(again, store)
    assert not again.calls
    assert second.resumed == 8
    assert second.questions == first.questions


async def test_more_attempts_add_to_those_already_made(store: TrajectoryStore) -> None:
    await run(Script(), store)
    script = Script()
    found = await run(script, store, attempts=3)
    assert set(script.calls) == {(q.id, 2) for q in QUESTIONS}
    assert found.attempts == 3


async def test_a_run_that_dies_midway_loses_nothing_finished(store: TrajectoryStore) -> None:
    def die(question: Question, attempt: int, _: int) -> Trajectory:
        if (question.id, attempt) == ("q2", 1):
            raise RuntimeError("a bug")
        return episode(question, attempt, "a0")

    with pytest.raises(RuntimeError, match="a bug"):
        await run(Script(die), store, concurrency=1)
    script = Script()
    await run(script, store)
    assert set(script.calls) == {("q2", 1), ("q3", 1)}, "every question once, then twice"


async def test_episodes_under_way_go_on_with_a_journal(store: TrajectoryStore, tmp_path: Path) -> None:
    """Killed amid several episodes, or met by an outage: no turn that was finished is said again."""
    said: list[tuple[str, int, int]] = []
    trouble: dict[int, Exception] = {9: RuntimeError("killed"), 14: PolicyOutageError("down")}

    def reply(messages: Sequence[Message], key: SampleKey) -> str:
        if len(said) in trouble:
            raise trouble.pop(len(said))
        said.append((key.question, key.attempt, key.turn))
        call = f'<tool_call>{{"name": "look", "arguments": {{"at": {key.turn}}}}}</tool_call>'
        return "<think></think>" + (call if key.turn < 2 else f"<answer>a{key.attempt}</answer>")

    async def evaluated() -> EvalResult:
        with Journal(tmp_path / "journal") as journal:

            async def rollout(question: Question, attempt: int) -> Trajectory:
                seeds = Seeds(run=7, attempt=attempt)
                clock = FixedClock(datetime.date(2026, 3, 1))
                agent = Agent(ScriptedPolicy(reply), {}, get_profile("tiny"), clock)
                return await agent.run(question, seeds, id=f"{question.id}/{attempt}", journal=journal)

            common = {"seed": 7, "pauses": PATIENT, "concurrency": 3, "on_stored": journal.stored}
            return await evaluate(QUESTIONS, 2, rollout, EXACT, store, **common)

    with pytest.raises(RuntimeError, match="killed"):
        await evaluated()
    assert 0 < len(store.ids()) < 8 and (tmp_path / "journal").is_dir()
    found = await evaluated()
    assert found.per_question() == {"q0": 0.5, "q1": 0.5, "q2": 0.0, "q3": 0.0} and not trouble
    assert sorted(said) == [(question.id, attempt, turn) for question in QUESTIONS for attempt in (0, 1) for turn in (0, 1, 2)]
    assert not (tmp_path / "journal").exists()


async def test_what_an_earlier_run_stored_is_heard_of(store: TrajectoryStore) -> None:
    heard: list[str] = []
    await run(Script(), store)
    await run(Script(), store, attempts=3, on_stored=lambda trajectory: heard.append(trajectory.id))
    assert sorted(heard) == [f"q{q}/{a}" for q in range(4) for a in range(3)]


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


async def test_the_next_run_tries_outages_again_and_mends_the_result(store: TrajectoryStore) -> None:
    def outage(question: Question, attempt: int, _: int) -> Trajectory:
        if question.id == "q3":
            raise PolicyOutageError("down")
        return episode(question, attempt, "a0")

    assert not (await run(Script(outage), store)).valid
    script = Script()
    found = await run(script, store)
    assert set(script.calls) == {("q3", 0), ("q3", 1)}
    assert found.valid
    assert found.endings == {Ending.ANSWERED: 8}


async def test_cancelled_episodes_are_unscored_and_not_retried(store: TrajectoryStore) -> None:
    script = Script(lambda question, attempt, _: episode(question, attempt, None, Ending.CANCELLED))
    found = await run(script, store)
    assert set(script.calls.values()) == {1}
    assert found.unscored == 8


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


async def test_a_failing_judge_is_retried(store: TrajectoryStore) -> None:
    found = await run(Script(), store, judge=FlakyJudge(2), concurrency=1)
    assert (found.unscored, found.pass_at_1.value) == (0, 1.0)


async def test_what_the_judge_could_not_judge_is_judged_later_without_a_new_episode(store: TrajectoryStore) -> None:
    first = await run(Script(), store, judge=FlakyJudge(10**6))
    assert (first.judge_outages, first.pass_at_1.value, first.valid) == (8, None, False)
    script = Script()
    second = await run(script, store, judge=FlakyJudge(0))
    assert not script.calls
    assert (second.unscored, second.pass_at_1.value, second.valid) == (0, 1.0, True)


async def test_another_judge_judges_anew_without_new_episodes(store: TrajectoryStore) -> None:
    await run(Script(), store)
    script = Script()
    found = await run(script, store, judge=RuleJudge("lenient", lambda answer, accepted: 1.0))
    assert not script.calls
    assert (found.judge, found.pass_at_1.value) == ("lenient", 1.0)


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


async def test_progress_reaches_the_total(store: TrajectoryStore) -> None:
    seen: list[Progress] = []
    await run(Script(), store, on_progress=seen.append)
    assert seen[0] == Progress(0, 8, 0, 0)
    assert seen[-1] == Progress(8, 8, 8, 2)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"questions": []}, "no questions"),
        ({"questions": [QUESTIONS[0], QUESTIONS[0]]}, "give each its own"),
        ({"questions": [Question(id="x", text="?")]}, "no accepted answer"),
    ],
)
async def test_what_cannot_be_evaluated(store: TrajectoryStore, changes: dict[str, object], message: str) -> None:
    with pytest.raises(UserError, match=message):
        await run(Script(), store, **changes)


async def test_a_store_of_another_run_is_refused(store: TrajectoryStore) -> None:
    await run(Script(), store)
    changed = [QUESTIONS[0].model_copy(update={"text": "another"})]
    with pytest.raises(UserError, match="another store"):
        await run(Script(), store, questions=changed)
    with pytest.raises(UserError, match="another store"):
        await run(Script(), store, seed=8)


CHILD = """
import asyncio, os, signal, sys
sys.path.insert(0, sys.argv[2])
from test_evaluate_run import EXACT, PATIENT, QUESTIONS, episode, evaluate
from sanderling.runs.jsonl import TrajectoryStore

done = 0
async def rollout(question, attempt):
    global done
    if done == 5:
        with open(sys.argv[1], "ab") as file:
            file.write(b'{"id": "torn')
        os.kill(os.getpid(), signal.SIGKILL)
    done += 1
    return episode(question, attempt, "a0")

store = TrajectoryStore(sys.argv[1])
asyncio.run(evaluate(QUESTIONS, 2, rollout, EXACT, store, seed=7, concurrency=1, pauses=PATIENT))
"""


@pytest.mark.filterwarnings("ignore::UserWarning")
async def test_a_killed_process_is_resumed(store: TrajectoryStore) -> None:
    here = str(Path(__file__).parent)
    child = await asyncio.to_thread(
        subprocess.run, [sys.executable, "-c", CHILD, str(store.path), here], check=False, env=dict(os.environ)
    )
    assert child.returncode == -signal.SIGKILL
    script = Script()
    found = await run(script, store)
    assert sum(script.calls.values()) == 3
    assert (found.resumed, found.unscored) == (5, 0)
