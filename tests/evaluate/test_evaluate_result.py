"""What counts, what does not, and what invalidates a run."""

from dataclasses import replace
from pathlib import Path

import pytest

from sanderling.core.errors import UserError
from sanderling.core.record import Node, NodeKind, Question, Seeds, ToolEvent, Trajectory
from sanderling.core.types import Ending, Role, ToolCall, ToolStatus
from sanderling.evaluate.figures import summarise
from sanderling.evaluate.result import Episode, EvalResult, episode_of
from sanderling.judge.verdict import META_KEY
from sanderling.policy.budget import Prices

INFO = {"command": "test", "seed": 7, "judge": "exact", "version": "0", "date": "2026-01-01", "seconds": 1.0, "resumed": 0}
QUESTIONS = [Question(id=name, text=name, answers=("x",)) for name in "abc"]


def episode(
    question: str, attempt: int, correct: bool | None, ending: Ending | None = Ending.ANSWERED, **changes: object
) -> Episode:
    values: dict[str, object] = {
        "question": question, "attempt": attempt, "ending": ending, "correct": correct, "model": "m", "world": "w",
        "turns": 3, "calls": 2, "visits": 1, "sampled_tokens": 10, "seconds": 0.5,
    }  # fmt: skip
    return Episode(**(values | changes))  # pyright: ignore[reportArgumentType]


def grid(verdicts: dict[str, list[bool | None]]) -> list[Episode]:
    return [
        episode(q, i, v, Ending.TOOL_OUTAGE if v is None else Ending.ANSWERED)
        for q, row in verdicts.items()
        for i, v in enumerate(row)
    ]


def test_an_outage_is_neither_wrong_nor_silently_dropped() -> None:
    found = summarise(grid({"a": [True, None], "b": [False, False], "c": [None, None]}), QUESTIONS, 2, **INFO)
    assert found.pass_at_1.value == pytest.approx(0.5)
    assert (found.pass_at_1.questions, found.pass_at_1.too_few) == (2, 1)
    assert (found.unscored, found.endings[Ending.TOOL_OUTAGE]) == (3, 3)
    assert not found.valid
    assert "3 of 6 attempts" in found.invalid_because


@pytest.mark.parametrize(("outages", "valid"), [(2, True), (3, False)])
def test_more_than_two_percent_unscored_is_invalid(outages: int, valid: bool) -> None:
    questions = [Question(id=str(i), text="", answers=("x",)) for i in range(100)]
    rows = [episode(str(i), 0, None if i < outages else True, Ending.ANSWERED) for i in range(100)]
    found = summarise(rows, questions, 1, **INFO)
    assert found.valid is valid


def test_save_and_load(tmp_path: Path) -> None:
    found = summarise(grid({"a": [True, None], "b": [False, False], "c": [None, None]}), QUESTIONS, 2, **INFO)
    found.save(tmp_path / "deep" / "result.json")
    assert EvalResult.load(tmp_path / "deep" / "result.json") == found
    assert [p.name for p in (tmp_path / "deep").iterdir()] == ["result.json"]
    with pytest.raises(UserError, match="run the evaluation"):
        EvalResult.load(tmp_path / "none.json")
    (tmp_path / "torn.json").write_text('{"model": "m"')
    with pytest.raises(UserError, match="run the evaluation again"):
        EvalResult.load(tmp_path / "torn.json")


