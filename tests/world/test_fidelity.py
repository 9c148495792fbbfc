"""Recorded calls put to a world: each value by hand, gold pages and leaks, overlap of lists; what was held out."""

import hashlib
import os
from dataclasses import replace
from pathlib import Path

import pytest
from fidelity_fakes import extract, results, trajectory
from hypothesis import given
from hypothesis import strategies as st

from sanderling.core.errors import UserError
from sanderling.core.record import Question, Trajectory
from sanderling.core.types import ToolStatus
from sanderling.data.importing import import_all
from sanderling.evaluate.fidelity import domains, measures, part
from sanderling.world.contract import Page
from sanderling.world.fidelity import (
    MEASURES,
    QueryRow,
    Settings,
    compare_searches,
    compare_visits,
    containment,
    domain,
    gold_pages,
    holds_answer,
    jaccard,
    near_duplicates,
    overlap_at,
    rank_biased_overlap,
    recorded_calls,
    telling,
    weight_of_top,
)
from sanderling.world.local import LocalWorld
from sanderling.world.recorded import (
    Unit,
    built_from,
    is_held_out,
    pages_from_trajectories,
    read_built_from,
    sides,
    split,
    was_asked,
    write_built_from,
)

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


def test_values_of_one_query():
    hits = [
        ("http://A.example/herring_%28fish%29/", "The herring is a fish"),
        ("https://x.example/none", "elsewhere"),
        ("https://c.example/moor", "A moor"),
    ]
    one, other = rows(results(("herring", hits)), results(("heather moor", [("https://c.example/moor", "A moor")])))
    values = one.values
    assert set(values) == {name for name in MEASURES if not name.startswith(("visit", "extract"))}
    assert values["overlap"] == pytest.approx(1 / 3)  # herring is listed, x is unknown, the moor does not match
    assert values["coverage"] == pytest.approx(2 / 3) and values["found_of_held"] == 0.5
    assert (values["results_recorded"], values["results_world"]) == (3.0, 2.0)
    assert values["overlap_floor"] == pytest.approx(1 / 3)  # the moor, which the other question's query finds
    assert values["snippet_containment"] == 1.0
    assert one.domains_recorded == ("a.example", "x.example", "c.example")
    assert set(one.domains_world) == {"a.example", "b.example"}
    assert other.values["overlap"] == other.values["rbo"] == 1.0


def test_an_empty_list_is_counted_and_measured_by_nothing():
    (empty,) = rows(results(("herring", [])))
    assert all(value is None for value in empty.values.values())
    assert empty.domains_recorded == () and empty.lengths_world == ()


def test_the_floor_needs_another_question():
    calls = recorded_calls([trajectory("t", "q", results(("tern", [("https://b.example/tern", "x")]), ("moor", [])))])
    first, _ = compare_searches(calls.searches, WORLD, holds, Settings())
    assert first.values["overlap_floor"] is None
    assert first.values["overlap"] == 0.0  # www.b.example is another address


def test_k_cuts_the_recorded_list_and_asks_for_no_more():
    hits = [("https://c.example/moor", "m"), ("https://a.example/herring_(fish)", "h")]
    (row,) = rows(results(("herring", hits)), settings=Settings(k=1))
    assert (row.values["results_recorded"], row.values["results_world"], row.values["overlap"]) == (1.0, 1.0, 0.0)


def test_visits():
    dead = extract("https://gone.example", "The page could not be accessed.").replace("short", "")
    said = [extract("https://a.example/herring_(fish)", "a fish of warm rivers"), dead, extract("https://n.example", "words")]
    calls = recorded_calls([trajectory("t", "q", *said)])
    assert [visit.status for visit in calls.visits] == [ToolStatus.OK, ToolStatus.NOT_FOUND, ToolStatus.OK]
    good, gone, missing = compare_visits(calls.visits, WORLD, holds, Settings())
    assert good.values["visit_held"] == good.values["visit_same_outcome"] == 1.0
    assert good.values["extract_containment"] == pytest.approx(3 / 5)
    assert good.values["extract_words_recorded"] == 5.0
    assert (gone.values["visit_failed_recorded"], gone.values["visit_failed_world"]) == (1.0, 1.0)
    assert (missing.values["visit_same_outcome"], missing.values["extract_jaccard"]) == (0.0, None)
    assert (missing.recorded, missing.world) == (ToolStatus.OK, ToolStatus.NOT_FOUND)


