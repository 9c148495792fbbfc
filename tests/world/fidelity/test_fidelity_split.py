"""Held out is held out: the same split everywhere, both attempts at a question on one side, and a world that remembers."""

import hashlib

import pytest
from fidelity_fakes import results, trajectory
from hypothesis import given
from hypothesis import strategies as st

from sanderling.core.errors import UserError
from sanderling.world.fidelity import recorded_calls
from sanderling.world.recorded import (
    Unit,
    built_from,
    is_held_out,
    read_built_from,
    sides,
    split,
    was_asked,
    write_built_from,
)

MANY = [trajectory(f"t{n}", f"question {n // 2}", results((f"query {n}", []))) for n in range(400)]


def test_the_split_is_the_same_whatever_the_order():
    built, held = split(MANY, 0.25, 3)
    again_built, again_held = split(reversed(MANY), 0.25, 3)
    assert {t.id for t in held} == {t.id for t in again_held} and {t.id for t in built} == {t.id for t in again_built}
    assert 70 <= len(held) <= 130
    assert not {t.question.id for t in held} & {t.question.id for t in built}
    assert {t.id for t in split(MANY, 0.25, 4)[1]} != {t.id for t in held}


def test_single_trajectories_may_be_held_out():
    built, held = split(MANY, 0.25, 3, Unit.TRAJECTORY)
    assert {t.question.id for t in held} & {t.question.id for t in built}
    found = sides(MANY, built_from(built, held, 0.25, 3, Unit.TRAJECTORY))
    assert (list(found.built_in), list(found.unseen), found.same_question) == (built, held, ())
    moved = [t.model_copy(update={"id": f"moved/{t.id}"}) for t in MANY]
    assert [t.id for t in split(moved, 0.25, 3, Unit.TRAJECTORY)[1]] == [f"moved/{t.id}" for t in held]


def test_a_side_never_changes_from_machine_to_machine():
    place = int(hashlib.sha256(b"0\0which river?").hexdigest()[:16], 16) / 2**64
    assert is_held_out("Which  River?", place + 1e-9, 0) and not is_held_out("which river?", place - 1e-9, 0)


@given(st.text(), st.floats(0, 0.5), st.floats(0, 0.49), st.integers())
def test_a_larger_share_holds_out_more(question, share, more, seed):
    assert not is_held_out(question, 0.0, seed)
    assert is_held_out(question, share + more, seed) or not is_held_out(question, share, seed)


@pytest.mark.parametrize("share", [-0.1, 1.0, 2.0, float("nan")])
def test_impossible_shares(share):
    with pytest.raises(UserError, match="cannot be held out"):
        is_held_out("q", share, 0)


def test_nothing_left_to_build_from():
    lone = trajectory("t", "q", "x")
    seed = next(seed for seed in range(100) if is_held_out("q", 0.9, seed))
    with pytest.raises(UserError, match="hold out less"):
        split([lone], 0.9, seed)


def test_a_world_remembers_what_it_was_built_from(tmp_path):
    built, held = split(MANY, 0.25, 0)
    write_built_from(tmp_path, built_from(built, held, 0.25, 0))
    known = read_built_from(tmp_path)
    assert known is not None and known.held_out == len(held)
    renamed = built[0].model_copy(update={"id": "other/name#7"})
    sibling = trajectory("new", built[0].question.text.upper(), results(("never asked", [])))
    found = sides([renamed, held[0], sibling], known)
    assert found.built_in == (renamed,) and found.unseen == (held[0],) and found.same_question == (sibling,)
    (asked,) = recorded_calls([built[0]]).searches
    assert was_asked(asked, known) and not was_asked(recorded_calls([sibling]).searches[0], known)
    text = (tmp_path / "built_from.json").read_text()
    assert "query" not in text.replace("queries", "") and "question 1" not in text


def test_no_memory_and_a_damaged_one(tmp_path):
    assert read_built_from(tmp_path) is None
    (tmp_path / "built_from.json").write_text('{"share": 1}')
    with pytest.raises(UserError, match="again"):
        read_built_from(tmp_path)
