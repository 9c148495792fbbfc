"""Bands of difficulty and stages of a curriculum: arithmetic, order, and what is told too early or too late."""

from itertools import product
from math import ceil

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from sanderling.core.errors import UserError
from sanderling.core.record import Question
from sanderling.rl.curriculum import META, Band, BandSettings, Try, by_difficulty, difficulty, length_band
from sanderling.synth.mix import Mix, Part, Stage, mix, shared_out

EIGHT = BandSettings()


def tries(right: int, wrong: int, unscored: int = 0, length: int = 20_000) -> list[Try]:
    results = [True] * right + [False] * wrong + [None] * unscored
    return [Try("q", correct, length, turns=4) for correct in results]


@pytest.mark.parametrize(
    ("right", "wrong", "unscored", "band"),
    [
        (0, 8, 0, Band.TOO_HARD),
        (1, 7, 0, Band.KEPT),
        (7, 1, 0, Band.KEPT),
        (8, 0, 0, Band.TOO_EASY),
        (1, 6, 1, Band.KEPT),
        (0, 7, 1, Band.UNTOLD),
        (7, 0, 1, Band.UNTOLD),
        (6, 1, 1, Band.KEPT),
        (0, 0, 8, Band.UNTOLD),
    ],
)
def test_bands(right, wrong, unscored, band):
    found = difficulty(tries(right, wrong, unscored), EIGHT)
    assert (found.band, found.scored, found.right) == (band, right + wrong, right)
    assert found.length == ("16k-32k" if right else "")


@given(st.integers(0, 8), st.integers(0, 8), st.lists(st.booleans(), max_size=8))
def test_what_is_told_early_stays_so(right, wrong, later):
    if right + wrong + len(later) > 8:
        return
    early = difficulty(tries(right, wrong), EIGHT).band
    late = difficulty(tries(right + sum(later), wrong + len(later) - sum(later)), EIGHT).band
    assert early is Band.UNTOLD or early is late


@pytest.mark.parametrize(
    ("length", "name"), [(0, "lt16k"), (15_999, "lt16k"), (16_000, "16k-32k"), (63_999, "48k-64k"), (64_000, "ge64k")]
)
def test_length_bands(length, name):
    assert length_band(length, EIGHT.lengths) == name


@pytest.mark.parametrize("wrong", [{"least_right": 5, "most_right": 3}, {"most_right": 9}, {"lengths": (3, 2)}, {"tries": 1}])
def test_settings_that_make_no_sense_are_refused(wrong):
    with pytest.raises(ValidationError):
        BandSettings(**wrong)


def test_questions_by_band_keep_their_order_and_say_who_measured():
    questions = [Question(id=str(n), text=f"Q{n}?", answers=("a",)) for n in range(4)]
    made = [Try(str(n), k < 3 * n, 100) for n in range(3) for k in range(8)]
    bands, rates = by_difficulty(questions, made, EIGHT, "agent")
    assert [q.id for q in bands[Band.KEPT]] == ["1", "2"] and [q.id for q in bands[Band.TOO_HARD]] == ["0"]
    assert [q.id for q in bands[Band.UNTOLD]] == ["3"]
    assert rates == {"0/8": 1, "3/8": 1, "6/8": 1, "0/0": 1}
    assert bands[Band.KEPT][0].meta[META] == {
        "agent": "agent", "attempts": 8, "band": "kept", "scored": 8, "right": 3, "length": "lt16k", "turns": 0.0,
    }  # fmt: skip


def pool(facts: int, graphs: int) -> list[Question]:
    made = [("facts", 1)] * facts + [("graph", 3)] * graphs
    return [Question(id=f"{maker}{n}", text="?", hops=hops, meta={"maker": maker}) for n, (maker, hops) in enumerate(made)]


PARTS = (Part(share=0.75, maker=("facts",)), Part(share=0.25, maker=("graph",)))


@given(st.integers(1, 60), st.integers(1, 60), st.integers(4, 80), st.integers(0, 3))
def test_shares_are_kept_and_no_question_is_in_two_stages(facts, graphs, count, seed):
    stages = (Stage(name="one", count=count, parts=PARTS),)
    (one,) = mix(pool(facts, graphs), Mix(stages=stages, seed=seed))
    got = [sum(q.meta["maker"] == maker for q in one.questions) for maker in ("facts", "graph")]
    assert list(one.by_part) == got and len({q.id for q in one.questions}) == sum(got)
    assert sum(got) <= count and abs(got[0] - 3 * got[1]) <= 3
    assert sum(got) == count or one.short
    assert mix(pool(facts, graphs)[::-1], Mix(stages=stages, seed=seed))[0].questions == one.questions


