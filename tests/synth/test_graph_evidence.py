"""What pages hold against a question: short cuts are hidden or end it, rivals end it, and what is left is supported."""

from dataclasses import replace

import pytest

from sanderling.synth.graph.contract import Capability, Entity, Fact, FactGraph, Uniqueness
from sanderling.synth.graph.documents.evidence import Evidence, words_of
from sanderling.synth.graph.documents.lines import Lines
from sanderling.synth.graph.draft import Draft, Dropped
from sanderling.synth.graph.ground import Ground
from sanderling.synth.graph.words.documents import DOCUMENTS
from sanderling.synth.graph.words.registry import RelationBook
from sanderling.world.contract import Page

BASE = "https://docs.example/"
ENTITIES = (
    Entity("venn", "Olav Venn", "person"),
    Entity("quill", "Ada Quill", "person"),
    Entity("high", "tide.high()", "function", pages=(BASE + "tide",)),
    Entity("tide", "tide", "module", pages=(BASE + "tide",)),
)
MADE = Fact("high", "contributed by", "venn", url=BASE + "news", quote="New tide.high() by Olav Venn.")
PART = Fact("high", "belongs to", "tide", url=BASE + "tide")
DRAFT = Draft(
    Capability.DIRECT, "Who?", ("Olav Venn",), (MADE, PART), 2, (), True, "chain", named=("the tide module",), touching=(MADE,)
)


def evidence(*texts: str) -> Evidence:
    pages = [Page(url=BASE + name, title=name, text=text) for name, text in zip(("news", "tide", "blog"), texts, strict=False)]
    ground = Ground.of(FactGraph({one.id: one for one in ENTITIES}, (MADE, PART)), RelationBook())
    return Evidence(ground, Lines.of(pages), lambda query: [one.url for one in pages])


def test_nothing_against_it_is_support() -> None:
    found = evidence("New tide.high() by Olav Venn.", "# tide\n\nOf harbours.").verdict(replace(DRAFT, named=("tide module",)))
    assert found == (replace(DRAFT, named=("tide module",)), Uniqueness.SUPPORTED)


def test_a_short_cut_elsewhere_is_hidden() -> None:
    found = evidence("New high() by Olav Venn.", "# x", "Olav Venn made the tide module of Boats.").verdict(DRAFT)
    assert isinstance(found, tuple)
    assert found[0].hidden == (BASE + "blog",)


def test_a_short_cut_on_a_needed_page_ends_it() -> None:
    assert evidence("New high() by Olav Venn in the tide module.", "# x").verdict(DRAFT) is Dropped.SHORTCUT


def test_another_person_in_the_same_line_is_a_rival() -> None:
    found = evidence("New tide.high() by Olav Venn.", "# x", "The first tide.high() was Ada Quill's.").verdict(DRAFT)
    assert found is Dropped.RIVAL


def test_what_is_computed_is_unchecked() -> None:
    found = evidence("New tide.high() by Olav Venn.").verdict(replace(DRAFT, form="count", touching=()))
    assert isinstance(found, tuple)
    assert found[1] is Uniqueness.UNCHECKED


@pytest.mark.parametrize("words", [["tide", "nowhere"], ["nowhere"], []])
def test_lines_that_hold_words_which_are_not_there(words: list[str]) -> None:
    assert Lines.of([Page(url="u", title="t", text="a tide\n\nb")]).holding(words) == []


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("Boats 1.6", {"1.6"}),
        ("1.6", {"1.6"}),
        ("v1.6", {"1.6"}),
        ("tide.high()", {"high"}),
        ("Lib/tide.py", {"lib", "tide", "py"}),
        ("What is new in Boats 1.6", {"what", "is", "new", "in", "boats", "1.6"}),
        ("PEP 31", {"pep", "31"}),
        ("C++", {"c++"}),
    ],
)
def test_what_names_are_told_by(name: str, words: set[str]) -> None:
    assert words_of(name) == words


@pytest.mark.parametrize(
    ("text", "is_held"),
    [("In 1.6.", True), ("Since v1.6, it floats.", True), ("In 1.60.", False), ("In 1.6.1.", False), ("1, then 6", False)],
)
def test_a_version_is_one_word(text: str, is_held: bool) -> None:
    assert bool(Lines.of([Page(url="u", title="t", text=text)]).holding(words_of("Boats 1.6"))) is is_held


