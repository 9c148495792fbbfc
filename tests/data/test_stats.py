"""What a set is made of: counted exactly where it is small, to three digits where it is large."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sanderling.core.record import Node, NodeKind, Question, ToolEvent, Trajectory
from sanderling.core.types import Ending, Role, ToolCall, ToolStatus
from sanderling.data.stats import Distribution, call_roles, portray, script_of


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


def test_bins_hold_their_upper_edge() -> None:
    found = Distribution()
    for value in (0, 1, 50, 51, 100, 101):
        found.add(value)
    assert found.binned([0, 50, 100, 150]) == [3, 2, 1] and found.above(50) == 0.5
    assert Distribution().quantile(0.5) is None and Distribution().mean is None and Distribution().above(1) is None


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


class Halves:
    """Two ids for every word."""

    fingerprint = "f"

    def encode(self, text: str) -> list[int]:
        return [0] * 2 * len(text.split())


def test_a_portrait_counts_main_branches() -> None:
    found = portray("x", [episode(True), episode(False, raw=True), episode()])
    assert (found.trajectories, found.turns.total, found.raw, found.answered) == (3, 3, 1, 3)
    assert found.length.total == 3 * (3 + 2 + 3) and found.unit == "words"
    assert found.tools == {"visit": 3} and found.browse_share == 1.0 and found.correct_share == 0.5
    assert found.verdicts == {"correct": 1, "incorrect": 1, "not judged": 1} and found.scripts == {"Latin": 3}
    assert found.as_json()["turns"]["above_50"] == 0.0


def test_own_ids_count_before_texts() -> None:
    tokens: Any = Halves()
    assert portray("x", [episode()], tokens).length.total == 2 * (2 + 2 + 3)
    nodes = tuple(node.model_copy(update={"token_ids": (1,)}) for node in episode().nodes)
    own = episode().model_copy(update={"nodes": nodes})
    assert portray("x", [own], tokens).length.total == 3
    assert portray("x", [own.model_copy(update={"tokenizer": "other"})], tokens).length.total == 14


def test_a_trajectory_without_nodes_has_no_turns() -> None:
    empty = Trajectory(id="t", question=Question(id="q", text=""), nodes=(), leaf=None, ending=None)
    assert portray("x", [empty]).as_json()["turns"]["most"] == 0


def test_what_a_call_does_is_the_tools_own_word_or_told_by_its_name() -> None:
    def turn(*names: str) -> Node:
        calls = tuple(ToolCall(name=name, arguments={}) for name in names)
        return Node(parent=None, role=Role.ASSISTANT, kind=NodeKind.TURN, text="x", calls=calls)

    def seen(*roles: str) -> Node:
        events = tuple(ToolEvent(name="n", role=role, status=ToolStatus.OK) for role in roles)
        return Node(parent=None, role=Role.USER, kind=NodeKind.OBSERVATION, text="x", events=events)

    said = [turn("lookup", "visit"), seen("search", "visit"), turn("fetch_url", "python"), seen("visit"), turn("search")]
    nodes = tuple(node.model_copy(update={"parent": place - 1 if place else None}) for place, node in enumerate(said))
    found = Trajectory(id="t", question=Question(id="q", text="?"), nodes=nodes, leaf=4, ending=None)
    assert call_roles(found) == ["search", "visit", "visit", "", "search"]
