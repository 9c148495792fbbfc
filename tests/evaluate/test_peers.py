"""Others' records: AgentToLeaP's folders, which question of a benchmark a record asks, and which attempt each becomes."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from peer_files import benchmark, copy_judged, save_attempt

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


def test_verdicts_behind_a_gap_are_left_out(tmp_path: Path) -> None:
    """The harness numbers what it could read, so that its second verdict stands at what was its third attempt."""
    raw = raw_of(tmp_path, {"t": 3})
    judged = tmp_path / "b" / "m"
    copy_judged(raw, judged, "t", 0, 2, right=True)
    copy_judged(raw, judged, "t", 2, 2, right=False)
    (raw / "t" / "traj_1" / "result.json").write_text('{"task_id": "t", "conversation_hist')
    found = [one.trajectory.detail or one.published for one in read(tmp_path)]
    assert found == [True, "its record is cut off, or none", None]


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

ASKED = benchmark(
    ("1", "Who wrote the hymn of Lund?", "Ada"),
    ("2", "Which river crosses Umeå?", "Ume"),
    ("3", "Which river crosses Umeå?", "Vindel"),
    ("x/y", "谁写了这本书？", "某人"),
)


SEVERAL, NONE = "asked by several questions of the benchmark", "asked by no question of the benchmark"


def found(joiner: Joiner, text: str, task: str = "") -> tuple[str, str]:
    one, how = joiner.find(text, task)
    return (one.id if one else "", how)


@pytest.mark.parametrize(
    ("text", "task", "expected"),
    [
        ("Who wrote the hymn of Lund?", "1", ("b/1", "by task")),
        ("Answer this. Who wrote the hymn of Lund? Be short.", "1", ("b/1", "by task")),
        ("Who wrote the hymn of Lund", "", ("b/1", "by text")),
        ("  Who wrote the\nhymn of Lund??  ", "", ("b/1", "by text")),
        ("who WROTE the hymn, of Lund", "", ("b/1", "by text")),
        ("谁写了这本书？", "x/y", ("b/x/y", "by task")),
        ("Which river crosses Umeå?", "3", ("b/3", "by task")),
        ("Which river crosses Umeå?", "", ("", SEVERAL)),
        ("Which river crosses Umeå?", "17", ("", SEVERAL)),
        ("Who wrote the hymn of Malmö?", "", ("", NONE)),
        ("Who wrote the hymn of Lund?", "2", ("b/1", "by text")),
        ("", "2", ("b/2", "by task")),
        ("?", "", ("", NONE)),
    ],
)
def test_a_record_finds_its_question_or_none(text: str, task: str, expected: object) -> None:
    assert found(Joiner(ASKED), text, task) == expected


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


@pytest.mark.parametrize(
    ("verdict", "expected"), [("CORRECT", True), (" incorrect ", False), ("NOT_ATTEMPTED", None), (1, None)]
)
def test_literesearchers_verdict(tmp_path: Path, verdict: object, expected: bool | None) -> None:
    path = tmp_path / "cases.json"
    steps = [{"type": "question", "content": "q"}, {"type": "assistant", "think": "t", "tool_calls": [], "answer": "42"}]
    case = {"question": "What?", "reference_answer": "42", "judge_verdict": verdict, "steps": steps}
    path.write_text(json.dumps({"benchmark": "B", "cases": [case]}))
    (one,) = open_records([path])
    assert isinstance(one, Found) and one.published is expected
