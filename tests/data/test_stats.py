"""What a set is made of: counted exactly where it is small, to three digits where it is large."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sanderling.core.record import Node, NodeKind, Question, Trajectory
from sanderling.core.types import Ending, Role, ToolCall
from sanderling.data.stats import Distribution, portray, script_of


@given(st.lists(st.integers(0, 10**9), min_size=1))
def test_sums_are_exact_and_the_rest_to_three_digits(values: list[int]) -> None:
    found = Distribution()
    for value in values:
        found.add(value)
    assert found.number == len(values) and found.total == sum(values)
    middle = sorted(values)[(len(values) + 1) // 2 - 1]
    assert found.quantile(0.5) == pytest.approx(middle, rel=0.006)
    assert found.quantile(1.0) == found.most == pytest.approx(max(values), rel=0.006)
    assert sum(found.binned([0, found.most // 2 + 1, found.most + 1])) == len(values)


@pytest.mark.parametrize(
    ("text", "script"),
    [
        ("Who won?", "Latin"),
        ("Ærø og Ålesund", "Latin"),
        ("谁赢了？", "Chinese"),
        ("東京はどこ?", "Japanese"),
        ("ﾄｳｷｮｳ", "Japanese"),
        ("누가 이겼나", "Korean"),
        ("Кто победил?", "Cyrillic"),
        ("من فاز", "Arabic"),
        ("ใครชนะ", "Thai"),
        ("谁写了 Peer Gynt, the play of the century?", "Latin"),
        ("12 + 3?", "no letters"),
        ("", "no letters"),
        ("\U00010330\U00010331", "another script"),
    ],
)
def test_scripts_by_their_letters(text: str, script: str) -> None:
    assert script_of(text) == script


def episode(correct: bool | None = None, raw: bool = False) -> Trajectory:
    nodes = [
        Node(parent=None, role=Role.USER, kind=NodeKind.QUESTION, text="Who 赢了?"),
        Node(parent=0, role=Role.ASSISTANT, kind=NodeKind.TURN, text="a b", calls=(ToolCall(name="visit", arguments={}),)),
        Node(parent=1, role=Role.USER, kind=NodeKind.RAW if raw else NodeKind.OBSERVATION, text="it is so"),
        Node(parent=0, role=Role.ASSISTANT, kind=NodeKind.TURN, text="rejected words", rejected=True),
    ]
    meta = {} if correct is None else {"evaluation": {"correct": correct}}
    question = Question(id="q", text=nodes[0].text)
    return Trajectory(
        id="t", question=question, nodes=tuple(nodes), leaf=2, ending=Ending.ANSWERED, answer="x", tokenizer="f", meta=meta
    )


def test_a_portrait_counts_main_branches() -> None:
    found = portray("x", [episode(True), episode(False, raw=True), episode()])
    assert (found.trajectories, found.turns.total, found.raw, found.answered) == (3, 3, 1, 3)
    assert found.length.total == 3 * (3 + 2 + 3) and found.unit == "words"
    assert found.tools == {"visit": 3} and found.browse_share == 1.0 and found.correct_share == 0.5
    assert found.verdicts == {"correct": 1, "incorrect": 1, "not judged": 1} and found.scripts == {"Latin": 3}
    assert found.as_json()["turns"]["above_50"] == 0.0
