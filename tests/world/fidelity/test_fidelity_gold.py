"""Answering pages and leaks: what counts as one, where they rank, and what is left out."""

import pytest
from fidelity_fakes import extract, results, trajectory
from hypothesis import given
from hypothesis import strategies as st

from sanderling.core.record import Question, Trajectory
from sanderling.evaluate.fidelity import measures, part
from sanderling.world.contract import Page
from sanderling.world.fidelity import Settings, compare_searches, gold_pages, holds_answer, recorded_calls, telling
from sanderling.world.local import LocalWorld

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
        ("Vitamin C, written down", ["C++"], False),
        ("They used C++, it says", ["C++"], True),
        ("It was 40 degrees", ["-40"], False),
        ("It was \u221240 degrees", ["-40"], True),
    ],
)
def test_an_answer_stands_side_by_side_and_in_order(text, answers, held):
    assert holds_answer(text, answers) is held


@given(st.text(max_size=40), st.text(max_size=20), st.text(max_size=40))
def test_a_telling_answer_is_found_between_other_words(before, answer, after):
    for one in telling([answer]):
        assert holds_answer(f"{before}\n{one}\n{after}", [one])


def test_answers_that_stand_everywhere_tell_nothing():
    assert telling(["Yes", "no", "42", " 2019 ", "2019", "?!?", ""]) == ("2019",)


def test_gold_pages_come_from_right_answers_and_readable_pages():
    assert gold_pages([answered("It was Anna Bel.", *SEEN)]) == {"Who?": frozenset({GOLD})}
    assert gold_pages([answered("It was Ivo.", *SEEN)]) == {}
    assert gold_pages([answered(None, *SEEN)]) == {}
    assert gold_pages([answered("Anna Bel", SEEN[0], extract(GOLD, "The painter is a woman."))]) == {}
    assert gold_pages([answered("yes", *SEEN, accepted=("yes",))]) == {}


def test_where_answering_pages_rank_and_what_snippets_give_away():
    """A wrong attempt's list counts too, with the gold page that another attempt found; the world lists it first."""
    lists = results((QUERY, [(OTHER, "a heron"), (NEWS, "news")]))
    calls = recorded_calls([answered("Anna Bel", *SEEN), answered("Ivo", lists, id="u")])
    pages = [Page(url=GOLD, title="Herons", text="Herons, and who paints herons."), Page(url=NEWS, title="n", text="Anna Bel")]
    world = LocalWorld.in_memory(pages, name="w")
    rows = compare_searches(calls.searches, world, lambda url: world.page(url) is not None, Settings(k=3))
    assert [row.gold_ranks for row in rows] == [(2, 1), (0, 1)]
    found = {figure.name: figure for figure in measures(rows, [], seed=0)}
    assert {name: found[name].value for name in found if "gold" in name or "leak" in name} == {
        "gold_listed_recorded": 0.5, "gold_listed_world": 1.0, "gold_rr_recorded": 0.25, "gold_rr_world": 1.0,
        "leak_recorded": 0.5, "leak_world": 0.0, "leak_share_recorded": 0.25, "leak_share_world": 0.0,
    }  # fmt: skip
    whole = part("l", "r", rows, [], trajectories=2, distinct_queries=1, asked_before=0, seed=0, k=3)
    assert (whole.gold_questions, whole.gold_ranks_recorded, whole.gold_ranks_world) == (1, (0, 1, 0, 1), (2, 0, 0, 0))


def test_without_known_answers_nothing_is_said():
    calls = recorded_calls([trajectory("t", "Who?", *SEEN)])
    world = LocalWorld.in_memory([Page(url=GOLD, title="Herons", text="herons")], name="w")
    rows = compare_searches(calls.searches, world, lambda url: True, Settings())
    assert rows[0].gold_ranks is None
    for figure in measures(rows, [], seed=0):
        if "gold" in figure.name or "leak" in figure.name:
            assert (figure.n, figure.value) == (0, None)
    whole = part("l", "r", rows, [], trajectories=1, distinct_queries=1, asked_before=0, seed=0)
    assert whole.gold_ranks_recorded == whole.gold_ranks_world == ()
