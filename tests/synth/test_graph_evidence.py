"""What pages hold against a question: short cuts are hidden or end it, rivals end it, and what is left is supported."""

from dataclasses import replace

import pytest

from sanderling.synth.graph.contract import Capability, Entity, Fact, FactGraph, Uniqueness
from sanderling.synth.graph.documents.evidence import Evidence
from sanderling.synth.graph.documents.lines import Lines
from sanderling.synth.graph.draft import Draft, Dropped
from sanderling.synth.graph.ground import Ground
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
