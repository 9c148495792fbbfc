"""In which order attempts are begun, and that nothing else depends on it."""

import asyncio

import pytest

from sanderling.core.record import Node, NodeKind, Question, Seeds, Trajectory
from sanderling.core.types import Ending, Role
from sanderling.evaluate.attempts import Attempts, make_attempts
from sanderling.evaluate.log import JsonlAttempts
from sanderling.judge.rules import RuleJudge, exact_match
from sanderling.runs.jsonl import TrajectoryStore

QUESTIONS = tuple(Question(id=name, text=name, answers=("a1",)) for name in ("p", "q", "r"))
EXACT = RuleJudge("exact", exact_match)


@pytest.mark.parametrize(
    ("together", "expected"),
    [(False, ["p0", "q0", "r0", "p1", "q1", "r1"]), (True, ["p0", "p1", "q0", "q1", "r0", "r1"])],
)
def test_attempts_are_begun_in_rounds_or_question_by_question(tmp_path, together, expected):
    begun: list[str] = []

    async def rollout(question: Question, attempt: int) -> Trajectory:
        begun.append(f"{question.id}{attempt}")
        answer = f"a{attempt}"
        node = Node(parent=None, role=Role.ASSISTANT, kind=NodeKind.TURN, text=answer, answer=answer)
        told = {"ending": Ending.ANSWERED, "answer": answer, "model": "m", "seeds": Seeds(run=7, attempt=attempt)}
        return Trajectory(id=f"{question.id}/{attempt}", question=question, nodes=(node,), leaf=0, **told)

    store = JsonlAttempts(TrajectoryStore(tmp_path / "a.jsonl"))
    wanted = Attempts(QUESTIONS, 2, 7, together=together)
    made = asyncio.run(make_attempts(wanted, rollout, EXACT, store, concurrency=2))
    assert begun == expected
    assert {key: one.correct for key, one in made.episodes.items()} == {(q.id, a): a == 1 for q in QUESTIONS for a in (0, 1)}