def test_a_part_that_runs_short_makes_the_stage_smaller_and_says_so():
    (one,) = mix(pool(100, 5), Mix(stages=(Stage(name="one", count=80, parts=PARTS),)))
    assert one.by_part == (15, 5) and "20 of 80" in one.short


@given(st.lists(st.integers(1, 9), min_size=1, max_size=7), st.integers(1, 200))
def test_a_stage_is_never_larger_than_it_was_to_be(shares, count):
    made = [Question(id=f"{n}-{k}", text="?", hops=n) for n in range(len(shares)) for k in range(count)]
    parts = tuple(Part(share=share, hops=(n,)) for n, share in enumerate(shares))
    (one,) = mix(made, Mix(stages=(Stage(name="one", count=count, parts=parts),)))
    assert len(one.questions) == count and not one.short
    assert all(abs(got - count * share / sum(shares)) < 1 for got, share in zip(one.by_part, shares, strict=True))


@pytest.mark.parametrize("seed", range(8))
def test_a_broad_part_leaves_a_narrow_one_its_questions(seed):
    parts = (Part(share=1), Part(share=1, maker=("graph",)))
    (one,) = mix(pool(10, 5), Mix(stages=(Stage(name="one", count=10, parts=parts),), seed=seed))
    assert one.by_part == (5, 5) and not one.short


def can_be_given(hops, parts, wanted):
    """Whether some way of giving each question to one part or none gives every part what is wanted: all ways are tried."""
    owners = [[None, *(number for number, part in enumerate(parts) if one in part.hops)] for one in hops]
    return any(all(way.count(part) >= number for part, number in enumerate(wanted)) for way in product(*owners))


@given(
    st.lists(st.integers(1, 3), min_size=1, max_size=6),
    st.lists(st.tuples(st.integers(1, 3), st.sets(st.integers(1, 3), min_size=1)), min_size=1, max_size=3),
    st.integers(1, 6),
    st.integers(0, 2),
)
def test_every_part_has_its_share_whenever_some_way_gives_it(hops, wanted, count, seed):
    parts = tuple(Part(share=share, hops=tuple(sorted(takes))) for share, takes in wanted)
    shares = [part.share / sum(part.share for part in parts) for part in parts]
    stage = Stage(name="one", count=count, parts=parts)
    made = [Question(id=str(number), text="?", hops=one) for number, one in enumerate(hops)]
    whole = shared_out(count, shares)
    rounded_up = [[ceil(size * share - 1e-9) for share in shares] for size in range(count)]
    sizes = [size for size, wanted in enumerate(rounded_up) if can_be_given(hops, parts, wanted)]
    is_whole = can_be_given(hops, parts, whole)
    if any(not set(part.hops) & set(hops) for part in parts) or (not is_whole and sizes == [0]):
        with pytest.raises(UserError, match=r"too few questions|no question for"):
            mix(made, Mix(stages=(stage,), seed=seed))
        return
    (one,) = mix(made, Mix(stages=(stage,), seed=seed))
    assert list(one.by_part) == (whole if is_whole else shared_out(max(sizes), shares))
    assert bool(one.short) is not is_whole
    assert can_be_given([question.hops for question in one.questions], parts, one.by_part)


def test_later_stages_take_what_is_left():
    plan = Mix(stages=(Stage(name="one", count=6), Stage(name="two", count=6)))
    one, two = mix(pool(10, 0), plan)
    assert len(one.questions) == 6 and len(two.questions) == 4 and two.short
    assert not {q.id for q in one.questions} & {q.id for q in two.questions}


def test_bad_plans_are_one_sentence():
    with pytest.raises(UserError, match="no question for its part"):
        mix(pool(3, 0), Mix(stages=(Stage(name="one", count=4, parts=PARTS),)))
    with pytest.raises(UserError, match="2 questions have the id"):
        mix([*pool(1, 0), *pool(1, 0)], Mix(stages=(Stage(name="one", count=1),)))
    with pytest.raises(ValidationError):
        Stage(name="../one", count=1)
    with pytest.raises(UserError, match="2 stages are named"):
        mix(pool(3, 0), Mix(stages=(Stage(name="one", count=1), Stage(name="one", count=1))))
