"""Branches beyond the limit: nothing is lost silently, and no row ends before its answer."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from train_records import PROFILE, WordTokenizer, record

from sanderling.core.record import NodeKind, Trajectory
from sanderling.train.encoding import Encoding, Limit, Overlong, Piece, fit, rows_of

MARK = 3


def mark(cut: int) -> list[int]:
    return [-cut] * MARK


@st.composite
def branches(draw: st.DrawFn) -> list[Piece]:
    """System, question, then turns and observations, the last a turn; every id tells its message and place."""
    kinds = [NodeKind.SYSTEM, NodeKind.QUESTION]
    for _ in range(draw(st.integers(0, 6))):
        kinds += [NodeKind.TURN, draw(st.sampled_from([NodeKind.OBSERVATION, NodeKind.HINT]))]
    kinds.append(NodeKind.TURN)
    sizes = [draw(st.integers(1, 40)) for _ in kinds]
    return [
        Piece(node, kind, [node * 1000 + at for at in range(size)])
        for node, (kind, size) in enumerate(zip(kinds, sizes, strict=True))
    ]


def tokens(pieces: list[Piece]) -> int:
    return sum(len(piece.ids) for piece in pieces)


def turns(pieces: list[Piece]) -> frozenset[int]:
    return frozenset(at for at, piece in enumerate(pieces) if piece.kind is NodeKind.TURN)


@given(branches(), st.integers(1, 300), st.sampled_from(list(Overlong)))
def test_no_part_is_longer_than_the_limit_and_every_part_ends_with_a_turn(pieces, most, how):
    fitted = fit(pieces, turns(pieces), Limit(most, how, least_observation=8), mark)
    for part in fitted.parts:
        assert tokens(part.pieces) <= most
        assert part.pieces[-1].kind is NodeKind.TURN
        assert part.trains and part.trains <= turns(part.pieces)
        assert [p.kind for p in part.pieces[:2]] == [NodeKind.SYSTEM, NodeKind.QUESTION]
    if tokens(pieces) <= most:
        assert [part.pieces for part in fitted.parts] == [pieces] and fitted.cut_tokens == 0


@given(branches(), st.integers(1, 300))
def test_a_cut_leaves_all_but_observations_as_they_were_and_the_ends_of_those(pieces, most):
    fitted = fit(pieces, turns(pieces), Limit(most, Overlong.CUT, least_observation=8), mark)
    bounded = [min(len(p.ids), 8) if p.kind is NodeKind.OBSERVATION else len(p.ids) for p in pieces]
    assert bool(fitted.parts) == (min(sum(bounded), tokens(pieces)) <= most)
    for part in fitted.parts:
        assert tokens(part.pieces) + fitted.cut_tokens == tokens(pieces)
        for before, after in zip(pieces, part.pieces, strict=True):
            if after.ids == before.ids:
                continue
            assert before.kind is NodeKind.OBSERVATION
            (*_, last) = (at for at, i in enumerate(after.ids) if i < 0)
            tail = after.ids[last + 1 :]
            head = after.ids[: last + 1 - MARK]
            assert after.ids[last] == len(after.ids) - len(before.ids)
            assert head == before.ids[: len(head)] and tail == before.ids[len(before.ids) - len(tail) :]
            assert 0 <= len(head) - len(tail) <= 1


@given(branches(), st.integers(1, 300), st.sampled_from([0.0, 0.3, 0.9]))
def test_a_split_trains_each_turn_that_fits_once_with_unbroken_context(pieces, most, share):
    fitted = fit(pieces, turns(pieces), Limit(most, Overlong.SPLIT, context_share=share), mark)
    trained = [part.pieces[at].node for part in fitted.parts for at in part.trains]
    opening = tokens(pieces[:2])
    alone = {p.node for p in pieces if p.kind is NodeKind.TURN and opening + len(p.ids) <= most}
    assert sorted(trained) == sorted(set(trained))
    assert set(trained) == alone
    for part in fitted.parts:
        nodes = [piece.node for piece in part.pieces[2:]]
        assert nodes == list(range(nodes[0], nodes[-1] + 1))
        assert part.pieces[2].kind is NodeKind.TURN


@pytest.mark.parametrize(("how", "rows"), [(Overlong.DROP, 0), (Overlong.SPLIT, 4)])
def test_what_became_of_a_trajectory_is_counted(how: Overlong, rows: int):
    encoding = Encoding(WordTokenizer(), PROFILE)
    made = rows_of(record("sssssva"), encoding, Limit(50, how, context_share=0.0))
    assert len(made.rows) == rows
    assert made.longest > 50
    assert (made.too_long, made.split, made.cut, made.turns_left_out) == ((1, 0, 0, 7) if rows == 0 else (0, 1, 0, 0))


def long_observation(size: int) -> Trajectory:
    base = record("sa")
    nodes = list(base.nodes)
    nodes[3] = nodes[3].model_copy(update={"token_ids": tuple(range(100, 100 + size))})
    return base.model_copy(update={"nodes": tuple(nodes)})


def test_a_cut_observation_says_how_much_is_missing():
    encoding = Encoding(WordTokenizer(), PROFILE)
    made = rows_of(long_observation(2_000), encoding, Limit(500, Overlong.CUT))
    (row,) = made.rows
    assert len(row.ids) == 500 and made.cut == 1
    assert made.cut_tokens == made.longest - 500
    text = encoding.tokenizer.decode([int(i) for i in row.ids if i < 64 and i > 2 and int(i) in encoding.tokenizer.seen])
    assert "tokens left out" in text
    assert row.loss_mask[-1]


def forked(shape: Callable[[Trajectory], Trajectory] = lambda t: t) -> Trajectory:
    base = record("sva")
    fork = base.nodes[6].model_copy(update={"parent": 5})
    return shape(base.model_copy(update={"nodes": (*base.nodes, fork), "leaf": 6}))


def test_branches_become_rows_and_a_shared_turn_is_trained_once():
    encoding = Encoding(WordTokenizer(), PROFILE)
    made = rows_of(forked(), encoding, Limit(10**6))
    main, side = made.rows
    trajectory = forked()
    assert main.ids.tolist() == trajectory.token_ids(6) and side.ids.tolist() == trajectory.token_ids(7)
    assert main.loss_mask.sum() == sum(len(trajectory.nodes[at].token_ids or ()) for at in (2, 4, 6))
    assert side.loss_mask.sum() == len(trajectory.nodes[7].token_ids or ())
    assert main.trajectory == side.trajectory


def test_turns_of_a_dropped_branch_are_trained_on_another_that_fits():
    encoding = Encoding(WordTokenizer(), PROFILE)
    long = forked(
        lambda t: t.model_copy(
            update={
                "nodes": (*t.nodes[:6], t.nodes[6].model_copy(update=dict.fromkeys(("logprobs", "versions", "loss_mask"))
                | {"token_ids": tuple(range(400))}), *t.nodes[7:])
            }
        )
    )  # fmt: skip
    made = rows_of(long, encoding, Limit(200))
    (side,) = made.rows
    assert side.loss_mask.sum() == sum(len(long.nodes[at].token_ids or ()) for at in (2, 4, 7))
    assert (made.too_long, made.turns_left_out) == (1, 1)
