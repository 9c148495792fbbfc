"""Information gain over branches: each boundary where the turn stood, and no page measured without itself."""

import numpy as np
from train_records import WordTokenizer, record

from sanderling.core.record import Node, NodeKind, ToolEvent, Trajectory
from sanderling.core.types import Role, ToolCall, ToolStatus
from sanderling.rl.gain import GainConfig, Probe, information_gains

PROBE = Probe(prefix="enough </think> <answer>", suffix="</answer>")
TOKENS = WordTokenizer()


def node(parent: int | None, kind: NodeKind, text: str, **more) -> Node:
    """A visit where it is a turn without an answer."""
    role = Role.ASSISTANT if kind is NodeKind.TURN else Role.USER
    ids = tuple(TOKENS.encode(text))
    more = {"token_ids": ids, **more}
    if kind is NodeKind.TURN:
        calls = () if more.get("answer") else (ToolCall(name="visit", arguments={}),)
        return Node(parent=parent, role=role, kind=kind, text=text, calls=calls, **more)
    events = (ToolEvent(name="visit", role="visit", status=ToolStatus.OK),) if kind is NodeKind.OBSERVATION else ()
    return Node(parent=parent, role=role, kind=kind, text=text, events=events, **more)


def trajectory(*nodes: Node, leaf: int | None = None) -> Trajectory:
    return record("a").model_copy(update={"nodes": nodes, "leaf": len(nodes) - 1 if leaf is None else leaf})


TURN, SEEN, HINT, ASKED = NodeKind.TURN, NodeKind.OBSERVATION, NodeKind.HINT, NodeKind.QUESTION
RESET = trajectory(
    node(None, ASKED, "what ?"),
    node(0, TURN, "visit one"),
    node(1, SEEN, "page one with much on it"),
    node(2, TURN, "visit two"),
    node(3, SEEN, "page two"),
    # Everything but the question is forgotten.
    node(0, HINT, "you read two pages"),
    node(5, TURN, "visit three"),
    node(6, SEEN, "page three is long as well"),
    node(7, TURN, "done", answer="Oslo"),
)


class Contexts:
    """Gives every context a number of its own, and remembers what it is."""

    def __init__(self) -> None:
        self.seen: dict[tuple[int, ...], float] = {}
        self.requests = []

    def score_many(self, requests):
        self.requests = requests
        return [
            [
                np.full(
                    end - first, self.seen.setdefault(tuple([request.ids, *request.others][on][:cut]), 2.0 ** len(self.seen))
                )
                for cut, on, (first, end) in zip(request.cuts, request.on, request.answer_spans, strict=True)
            ]
            for request in requests
        ]

    def value(self, one: Trajectory, end: int) -> float:
        return self.seen[tuple(one.token_ids(end))]


def gains(one: Trajectory) -> tuple[list[float | None], Contexts]:
    scorer = Contexts()
    (found,) = information_gains([one], WordTokenizer(), scorer, GainConfig(probe=PROBE))
    return found, scorer


def test_a_turn_of_several_branches_is_measured_on_its_own():
    found, scorer = gains(RESET)
    spans = [(0, 2), (2, 4), (4, 7)]
    assert found == [*(scorer.value(RESET, after) - scorer.value(RESET, before) for before, after in spans), None]
    assert len(scorer.requests[0].others) == 1, "two branches"


def test_a_hint_that_takes_an_observations_place_does_not_take_the_page():
    """A published system measured such a visit without its page."""
    one = trajectory(
        node(None, ASKED, "what ?"),
        node(0, TURN, "visit one"),
        node(1, SEEN, "page one"),
        node(1, HINT, "answer now"),
        node(3, TURN, "done", answer="Oslo"),
    )
    found, scorer = gains(one)
    assert found == [scorer.value(one, 2) - scorer.value(one, 0), None]


def test_rejected_attempts_stay_out():
    plain, retried = record("sva"), record("srvra")
    found, _ = gains(plain)
    again, other = gains(retried)
    assert found == again
    assert len(other.requests[0].others) == 0
    attempt = next(n for n in retried.nodes if n.rejected)
    assert attempt.token_ids is not None
    ids = list(other.requests[0].ids)
    assert all(ids[at : at + len(attempt.token_ids)] != list(attempt.token_ids) for at in range(len(ids)))
