"""Recorded calls put to a world: each value by hand, gold pages and leaks, overlap of lists; what was held out."""

import os
from pathlib import Path

import pytest
from fidelity_fakes import extract, results, trajectory
from hypothesis import given
from hypothesis import strategies as st

from sanderling.core.errors import UserError
from sanderling.core.record import Question, Trajectory
from sanderling.data.importing import import_all
from sanderling.evaluate.fidelity.measure import part
from sanderling.world.contract import Page
from sanderling.world.fidelity import (
    Settings,
    compare_searches,
    holds_answer,
    overlap_at,
    rank_biased_overlap,
    recorded_calls,
)
from sanderling.world.local import LocalWorld
from sanderling.world.recorded import Unit, built_from, pages_from_trajectories, place_of, read_built_from, sides, split

WORLD = LocalWorld.in_memory(
    [
        Page(url="https://a.example/herring_(fish)", title="Herring", text="The herring is a fish of cold seas."),
        Page(url="https://www.b.example/tern", title="Tern", text="The tern eats herring and crosses oceans."),
        Page(url="https://c.example/moor", title="Moor", text="A moor is wet and has heather."),
    ],
    name="w",
)


def holds(url: str) -> bool:
    return WORLD.page(url) is not None


def rows(*observations: str, settings: Settings | None = None):
    calls = recorded_calls([trajectory(f"t{n}", f"q{n}", said) for n, said in enumerate(observations)])
    return compare_searches(calls.searches, WORLD, holds, settings or Settings())


GOLD, OTHER, NEWS = "https://a.example/gold", "https://a.example/other", "https://a.example/news"
QUERY = "who paints herons"


def answered(answer: str | None, *observations: str, accepted: tuple[str, ...] = ("Anna Bel",), id: str = "t") -> Trajectory:
    made = trajectory(id, "Who?", *observations)
    return made.model_copy(update={"question": Question(id="Who?", text="Who?", answers=accepted), "answer": answer})


SEEN = (results((QUERY, [(OTHER, "a heron"), (GOLD, "Painted by ANNA BEL.")])), extract(GOLD, "The painter is Anna  Bel."))


@pytest.mark.parametrize(
    ("text", "answers", "held"),
    [
        ("The painter was ANNA Bel, of Orlo.", ["Anna Bel"], True),
        ("Anna -- Bel", ["Anna Bel"], True),  # punctuation does not part words
        ("Bel Anna", ["Anna Bel"], False),
        ("Annabel", ["Anna Bel"], False),
        ("In 12019 steps", ["2019"], False),
        ("以 外星人 为 题", ["外星人"], True),
        ("anything", [], False),
    ],
)
def test_an_answer_stands_side_by_side_and_in_order(text, answers, held):
    assert holds_answer(text, answers) is held


def test_where_answering_pages_rank_and_what_snippets_give_away():
    """A wrong attempt's list counts too, with the gold page that another attempt found; the world lists it first."""
    lists = results((QUERY, [(OTHER, "a heron"), (NEWS, "news")]))
    calls = recorded_calls([answered("Anna Bel", *SEEN), answered("Ivo", lists, id="u")])
    pages = [Page(url=GOLD, title="Herons", text="Herons, and who paints herons."), Page(url=NEWS, title="n", text="Anna Bel")]
    world = LocalWorld.in_memory(pages, name="w")
    rows = compare_searches(calls.searches, world, lambda url: world.page(url) is not None, Settings(k=3))
    whole = part("l", "r", rows, [], trajectories=2, distinct_queries=1, asked_before=0, seed=0)
    assert whole.gold_questions == 1
    assert {one.name: one.value for one in whole.figures if "gold" in one.name or "leak" in one.name} == {
        "gold_listed_recorded": 0.5, "gold_listed_world": 1.0, "gold_rr_recorded": 0.25, "gold_rr_world": 1.0,
        "leak_recorded": 0.5, "leak_world": 0.0, "leak_share_recorded": 0.25, "leak_share_world": 0.0,
    }  # fmt: skip


KEYS = st.lists(st.sampled_from("abcdefghijkl"), unique=True, max_size=12)
PERSISTENCE = st.floats(min_value=0.05, max_value=0.98)


def series(a, b, p: float) -> float:
    """RBO_EXT from its meaning: agreement at every depth, assumed beyond the lists, summed until nothing is left."""
    short, long = sorted((list(a), list(b)), key=len)
    s, size = len(short), len(long)
    at_s = len(set(short) & set(long[:s]))
    at_l = len(set(short) & set(long))
    total, weight = 0.0, 1.0 - p
    d = 0
    while weight > 1e-14:
        d += 1
        if d <= s:
            agreement = len(set(short[:d]) & set(long[:d])) / d
        elif d <= size:
            agreement = (len(set(short) & set(long[:d])) + at_s * (d - s) / s) / d
        else:
            agreement = (at_l - at_s) / size + at_s / s
        total += weight * agreement
        weight *= p
    return total


