"""Which question and attempt each record is: nothing lost, nothing twice, whatever order the records come in."""

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from peer_files import benchmark

from sanderling.core.record import Question, Trajectory, question_id
from sanderling.core.types import Ending
from sanderling.evaluate.peers.contract import Found, Left, Lost, Sources
from sanderling.evaluate.peers.files import RecordedFiles
from sanderling.evaluate.peers.joining import Joiner
from sanderling.evaluate.peers.plan import NUMBER, UNMATCHED, id_of, planned, rewritten

ROWS = benchmark(("1", "Who?", "Ada"), ("2", "Where?", "Lund"), ("3", "When?", ""))
TEXTS = st.sampled_from(["Who?", "Where", "WHEN", "Why?", "", "?"])


class Listed:
    """Records that a test made up."""

    def __init__(self, records: Sequence[Found | Lost]) -> None:
        self._records = records
        self.left = Left()

    def sources(self) -> Sources:
        return Sources(("made up",), "0")

    def __iter__(self) -> Iterator[Found | Lost]:
        return iter(self._records)


def recorded(text: str, answers: tuple[str, ...] = (), number: int = 0) -> Trajectory:
    asked = Question(id=question_id(text), text=text, answers=answers)
    return Trajectory(id=f"file#{number}", question=asked, nodes=(), leaf=None, ending=None, answer="x")


@given(
    st.lists(st.tuples(TEXTS, st.sampled_from([(), ("a",), ("b",)])), min_size=1, max_size=12),
    st.lists(st.sampled_from(["1", "3", "9"]), max_size=3),
    st.booleans(),
)
def test_every_record_is_one_attempt(asked: list[tuple[str, tuple[str, ...]]], lost: list[str], joins: bool) -> None:
    records: list[Found | Lost] = [
        Found(recorded(text, answers, number), "sharegpt") for number, (text, answers) in enumerate(asked)
    ]
    records += [Lost(task, 100 + number, "gone") for number, task in enumerate(lost)]
    plan = planned(Listed(records), Joiner(ROWS) if joins else None)
    stored = list(rewritten(Listed(records), plan))
    assert len(stored) == len({one.id for one in stored}) == len(asked) + len(plan.lost)
    assert len(plan.lost) + plan.unplaced == len(lost), "an attempt without a record is placed, or counted as unread"
    assert {one.question.id for one in stored} == plan.questions.keys(), "no question without an attempt"
    assert all(one.id == f"{one.question.id}-{one.seeds.attempt}" and one.seeds.attempt < plan.attempts for one in stored)
    for question in plan.questions:
        found = sorted(one.seeds.attempt for one in stored if one.question.id == question)
        assert found == list(range(len(found)))
    if joins:
        assert sum(plan.joined.values()) + sum(plan.unmatched.values()) == len(asked)
        assert all(not one.question.answers for one in stored if one.question.id.startswith(UNMATCHED))
    else:
        kept = [(one.question.text, one.question.answers) for one in stored if one.detail != "gone"]
        assert kept == asked, "each is judged by its own accepted answers"


def test_lost_attempts_are_unscored_and_say_why() -> None:
    records = [
        Found(recorded("Who?"), "agenttoleap", "1", 0),
        Lost("1", 1, "cut off"),
        Lost("2", 0, "begun"),
        Lost("8", 0, "x"),
    ]
    plan = planned(Listed(records), Joiner(ROWS))
    stored = {one.id: one for one in rewritten(Listed(records), plan)}
    assert stored.keys() == {"b/1-0", "b/1-1", "b/2-0"} and plan.unplaced == 1
    assert (stored["b/1-1"].ending, stored["b/1-1"].detail) == (Ending.CANCELLED, "cut off")


@given(st.lists(st.tuples(st.sampled_from(["Who?", "Where?"]), st.integers(0, 10**12)), min_size=1, unique=True), st.booleans())
def test_attempts_are_counted_not_numbered(asked: list[tuple[str, int]], last_is_lost: bool) -> None:
    """Folders may begin at 1, lack one, or have a number that no table could hold."""
    records: list[Found | Lost] = [Found(recorded(text), "agenttoleap", text, number, published=True) for text, number in asked]
    if last_is_lost and len(asked) > 1:
        records[-1] = Lost(*asked[-1], "gone")
    plan = planned(Listed(records), None)
    stored = list(rewritten(Listed(records), plan))
    made = Counter(one.question.text for one in stored)
    assert plan.attempts == max(made.values())
    for text, count in made.items():
        numbers = sorted((one.seeds.attempt, one.meta[NUMBER]) for one in stored if one.question.text == text)
        assert [attempt for attempt, _ in numbers] == list(range(count))
        assert [number for _, number in numbers] == sorted(number for of, number in asked if of == text)
    assert set(plan.published) == {one.id for one in stored if one.detail != "gone"}


def test_verdicts_go_with_their_attempts() -> None:
    said = [True, None, False, True]
    records = [Found(recorded("Who?", number=n), "sharegpt", published=one) for n, one in enumerate(said)]
    plan = planned(Listed(records), Joiner(ROWS))
    assert plan.published == {"b/1-0": True, "b/1-2": False, "b/1-3": True}
    assert [id_of(place) for place in plan.places] == [f"b/1-{number}" for number in range(4)]


def case(verdict: object, correct: object) -> dict[str, object]:
    steps = [{"type": "question", "content": "q"}, {"type": "assistant", "think": "t", "tool_calls": [], "answer": "42"}]
    return {"question": "What?", "reference_answer": "42", "judge_verdict": verdict, "judge_correct": correct, "steps": steps}


@pytest.mark.parametrize(
    ("verdict", "correct", "expected"),
    [
        ("CORRECT", None, True),
        (" incorrect ", True, False),
        ("NOT_ATTEMPTED", None, None),
        ("C", True, True),
        (None, False, False),
        (None, None, None),
        (1, "yes", None),
        (None, 1, None),
    ],
)
def test_literesearchers_verdict(tmp_path: Path, verdict: object, correct: object, expected: bool | None) -> None:
    path = tmp_path / "cases.json"
    path.write_text(json.dumps({"benchmark": "B", "cases": [case(verdict, correct)]}))
    (one,) = RecordedFiles([path])
    assert isinstance(one, Found) and one.published is expected


def test_cases_that_are_not_all_right_are_no_hand_picked_ones(tmp_path: Path) -> None:
    path = tmp_path / "cases.json"
    path.write_text(json.dumps({"cases": [case("CORRECT", True), case("CORRECT", True)]}))
    assert "picked by hand" in planned(RecordedFiles([path]), None).selections[0]
    path.write_text(json.dumps({"cases": [case("CORRECT", True), case("INCORRECT", False)]}))
    assert planned(RecordedFiles([path]), None).selections == ()
