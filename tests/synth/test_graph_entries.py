"""Entries, names and tables of documents as they are written: several signatures, names that are no links, bars in prose."""

import pytest

from sanderling.synth.graph.contract import FactGraph
from sanderling.synth.graph.documents.blocks import BlockKind, lines_of
from sanderling.synth.graph.documents.graph import documents_graph
from sanderling.synth.graph.documents.labels import labels_in
from sanderling.synth.graph.documents.patterns import stated
from sanderling.synth.graph.documents.signatures import signature_of
from sanderling.synth.graph.ground import Ground
from sanderling.synth.graph.words.documents import DOCUMENTS
from sanderling.synth.graph.words.registry import RelationBook
from sanderling.world.contract import Page

BASE = "https://docs.example/"


def page(name: str, text: str) -> Page:
    return Page(url=BASE + name, title=name, text=text)


def link(words: str, name: str) -> str:
    return f"[{words}]({BASE}{name})"


def statements(graph: FactGraph) -> set[tuple[str, str, str]]:
    names = {id: entity.name for id, entity in graph.entities.items()}
    return {(names[f.subject], f.relation, f.object if f.is_literal else names[f.object]) for f in graph.facts}


@pytest.mark.parametrize("filler", [" ", "A", "a", "(", "@", "<", "(@", " @", "|", " | ", "-", "x.", "[", "`", "f()", "a.b "])
def test_long_runs_of_one_sign_take_linear_time(filler: str) -> None:
    run = filler * (200_000 // len(filler))  # a search from each place of it would take minutes
    graph = documents_graph(
        [page("long", f"# Boats\n\nAuthor: Ada Quill{run}x\n\nBoats {run} 1.6 was released on May 9, 2016.\n")]
    )
    assert {fact.relation for fact in graph.facts} <= {"written by"}


def test_mail_addresses_are_no_part_of_names() -> None:
    told = [
        one.values for one in labels_in(lines_of("Authors: Bo Lund <bo at x.org>, Ada Quill (ada@x.org) and Jo Fay jo@x.org"))
    ]
    assert told == [("Bo Lund", "Ada Quill", "Jo Fay")]


STACKS = page(
    "sails",
    f"""# sails — Sails

sails.set(place)

sails.set(place, day)

sails.hoist(place)

Set a sail of the boat. If there is no wind, {link("Calm", "sails")} is raised.

sails.trim(angle)

sails.trim

Trim all the sails.

class sails.Jib(size)

sails.Jib.furl(size)

Furl it at once.

sails.drop(place)

x = drop(place) is the same as a loop over all sails.

exception Calm

Raised when there is no wind.
""",
)


def test_several_signatures_of_one_entry_are_one_thing() -> None:
    graph = documents_graph([STACKS])
    told = {fact.subject.partition("#")[2]: fact.object for fact in graph.facts if fact.relation == "described as"}
    assert told == {
        "": "Sails",
        "sails.set()": "Set a sail of the boat",
        "sails.trim()": "Trim all the sails",
        "sails.Jib.furl()": "Furl it at once",
        "Calm": "Raised when there is no wind",
    }
    names = {entity.name: entity.aliases for entity in graph.entities.values()}
    assert "sails.hoist()" in names["sails.set()"] and "sails.hoist()" not in names
    assert [graph.entities[fact.object].name for fact in graph.facts if fact.relation == "raises"] == ["Calm"]
    assert "sails.drop()" in names  # its prose begins small
    assert {fact.subject for fact in graph.facts if fact.relation == "appears on"} >= {f"{BASE}sails#sails.Jib"}


BARE = """# tides — Tides

tides.high(place)

Return the height. It raises DryError for a place on land.

tides.low(place)

Similar to high(), but for low water.

tides.open(file)

Like open(), with tides in it.

tides.both(place)

Equivalent to high().pair(low) and more.

tides.any(place)

Same as sound(), but dry.

exception DryError

Raised on land.
"""


def test_names_that_are_no_links_are_read_where_they_mean_one_thing() -> None:
    files = page("files", "# Files\n\nopen(file)\n\nOpen a file.\n")
    depths = page("depths", "# depths — Depths\n\ndepths.sound(place)\n\nReturn the depth.\n")
    other = page("noise", "# noise — Noise\n\nnoise.sound(place)\n\nReturn the noise.\n")
    more = "".join(f"{link('open()', 'files')} " for _ in range(3))
    graph = documents_graph([page("tides", BARE), files, depths, other, page("use", f"# Use\n\nThese are {more}.\n")])
    told = {each for each in statements(graph) if each[1] in ("raises", "similar to", "equivalent to")}
    assert told == {("tides.high()", "raises", "DryError"), ("tides.low()", "similar to", "tides.high()")}
    world = documents_graph([page("tides", BARE.replace("sound()", "depths.sound()")), depths, other])
    assert ("tides.any()", "similar to", "depths.sound()") in statements(world)


def test_prose_with_bars_is_no_table() -> None:
    text = (
        "Return the height. New types are written Day | Place.\n\nsails.trim(angle: int | None)\n\nsails.furl(a: x | y)\n\n"
        "It is set with the bar operator between the flags that are wanted, as in the line HIGH | LOW.\n"
        "More flags are set with the same bar between them, and none with a zero, so that HIGH | LOW is both.\n"
    )
    assert {line.kind for line in lines_of(text)} == {BlockKind.PROSE}
    assert {line.kind for line in lines_of("Boat | Length\nTern | 9 m\n\n| Knot | 7 m |\n")} == {BlockKind.ROW}


@pytest.mark.parametrize("header", ["Source code", "New in", "Described as", "See also"])
def test_a_column_named_like_a_stated_relation_has_none_of_its_words(header: str) -> None:
    rows = "\n".join(f"Boat{n} | {n} m" for n in range(1, 6))
    graph = documents_graph([page("line", f"# The Line\n\nBoat | {header}\n--- | ---\n{rows}\n")])
    relations = {fact.relation for fact in graph.facts}
    assert relations == {f"{header.lower()} column"}
    words = Ground.of(graph, RelationBook(DOCUMENTS)).words.of(relations.pop())
    assert not words.is_functional and not words.is_weak and words.is_answer


@pytest.mark.parametrize("line", ["tz.utcoffset(dt) - tz.dst(dt)", "f(x)(y)", "a(b) + c(d)"])
def test_expressions_define_nothing(line: str) -> None:
    assert signature_of(line) is None


@pytest.mark.parametrize(
    "sentence", ["To keep all of it, use ⟦0⟧ instead.", "If it fails, use ⟦0⟧ instead.", "On boats, this is an alias of ⟦0⟧."]
)
def test_what_holds_for_some_purpose_or_place_is_not_said_of_the_thing(sentence: str) -> None:
    assert list(stated(sentence)) == []