@pytest.mark.parametrize(
    ("a", "b", "p", "value"),
    [
        ("abc", "acb", 0.5, 0.875),  # 1/2·1 + 1/4·1/2 + 1/8·1, and 1/8·1 beyond
        ("ab", "ba", 0.5, 0.5),  # agreement 0 at depth 1, 1 from depth 2 on
        ("ab", "ac", 0.5, 0.75),  # 1 at depth 1, 1/2 from depth 2 on
        ("a", "ba", 0.5, 0.25),  # 0 at depth 1; 1/2 at depth 2 and beyond
        ("ab", "abcd", 0.9, 1.0),  # the short list agrees as far as it goes
        ("abc", "abc", 0.9, 1.0),
        ("abc", "def", 0.9, 0.0),
    ],
)
def test_values_by_hand(a, b, p, value):
    assert rank_biased_overlap(a, b, p) == pytest.approx(value, abs=1e-12)


@given(KEYS, KEYS, PERSISTENCE)
def test_it_is_the_sum_of_the_series(a, b, p):
    if a and b:
        assert rank_biased_overlap(a, b, p) == pytest.approx(series(a, b, p), abs=1e-9)


@given(KEYS, KEYS, PERSISTENCE, st.integers(1, 15))
def test_both_are_symmetric_and_within_bounds(a, b, p, k):
    for measure in (lambda x, y: overlap_at(x, y, k), lambda x, y: rank_biased_overlap(x, y, p)):
        value = measure(a, b)
        assert value == (pytest.approx(measure(b, a)) if value is not None else measure(b, a))
        assert (value is None) == (not a and not b)
        assert value is None or 0.0 <= value <= 1.0


MANY = [trajectory(f"t{n}", f"question {n // 2}", results((f"query {n}", []))) for n in range(400)]


def test_the_split_is_the_same_whatever_the_order():
    built, held = split(MANY, 0.25, 3)
    again_built, again_held = split(reversed(MANY), 0.25, 3)
    assert {t.id for t in held} == {t.id for t in again_held} and {t.id for t in built} == {t.id for t in again_built}
    assert 70 <= len(held) <= 130
    assert not {t.question.id for t in held} & {t.question.id for t in built}
    assert {t.id for t in split(MANY, 0.25, 4)[1]} != {t.id for t in held}


@given(st.text(), st.integers())
def test_every_question_has_a_place(question, seed):
    assert 0 <= place_of(question, seed) < 1


def test_nothing_left_to_build_from():
    lone = trajectory("t", "q", "x")
    seed = next(seed for seed in range(100) if place_of("q", seed) < 0.9)
    with pytest.raises(UserError, match="hold out less"):
        split([lone], 0.9, seed)


def test_no_memory_and_a_damaged_one(tmp_path):
    assert read_built_from(tmp_path) is None
    (tmp_path / "built_from.json").write_text('{"share": 1}')
    with pytest.raises(UserError, match="again"):
        read_built_from(tmp_path)


ROOT = os.environ.get("SANDERLING_RECORDED", "")
needs_recordings = pytest.mark.skipif(
    not (ROOT and Path(ROOT).is_dir()), reason="SANDERLING_RECORDED names no directory of recorded trajectories"
)


@needs_recordings
def test_what_is_held_out_is_not_in_the_world():
    trajectories = import_all(ROOT).trajectories
    calls = recorded_calls(trajectories)
    assert (len(trajectories), len(calls.searches), len(calls.visits)) == (116, 787, 269)
    for unit in Unit:
        built, held = split(trajectories, 0.2, 0, unit)
        found = sides(trajectories, built_from(built, held, 0.2, 0, unit))
        assert (list(found.built_in), list(found.unseen), found.same_question) == (built, held, ())
    pages, _ = pages_from_trajectories(built)
    world = LocalWorld.in_memory(pages, name="recorded")
    searches = recorded_calls(held[:5]).searches + recorded_calls(built[:5]).searches
    rows = compare_searches(searches, world, lambda url: world.page(url) is not None, Settings())
    assert all(row.values["coverage"] == 1.0 for row in rows[-3:] if row.lengths[0])
    assert all((row.values.get("overlap") or 0.0) <= (row.values.get("coverage") or 0.0) + 1e-9 for row in rows)
