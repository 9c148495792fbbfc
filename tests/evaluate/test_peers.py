"""Others' records: AgentToLeaP's folders, which question of a benchmark a record asks, and which attempt each becomes."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from peer_files import benchmark, save_attempt

from sanderling.core.errors import UserError
from sanderling.core.record import Question, Trajectory, question_id
from sanderling.core.types import Ending
from sanderling.evaluate.peers import UNMATCHED, Found, Joiner, open_records, planned, rewritten


def read(*sources: Path, tasks: frozenset[str] = frozenset()) -> list[Found]:
    return list(open_records(sources, tasks=tasks))


def names(found: list[Found]) -> list[tuple[str, int | None]]:
    return [(one.task, one.number) for one in found]


def raw_of(tmp_path: Path, tasks: dict[str, int]) -> Path:
    raw = tmp_path / "_temp_raw_outputs" / "b_m"
    for task, attempts in tasks.items():
        for number in range(attempts):
            save_attempt(raw / task / f"traj_{number}", task, f"What is {task}?", f"{task}{number}")
    return raw


def test_runs_behind_the_name_and_no_number_at_all(tmp_path: Path) -> None:
    for number in (0, 2):
        save_attempt(tmp_path / f"7_run_{number}", "7", "seven?", "7")
    save_attempt(tmp_path / "8", "8", "eight?", "8")
    save_attempt(tmp_path / "9_run_2", "9_run_2", "nine?", "9")
    assert names(read(tmp_path)) == [("7", 0), ("7", 2), ("8", 0), ("9_run_2", 0)]
    known = read(tmp_path, tasks=frozenset({"9"}))
    assert names(known) == [("7", 0), ("7", 2), ("8", 0), ("9", 2)], "the benchmark's ids decide"


def test_two_records_of_one_attempt_are_refused(tmp_path: Path) -> None:
    for number, folder in enumerate(["a_run_1", "a/traj_1"]):
        save_attempt(tmp_path / folder, "a", "a?", str(number))
    with pytest.raises(UserError, match="both attempt 1 of 'a'"):
        read(tmp_path)


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", "null", "[" * 100_000, '{"task_id": "t"}', '{"messages": [{"role": "user"}]}']
)
def test_a_record_that_is_none_is_lost(tmp_path: Path, text: str) -> None:
    raw = raw_of(tmp_path, {"t": 1, "u": 1})
    (raw / "t" / "traj_0" / "result.json").write_text(text)
    assert [one.lost for one in read(raw)] == [True, False]


# Joining --------------------------------------------------------------------------------------------------------------


# Attempts -------------------------------------------------------------------------------------------------------------

ROWS = benchmark(("1", "Who?", "Ada"), ("2", "Where?", "Lund"), ("3", "When?", ""))
TEXTS = st.sampled_from(["Who?", "Where", "WHEN", "Why?", "", "?"])


def recorded(text: str, answers: tuple[str, ...] = (), number: int = 0) -> Trajectory:
    asked = Question(id=question_id(text), text=text, answers=answers)
    return Trajectory(id=f"file#{number}", question=asked, nodes=(), leaf=None, ending=None, answer="x")


def gone(task: str) -> Trajectory:
    """An attempt without a record."""
    asked = Question(id=task, text="")
    return Trajectory(id="", question=asked, nodes=(), leaf=None, ending=Ending.CANCELLED, detail="gone")


@given(
    st.lists(st.tuples(TEXTS, st.sampled_from([(), ("a",), ("b",)])), min_size=1, max_size=12),
    st.lists(st.sampled_from(["1", "3", "9"]), max_size=3),
    st.booleans(),
)
def test_every_record_is_one_attempt(asked: list[tuple[str, tuple[str, ...]]], lost: list[str], joins: bool) -> None:
    records = [Found(recorded(text, answers, number), "sharegpt") for number, (text, answers) in enumerate(asked)]
    records += [Found(gone(task), "agenttoleap", task, 100 + number) for number, task in enumerate(lost)]
    plan = planned(records, Joiner(ROWS) if joins else None)
    stored = list(rewritten(records, plan))
    assert len(stored) == len({one.id for one in stored}) == len(records) and plan.lost == len(lost)
    assert {one.question.id for one in stored} == plan.questions.keys(), "no question without an attempt"
    assert all(one.id == f"{one.question.id}-{one.seeds.attempt}" for one in stored)
    for question in plan.questions:
        found = sorted(one.seeds.attempt for one in stored if one.question.id == question)
        assert found == list(range(len(found)))
    if joins:
        assert sum(plan.joined.values()) + sum(plan.unmatched.values()) == len(asked)
        assert all(not one.question.answers for one in stored if one.question.id.startswith(UNMATCHED))
    else:
        kept = [(one.question.text, one.question.answers) for one in stored if one.detail != "gone"]
        assert kept == asked, "each is judged by its own accepted answers"
