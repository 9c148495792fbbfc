"""The online curriculum: the plain order where it is off, and a state that is a pure function of what was heard."""

import random
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sanderling.core.record import Question
from sanderling.rl.curriculum import Curriculum, CurriculumConfig, Standing

QUESTIONS = [Question(id=f"q{i}", text="?", answers=("Oslo",)) for i in range(7)]
RIGHT, WRONG, MIXED = [1.0] * 4, [0.0] * 4, [0.0, 1.0, 0.0, 0.0]
ON = CurriculumConfig(retire_after=2, rest_after=2)


def new(**settings) -> Curriculum:
    return Curriculum(CurriculumConfig(**settings), QUESTIONS, seed=5)


def standings(curriculum: Curriculum) -> dict[str, Standing]:
    return {question.id: curriculum.progress(question.id).standing for question in QUESTIONS}


def visit(curriculum: Curriculum, question: str, outcomes: list[float], times: int = 1) -> None:
    curriculum.heard([(question, outcomes)] * times)


def test_off_it_is_a_seeded_order_gone_through_again_and_again():
    curriculum = new()
    for number in range(40):
        turn, index = divmod(number, len(QUESTIONS))
        order = np.random.default_rng((5, turn)).permutation(len(QUESTIONS))
        assert curriculum.at(number) is QUESTIONS[int(order[index])]
        curriculum.heard([(curriculum.at(number).id, RIGHT if number % 2 else WRONG)])
    assert set(standings(curriculum).values()) == {Standing.OPEN}


def test_a_mastered_question_is_asked_no_more_and_its_places_are_shared_out():
    curriculum = new(retire_after=2)
    visit(curriculum, "q3", RIGHT)
    assert standings(curriculum)["q3"] is Standing.OPEN
    visit(curriculum, "q3", RIGHT)
    visit(curriculum, "q1", RIGHT, 2)
    assert {name for name, one in standings(curriculum).items() if one is Standing.MASTERED} == {"q1", "q3"}
    for turn in range(20):
        asked = Counter(curriculum.at(turn * 7 + index).id for index in range(7))
        assert set(asked) == {"q0", "q2", "q4", "q5", "q6"} and max(asked.values()) <= 2
    longer = Counter(curriculum.at(number).id for number in range(700))
    assert max(longer.values()) - min(longer.values()) < 60, "nobody profits from the free places more than others"


def test_only_visits_in_a_row_count():
    curriculum = new(retire_after=2, rest_after=2)
    for outcomes in (RIGHT, MIXED, RIGHT, WRONG, MIXED, WRONG, RIGHT):
        visit(curriculum, "q0", outcomes)
    assert standings(curriculum)["q0"] is Standing.OPEN
    assert curriculum.progress("q0").success == pytest.approx((3 * 4 + 2 * 1) / 28)


def test_a_visit_that_nobody_could_score_is_none():
    curriculum = new(retire_after=2, rest_after=1)
    visit(curriculum, "q0", RIGHT)
    visit(curriculum, "q0", [])
    assert curriculum.progress("q0").visits == 1 and standings(curriculum)["q0"] is Standing.OPEN
    visit(curriculum, "q0", RIGHT)
    assert standings(curriculum)["q0"] is Standing.MASTERED, "an outage does not break the row either"


def test_a_hopeless_question_rests_and_comes_back():
    curriculum = new(rest_after=1)
    visit(curriculum, "q0", WRONG)
    for _ in range(6):
        assert standings(curriculum)["q0"] is Standing.RESTING
        visit(curriculum, "q1", MIXED)
    visit(curriculum, "q1", MIXED)
    assert standings(curriculum)["q0"] is Standing.OPEN
    visit(curriculum, "q0", WRONG)
    assert standings(curriculum)["q0"] is Standing.RESTING, "and it may rest again"


def test_there_is_always_a_question_to_ask():
    """Mastered ones come back first, the longest retired before the others."""
    curriculum = new(retire_after=1, rest_after=1)
    for question in QUESTIONS[:-1]:
        visit(curriculum, question.id, RIGHT if question.id in ("q2", "q4") else WRONG)
    assert curriculum.figures()["questions_open"] == 1
    visit(curriculum, "q6", WRONG)
    assert standings(curriculum)["q2"] is Standing.OPEN and curriculum.figures()["questions_open"] == 1
    assert curriculum.at(0).id == "q2"


def test_what_was_asked_before_a_question_left_is_heard_after():
    curriculum = new(retire_after=1)
    visit(curriculum, "q0", RIGHT)
    visit(curriculum, "q0", WRONG)
    assert standings(curriculum)["q0"] is Standing.MASTERED and curriculum.progress("q0").visits == 2


def test_a_question_of_another_run_is_refused():
    with pytest.raises(ValueError, match="'other'"):
        new().heard([("other", RIGHT)])


BATCHES = st.lists(
    st.lists(st.tuples(st.sampled_from([q.id for q in QUESTIONS]), st.sampled_from([RIGHT, WRONG, MIXED, []])), max_size=5),
    max_size=25,
)


@given(BATCHES, st.randoms(use_true_random=False))
def test_the_state_is_a_pure_function_of_what_was_heard(batches: list, rng: random.Random):
    one, other = Curriculum(ON, QUESTIONS, 1), Curriculum(ON, QUESTIONS, 1)
    for batch in batches:
        for _ in range(rng.randrange(4)):
            one.at(rng.randrange(100))  # asking changes nothing: another rank asks for other groups
        one.heard(batch)
    for batch in batches:
        other.heard(batch)
    assert standings(one) == standings(other) and one.figures() == other.figures()
    assert [one.at(number) for number in range(30)] == [other.at(number) for number in range(30)]
    assert one.figures()["questions_open"] >= 1
    assert all(one.progress(one.at(number).id).standing is Standing.OPEN for number in range(30))


def test_figures_tell_how_the_questions_stand():
    curriculum = new(retire_after=1, rest_after=1)
    curriculum.heard([("q0", RIGHT), ("q1", WRONG), ("q2", MIXED), ("q3", [])])
    assert curriculum.figures() == {
        "questions_open": 5.0,
        "questions_mastered": 1.0,
        "questions_resting": 1.0,
        "questions_visited": 3.0,
        "question_success": pytest.approx((1.0 + 0.0 + 0.25) / 3),
    }