def trajectory(**changes: object) -> Trajectory:
    def turn(parent: int, text: str, ids: tuple[int, ...], **more: object) -> Node:
        return Node(parent=parent, role=Role.ASSISTANT, kind=NodeKind.TURN, text=text, token_ids=ids).model_copy(update=more)

    events = (ToolEvent(name="fetch_url", role="visit", status=ToolStatus.OK),)
    events += (ToolEvent(name="search", role="search", status=ToolStatus.EMPTY),)
    nodes = (
        Node(parent=None, role=Role.USER, kind=NodeKind.QUESTION, text="q", token_ids=(1, 2)),
        turn(0, "bad", (3, 4, 5), rejected=True),
        turn(0, "call", (6,), calls=(ToolCall(name="visit", arguments={}),)),
        Node(parent=2, role=Role.USER, kind=NodeKind.OBSERVATION, text="<answer>x</answer>", token_ids=(7, 8), events=events),
        turn(3, "end", (9, 10), answer="x"),
    )
    values: dict[str, object] = {"id": "t", "question": QUESTIONS[0], "nodes": nodes, "leaf": 4, "ending": Ending.ANSWERED}
    values |= {"answer": "x", "seeds": Seeds(attempt=1), "meta": {META_KEY: {"judge": "exact", "correct": True}}}
    return Trajectory.model_validate(values | changes)


def test_an_episode_counts_the_main_branch_and_pays_for_rejected_turns() -> None:
    found = episode_of(trajectory())
    assert (found.turns, found.calls, found.visits, found.sampled_tokens) == (2, 2, 1, 6)
    assert (found.question, found.attempt, found.ruling("exact", QUESTIONS[0])) == ("a", 1, True)


def test_a_right_answer_costs_what_all_attempts_cost() -> None:
    rows = [
        episode("a", 0, True, seconds=2.0, sampled_tokens=10, prompt_tokens=100),
        episode("b", 0, False, seconds=3.0, sampled_tokens=20, prompt_tokens=200),
        episode("c", 0, None, Ending.POLICY_OUTAGE, seconds=1.0, sampled_tokens=None, prompt_tokens=None, turns=0),
    ]
    priced = INFO | {"prices": Prices(prompt=10_000.0, sampled=100_000.0)}
    cost = summarise(rows, QUESTIONS, 1, **priced).cost
    assert cost is not None and (cost.total, cost.attempt, cost.right) == pytest.approx((6.0, 2.0, 6.0)), "no token was lost"
    unknown = summarise([*rows[:2], episode("c", 0, True, sampled_tokens=None)], QUESTIONS, 1, **priced).cost
    assert unknown is not None and (unknown.total, unknown.attempt, unknown.right) == (None, None, None)
    uncounted = [replace(row, sampled_tokens=None) for row in rows]
    free = summarise(uncounted, QUESTIONS, 1, **INFO | {"prices": Prices(1e6, 0.0)}).cost
    assert free is not None and free.total == pytest.approx(300.0), "what costs nothing need not be counted"
    wrong = summarise([episode(q.id, 0, False, prompt_tokens=1) for q in QUESTIONS], QUESTIONS, 1, **priced).cost
    assert wrong is not None and wrong.right is None and summarise(rows, QUESTIONS, 1, **INFO).cost is None


def test_a_turn_by_text_counts_what_its_server_says() -> None:
    node = Node(
        parent=None, role=Role.ASSISTANT, kind=NodeKind.TURN, text="x", answer="The Ulm!", prompt_tokens=40, sampled_tokens=7
    )
    said = trajectory(nodes=(node,), leaf=0, answer="The Ulm!", profile="dr-venus-4b")
    found = episode_of(said)
    assert (found.prompt_tokens, found.sampled_tokens) == (40, 7)
    silent = episode_of(trajectory(nodes=(node.model_copy(update={"sampled_tokens": 0}),), leaf=0, profile="whose"))
    assert silent.sampled_tokens is None


def test_questions_that_are_all_alike_give_no_interval_of_a_point() -> None:
    questions = [Question(id=id, text=id, answers=("x",)) for id in "abcd"]
    rows = [episode(one.id, attempt, attempt == 0) for one in questions for attempt in (0, 1)]
    found = summarise(rows, questions, 2, **INFO)
    assert found.pass_at_1.value == 0.5 and found.pass_at_1.interval is None, "four halves are no proof of a half"
    assert found.pass_at_k[2].interval is not None and found.pass_at_k[2].interval.low < 1.0, "Wilson's where all are right"
