"""Recorded calls put to a world: each value by hand, empty lists, other spellings of URLs, failures."""

from collections import Counter

import pytest
from fidelity_fakes import extract, results, trajectory
from hypothesis import given
from hypothesis import strategies as st

from sanderling.core.observations import ListedPage
from sanderling.core.types import ToolStatus
from sanderling.world.contract import Page
from sanderling.world.fidelity import (
    MEASURES,
    RecordedSearch,
    Settings,
    compare_searches,
    compare_visits,
    containment,
    domain,
    entropy_bits,
    jaccard,
    near_duplicates,
    recorded_calls,
    strangers,
    top_share,
)
from sanderling.world.local import LocalWorld

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


@given(st.lists(st.tuples(st.sampled_from("abc"), st.booleans()), max_size=8))
def test_the_stranger_is_the_next_list_of_another_question(made):
    hits = (ListedPage("t", "https://x.example", "s"),)
    searches = [RecordedSearch(group, "q", hits if has_results else ()) for group, has_results in made]
    size = len(searches)
    expected = []
    for index, search in enumerate(searches):
        ahead = [(index + step) % size for step in range(1, size)]
        expected.append(next((n for n in ahead if searches[n].hits and searches[n].group != search.group), None))
    assert strangers(searches) == expected


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
    counts = Counter(a=2, b=1, c=1)
    assert top_share(counts, 1) == 0.5 and top_share(counts, 5) == 1.0 and top_share(Counter(), 1) is None
    assert entropy_bits(counts.values()) == pytest.approx(1.5)
    assert entropy_bits([7]) == 0.0 and entropy_bits([]) is None


@given(st.text(), st.text())
def test_shares_of_words_are_shares(a, b):
    for value in (jaccard(a, b), containment(a, b), near_duplicates([a, b], 0.5)):
        assert value is None or 0.0 <= value <= 1.0
    assert jaccard(a, b) == jaccard(b, a)
