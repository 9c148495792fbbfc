"""Which of several trajectories is kept, and parts that share no question."""

import random
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sanderling.core.errors import UserError
from sanderling.data.dedupe import QA, Candidate, Prefer, Shares, dedupe, question_groups, split
from sanderling.judge.verdict import Ruling

LONG = "in which year was the first mayor of the northern river town born"


def candidate(text: str, ruling: Ruling | None = None, answered: bool = True, turns: int = 3) -> Candidate:
    return Candidate("t", QA(text), ruling, answered, turns)


@pytest.mark.parametrize(
    ("better", "worse"),
    [
        (candidate(LONG, Ruling.CORRECT, turns=9), candidate(LONG, None, turns=1)),
        (candidate(LONG, Ruling.UNSCORED, turns=9), candidate(LONG, Ruling.INCORRECT, turns=1)),
        (candidate(LONG, turns=9), candidate(LONG, answered=False, turns=1)),
        (candidate(LONG, turns=2), candidate(LONG, turns=3)),
    ],
)
def test_the_better_one_is_kept_wherever_it_stands(better: Candidate, worse: Candidate) -> None:
    assert dedupe([better, worse]).kept == (0,)
    found = dedupe([worse, better])
    assert found.kept == (1,) and found.duplicates == ((0, 1),)


KNOWN = st.sampled_from([(), (), ("x",), ("y",), ("x", "y")])
QUESTIONS = st.lists(st.text("abc ?", max_size=12).map(QA), max_size=20)


@given(QUESTIONS)
def test_each_question_keeps_one_and_nothing_is_lost(asked: list[QA]) -> None:
    rows = [Candidate(str(n), question, None, True, 1) for n, question in enumerate(asked)]
    found = dedupe(rows)
    assert sorted([*found.kept, *(row for row, _ in found.duplicates)]) == list(range(len(rows)))
    roots = question_groups(asked)
    assert sorted(roots[row] for row in found.kept) == sorted(set(roots))


RULINGS = st.sampled_from([None, *Ruling])
ROWS = st.lists(
    st.builds(
        Candidate,
        st.sampled_from("abc"),
        st.builds(QA, st.sampled_from([LONG, LONG.upper(), f"{LONG} there", f"{LONG} twice", "else"]), KNOWN),
        RULINGS,
        st.booleans(),
        st.integers(1, 2),
    ),
    max_size=10,
)


@given(ROWS, st.randoms(use_true_random=False), st.sampled_from([Prefer.SHORTEST, Prefer.LONGEST]), st.integers(1, 2))
def test_what_is_kept_is_a_function_of_the_set(rows: list[Candidate], chance: random.Random, prefer: Prefer, keep: int) -> None:
    shuffled = list(rows)
    chance.shuffle(shuffled)
    one, other = dedupe(rows, prefer=prefer, keep=keep), dedupe(shuffled, prefer=prefer, keep=keep)
    assert sorted(repr(rows[row]) for row in one.kept) == sorted(repr(shuffled[row]) for row in other.kept)
    assert Counter((repr(rows[row]), repr(rows[kept])) for row, kept in one.duplicates) == Counter(
        (repr(shuffled[row]), repr(shuffled[kept])) for row, kept in other.duplicates
    )


SHARES = Shares.read("train=0.7, validation=0.2,test=0.1")


@given(QUESTIONS, st.integers(0, 3), st.booleans())
def test_no_question_is_in_two_parts(asked: list[QA], seed: int, by_answers: bool) -> None:
    found = split(asked, SHARES, seed=seed, by_answers=by_answers)
    sides: dict[int, set[int]] = {}
    for root, part in zip(question_groups(asked, by_answers=False), found.parts, strict=True):
        sides.setdefault(root, set()).add(part)
    assert all(len(parts) == 1 for parts in sides.values())
    assert sum(found.questions) == len(sides)


@given(QUESTIONS, QUESTIONS)
def test_adding_rows_moves_no_question_but_by_joining_groups(asked: list[QA], more: list[QA]) -> None:
    before, after = split(asked, SHARES).parts, split([*asked, *more], SHARES).parts
    old, new = (question_groups(rows, by_answers=False) for rows in (asked, [*asked, *more]))
    assert all(before[row] == after[row] for row in range(len(asked)) if old[row] == new[row])


@given(QUESTIONS, st.randoms(use_true_random=False), st.integers(0, 3))
def test_the_order_of_rows_moves_nothing(asked: list[QA], chance: random.Random, seed: int) -> None:
    order = list(range(len(asked)))
    chance.shuffle(order)
    straight = split(asked, SHARES, seed=seed, by_answers=False).parts
    shuffled = split([asked[row] for row in order], SHARES, seed=seed, by_answers=False).parts
    assert [straight[row] for row in order] == list(shuffled)


def test_near_duplicates_of_one_answer_stay_together_through_a_question_of_two_answers() -> None:
    text = "who was the winner of the river race of the town of Orlo in the year of the flood"
    asked = [
        QA(text, ("x",)),
        QA(f"{text} again", ("x",)),
        QA(f"{text} again", ("y",)),
        QA(f"{text} once", ("y",)),
    ]
    for seed in range(20):
        assert len(set(split(asked, Shares.read("a=0.5,b=0.5"), seed=seed, by_answers=True).parts)) == 1


def test_the_same_words_stay_together_whatever_their_answers() -> None:
    asked = [QA(f"who was the winner of the river race of number {n}", (str(n),)) for n in range(60)]
    twins = [QA(question.text.upper(), (f"other {n}",)) for n, question in enumerate(asked)]
    found = split([*asked, *twins], SHARES, by_answers=True)
    assert found.parts[:60] == found.parts[60:] and set(found.parts) == {0, 1, 2}
    towns = [QA(f"who was the winner of the river race of the town {chr(97 + n % 26)}{chr(97 + n // 26)}") for n in range(60)]
    assert len(set(split(towns, SHARES).parts)) == 1, "one template is one group where neither answers nor capitals tell"


def test_shares_come_out_and_seeds_differ() -> None:
    asked = [QA(f"{n} {n * 7} {n * 13} question {n % 5}") for n in range(3_000)]
    found = split(asked, SHARES)
    assert [round(count / 3_000, 1) for count in found.questions] == [0.7, 0.2, 0.1]
    assert found == split(asked, SHARES) and found.parts != split(asked, SHARES, seed=1).parts
    assert set(split(asked, Shares.read("all=1,none=0")).parts) == {0}


@pytest.mark.parametrize("text", ["", "train", "train=x", "train=-1", "train=0", "a=1,a=2", "../x=1", "=1", "a=nan"])
def test_bad_shares_are_refused(text: str) -> None:
    with pytest.raises(UserError):
        Shares.read(text)