RELEASES = tuple(Entity(f"release {one}", f"Boats {one}", "release", (one,)) for one in ("1.4", "1.6", "1.8", "1.60"))
CHANGED = Fact("high", "changed in", "release 1.6", url=BASE + "tide", quote="Changed in version 1.6: Faster.")
CHANGE = Draft(
    Capability.DIRECT, "Which?", ("Boats 1.6", "1.6"), (CHANGED,), 1, (), True, "chain", named=("high()",), touching=(CHANGED,)
)


def found_of_changes(tide: str, news: str = "# x", more: tuple[Fact, ...] = ()) -> tuple[Draft, Uniqueness] | Dropped:
    """The verdict on what release changed tide.high(), by its own page and by the page on another release."""
    notes = Entity("notes", "News in Boats 1.8", "page", (), (BASE + "news",))
    covers = Fact("notes", "covers", "release 1.8", url=BASE + "news")
    graph = FactGraph({one.id: one for one in (*ENTITIES, *RELEASES, notes)}, (CHANGED, covers, *more))
    pages = [Page(url=BASE + name, title=name, text=text) for name, text in (("tide", tide), ("news", news))]
    found = Evidence(Ground.of(graph, RelationBook(DOCUMENTS)), Lines.of(pages), lambda query: [one.url for one in pages])
    return found.verdict(CHANGE)


def test_a_release_that_stands_alone_is_supported() -> None:
    assert found_of_changes("# tide\n\ntide.high()\n\nThe height.\n\nChanged in version 1.6: Faster.") == (
        CHANGE, Uniqueness.SUPPORTED
    )  # fmt: skip


@pytest.mark.parametrize(
    "tide",
    [
        "# tide\n\ntide.high()\n\nThe height.\n\nChanged in version 1.6: Faster.\n\nIn 1.8 it was made slower.",
        "# tide\n\ntide.high()\n\nChanged in version 1.6: Faster.\n\nA\n\nB\n\nC\n\nD\n\nE\n\nSince 1.60 high() is slow.",
    ],
)
def test_another_release_beside_a_definition_is_a_rival(tide: str) -> None:
    assert found_of_changes(tide) is Dropped.RIVAL


def test_the_notes_on_another_release_that_name_the_thing_are_a_rival() -> None:
    tide = "# tide\n\ntide.high()\n\nChanged in version 1.6: Faster."
    assert found_of_changes(tide, "# News in Boats 1.8\n\nThe function high() takes days.") is Dropped.RIVAL
    assert found_of_changes(tide, "# News in Boats 1.8\n\nThe function low() takes days.") == (CHANGE, Uniqueness.SUPPORTED)


def test_a_mark_that_was_read_as_something_else_of_the_same_thing_is_no_rival() -> None:
    tide = "# tide\n\ntide.high()\n\nNew in version 1.4.\n\nChanged in version 1.6: Faster."
    new = Fact("high", "new in", "release 1.4", url=BASE + "tide", quote="New in version 1.4.")
    assert found_of_changes(tide, more=(new,)) == (CHANGE, Uniqueness.SUPPORTED)
    assert found_of_changes(tide) is Dropped.RIVAL
    assert found_of_changes(tide, more=(replace(new, subject="tide"),)) is Dropped.RIVAL


@pytest.mark.parametrize(
    ("relation", "sure"),
    [("length", Uniqueness.UNCHECKED), ("released on", Uniqueness.SUPPORTED), ("source code", Uniqueness.SUPPORTED)],
)
def test_values_that_may_be_several_are_unchecked(relation: str, sure: Uniqueness) -> None:
    value = Fact("high", relation, "9 m", is_literal=True, url=BASE + "tide", quote="tide.high | 9 m")
    draft = replace(CHANGE, answers=("9 m",), facts=(value,), touching=(value,))
    graph = FactGraph({one.id: one for one in ENTITIES}, (value,))
    found = Evidence(Ground.of(graph, RelationBook(DOCUMENTS)), Lines.of([]), lambda query: []).verdict(draft)
    assert found == (draft, sure)