def test_texts():
    assert jaccard("tidal flats", "flats of mud") == pytest.approx(1 / 4)
    assert jaccard("", "...") is None and jaccard("", "a word") == 0.0
    assert containment("Tidal flats", "the tidal FLATS here") == 1.0 and containment("", "x") is None
    copies = ["one two three four", "five six seven", "ONE two three four!", "", ""]
    assert near_duplicates(copies, 0.9) == pytest.approx(1 / 5)
    assert near_duplicates([], 0.5) is None


@pytest.mark.parametrize(
    ("url", "host"),
    [
        ("http://www.Example.org:80/x?y", "example.org"),
        ("https://user@b.example.org", "b.example.org"),
        ("example.org/x", "example.org"),
        ("nonsense", ""),
        ("", ""),
    ],
)
def test_domains(url, host):
    assert domain(url) == host


def test_concentration():
    row = QueryRow("q", {}, ("a", "a", "b", "c"), (), (), ())
    figures = {figure.name: figure.value for figure in domains([row], seed=0)}
    assert (figures["top1_recorded"], figures["top5_recorded"]) == (0.5, 1.0)
    assert figures["entropy_recorded"] == pytest.approx(1.5) and figures["entropy_world"] is None
    alone = {figure.name: figure.value for figure in domains([replace(row, domains_world=("a", "a"))], seed=0)}
    assert (alone["top1_world"], alone["entropy_world"]) == (1.0, 0.0)


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


def test_the_weights_of_the_paper():
    """Webber et al. 2010, section 4.1: with p = 0.9 the first ten ranks carry 86% of the weight."""
    assert weight_of_top(10, 0.9) == pytest.approx(0.8556, abs=1e-4)
    for d, p in ((1, 0.5), (5, 0.8), (10, 0.95)):
        weights = [(1 - p) * p ** (n - 1) * min(d, n) / n for n in range(1, 5_000)]
        # what depths beyond d weigh is shared out among their ranks: the first d of n have d/n of it
        assert weight_of_top(d, p) == pytest.approx(sum(weights), abs=1e-9)


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


@given(KEYS.filter(bool), PERSISTENCE, st.data())
def test_more_in_common_is_never_less(a, p, data):
    """A stranger in the other list replaced, in its place, by an item of the first that it lacks."""
    b = [item if data.draw(st.booleans()) else item.upper() for item in data.draw(st.permutations(a))]
    missing = [item for item in a if item not in b]
    strangers = [index for index, item in enumerate(b) if item.isupper()]
    if not missing:
        return
    better = list(b)
    better[data.draw(st.sampled_from(strangers))] = data.draw(st.sampled_from(missing))
    assert rank_biased_overlap(a, better, p) > rank_biased_overlap(a, b, p)
    assert all(overlap_at(a, better, k) >= overlap_at(a, b, k) for k in range(1, len(a) + 1))


def test_overlap_counts_within_k_only():
    assert overlap_at("abcd", "dcba", 2) == 0.0
    assert overlap_at("abcd", "dcba", 3) == pytest.approx(2 / 3)
    assert overlap_at("abcd", "dcba", 100) == 1.0
    assert overlap_at("ab", "abcd", 3) == pytest.approx(2 / 3)


def test_what_occurs_again_counts_once():
    assert overlap_at("aab", "ab", 2) == 1.0
    assert rank_biased_overlap("aab", "ab", 0.9) == pytest.approx(1.0)


@pytest.mark.parametrize("p", [0.0, 1.0, -1.0, float("nan")])
def test_impossible_parameters_are_refused(p):
    with pytest.raises(ValueError, match="p is"):
        rank_biased_overlap("a", "a", p)
    with pytest.raises(ValueError, match="d is"):
        weight_of_top(1, p)
    with pytest.raises(ValueError, match="k is"):
        overlap_at("a", "a", 0)


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
    write_built_from(tmp_path, [built_from(built, held, 0.25, 0)])
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
    assert all(row.values["coverage"] == 1.0 for row in rows[-3:] if row.lengths_recorded)
    assert all((row.values["overlap"] or 0.0) <= (row.values["coverage"] or 0.0) + 1e-9 for row in rows)
