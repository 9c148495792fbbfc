"""Facts from pages: what their forms state is read, with page and words; what they deny, or only seem to say, is not."""

import pytest

from sanderling.synth.graph.contract import FactGraph
from sanderling.synth.graph.documents.blocks import lines_of
from sanderling.synth.graph.documents.graph import documents_graph
from sanderling.synth.graph.documents.labels import cells_in, definitions_in
from sanderling.synth.graph.documents.naming import heading_of, key_of, standard_in
from sanderling.synth.graph.documents.patterns import stated
from sanderling.synth.graph.documents.releases import credit_in
from sanderling.synth.graph.documents.signatures import signature_of
from sanderling.synth.graph.ground import Ground
from sanderling.synth.graph.words.documents import DOCUMENTS
from sanderling.synth.graph.words.registry import RelationBook
from sanderling.world.contract import Page
from sanderling.world.inline_links import as_read

BASE = "https://docs.example/"


def page(name: str, text: str) -> Page:
    return Page(url=BASE + name, title=name, text=text)


def link(words: str, name: str) -> str:
    return f"[{words}]({BASE}{name})"


TIDE = page(
    "tide",
    f"""# tide — Tables of tides

Source code: [Lib/tide.py](https://code.example/tide.py)

New in version 1.4.

This module follows {link("PEP 31", "pep")}. See {link("Reading a Chart", "chart")} before you use it.

## Working with many harbours at once

tide.high(place, day)

Return the height of high water. If the place is unknown, {link("HarbourError", "errors")} is raised.

New in version 1.6.

Changed in version 1.8: The day may be a range.

tide.low(place, day)

Return the height of low water. It never raises {link("DepthError", "errors")}.

Deprecated since version 1.8: Use {link("tide.high()", "tide")} instead.

class tide.Table(rows)

A table of several days. It does not inherit from {link("HarbourError", "errors")}.

columns

How many there are.

New in version 1.8.
""",
)
ERRORS = page(
    "errors",
    """# Errors

exception HarbourError

Raised when a harbour is not in any table.

exception DepthError

Subclass of HarbourError for shallow water.
""".replace("Subclass of HarbourError", f"Subclass of {link('HarbourError', 'errors')}"),
)
NEWS = page(
    "news-1.6",
    f"""# News in Boats 1.6

Editor:

Ada Quill

Boats 1.6 was released on March 3, 2014. Boats 1.8 was released on May 9, 2016.

## Improved modules

- New function {link("tide.high()", "tide")} returns the height of high water. (Contributed by Olav Venn in [bug 3](https://bugs.example/3).)
- The new flag argument of {link("tide.low()", "tide")} is quiet. (Contributed by Nobody Known.)
""",
)
CHART = page(
    "chart",
    f"# Reading a Chart\n\nAuthor: Bo Lund <bo at example.org>\n\nThe {link('tide', 'tide')} module has tables; the "
    f"{link('tide', 'tide')} module is small.\n",
)
INDEX = page("index", "# Index\n\n" + "\n".join(f"- {link(name, name)}" for name in ("tide", "errors", "chart", "news-1.6")))


@pytest.fixture(scope="module")
def graph() -> FactGraph:
    return documents_graph([TIDE, ERRORS, NEWS, CHART, INDEX])


def statements(graph: FactGraph) -> set[tuple[str, str, str]]:
    names = {id: entity.name for id, entity in graph.entities.items()}
    return {(names[f.subject], f.relation, f.object if f.is_literal else names[f.object]) for f in graph.facts}


def test_what_the_pages_say(graph: FactGraph) -> None:
    assert statements(graph) == {
        ("tide", "described as", "Tables of tides"),
        ("tide", "source code", "Lib/tide.py"),
        ("tide", "new in", "Boats 1.4"),
        ("tide", "cites", "PEP 31"),
        ("tide", "refers to", "Reading a Chart"),
        ("tide", "has section", "Working with many harbours at once"),
        ("tide.high()", "belongs to", "tide"),
        ("tide.high()", "described as", "Return the height of high water"),
        ("tide.high()", "raises", "HarbourError"),
        ("tide.high()", "new in", "Boats 1.6"),
        ("tide.high()", "new in@release notes", "Boats 1.6"),
        ("tide.high()", "changed in", "Boats 1.8"),
        ("tide.high()", "contributed by", "Olav Venn"),
        ("tide.low()", "belongs to", "tide"),
        ("tide.low()", "described as", "Return the height of low water"),
        ("tide.low()", "deprecated since", "Boats 1.8"),
        ("tide.low()", "replaced by", "tide.high()"),
        ("tide.Table", "belongs to", "tide"),
        ("tide.Table", "described as", "A table of several days"),
        ("HarbourError", "belongs to", "Errors"),
        ("HarbourError", "described as", "Raised when a harbour is not in any table"),
        ("DepthError", "belongs to", "Errors"),
        ("DepthError", "described as", "Subclass of HarbourError for shallow water"),
        ("DepthError", "subclass of", "HarbourError"),
        ("News in Boats 1.6", "edited by", "Ada Quill"),
        ("News in Boats 1.6", "covers", "Boats 1.6"),
        ("Boats 1.6", "released on", "March 3, 2014"),
        ("Reading a Chart", "written by", "Bo Lund"),
    }
    assert not graph.complete


def test_kinds_are_what_links_and_signatures_say(graph: FactGraph) -> None:
    kinds = {entity.name: entity.kind for entity in graph.entities.values()}
    assert kinds["tide"] == "module"
    assert kinds["tide.high()"] == "function"
    assert kinds["tide.Table"] == "class"
    assert kinds["HarbourError"] == "exception"
    assert kinds["Reading a Chart"] == "page"
    assert kinds["PEP 31"] == "PEP"
    assert kinds["Ada Quill"] == "person"


def test_quotes_stand_on_their_pages(graph: FactGraph) -> None:
    text = {one.url: " ".join(as_read(one.text).split()) for one in (TIDE, ERRORS, NEWS, CHART)}
    quoted = [fact for fact in graph.facts if fact.quote and not fact.quote.startswith("tide — ")]
    assert len(quoted) > 20
    for fact in quoted:
        assert fact.quote in text[fact.url].replace("# ", "")


@pytest.mark.parametrize(
    ("line", "name", "kind"),
    [
        ("json.dump(obj, fp, *, skipkeys=False)", "json.dump()", "function"),
        ("class shelve.Shelf(dict, protocol=None)", "shelve.Shelf", "class"),
        ("exception socket.timeout", "socket.timeout", "exception"),
        ("Shelf.sync()", "Shelf.sync()", "method"),
        ("errno.EPERM", "errno.EPERM", "constant"),
        ("Request.data", "Request.data", "attribute"),
        ("async with_lock.acquire()", "with_lock.acquire()", "function"),
        ("int PyList_Check(PyObject *p)", "PyList_Check()", "function"),
        ("coroutine asyncio.sleep(delay) → None", "asyncio.sleep()", "function"),
    ],
)
def test_lines_that_define(line: str, name: str, kind: str) -> None:
    found = signature_of(line)
    assert found is not None
    assert (found.name, found.kind) == (name, kind)


@pytest.mark.parametrize("line", ["Iterator", "See also", "The end.", "a plain line of prose", "x(" * 200, "if (a) then b", ""])
def test_lines_that_do_not(line: str) -> None:
    assert signature_of(line) is None


@pytest.mark.parametrize(
    ("sentence", "relation"),
    [
        ("If it is not there, ⟦0⟧ is raised.", None),
        ("Then a ⟦0⟧ is raised.", None),
        ("Raises ⟦0⟧ when the file is gone.", "raises"),
        ("This never raises ⟦0⟧ at all.", None),
        ("It is similar to ⟦0⟧, but faster.", "similar to"),
        ("Unlike that, similar to ⟦0⟧.", None),
        ("An alias for ⟦0⟧.", "alias of"),
        ("Use ⟦0⟧ instead.", "replaced by"),
        ("Please use the ⟦0⟧ module instead.", "replaced by"),
        ("Use ⟦0⟧ configuration instead.", None),
        ("Do as ⟦0⟧ does.", None),
    ],
)
def test_sentences(sentence: str, relation: str | None) -> None:
    assert [str(one.pattern.relation) for one in stated(sentence)] == ([relation] if relation else [])


@pytest.mark.parametrize(
    ("entry", "people"),
    [
        ("Added [f()](u) to find things. (Contributed by Ada Quill and Bo Lund in [bug 1](v).)", ("Ada Quill", "Bo Lund")),
        ("New function [f()](u) returns a thing. (Contributed by Ada Quill.)", ("Ada Quill",)),
        ("Added the x argument to [f()](u). (Contributed by Ada Quill.)", None),
        ("New [C](u) method load() reads. (Contributed by Ada Quill.)", None),
        ("Added [f()](u) to the limited interface. (Contributed by Ada Quill.)", None),
        ("[f()](u) is faster now. (Contributed by Ada Quill.)", None),
        ("Added [f()](u). (Contributed by the crew in [bug 1](v).)", None),
    ],
)
def test_credits_are_for_one_new_thing(entry: str, people: tuple[str, ...] | None) -> None:
    found = credit_in(lines_of(entry)[0])
    assert (found.people if found else None) == people


def test_names() -> None:
    assert heading_of("json — JSON encoder and decoder").gloss == "JSON encoder and decoder"
    assert (heading_of("A.8. Kali Linux").number, heading_of("A.8. Kali Linux").name) == ("A.8", "Kali Linux")
    assert heading_of("Chapter 6. Maintenance").name == "Maintenance"
    assert heading_of("A walk in the dunes").name == "A walk in the dunes"
    assert heading_of("3 ways home — and none by boat").gloss == ""
    assert key_of("dbm.open()") == key_of("`dbm.open`".strip("`"))
    assert standard_in("RFC 2616") == ("RFC 2616", "RFC")
    assert standard_in("RFC 2616 and others") is None


def test_tables_with_heads_are_read_and_others_are_not() -> None:
    cells = list(cells_in(lines_of("Boat | Length\n--- | ---\nTern | 9 m\nKnot | 7 m\n")))
    assert [(cell.subject, cell.header, cell.value) for cell in cells] == [("Tern", "Length", "9 m"), ("Knot", "Length", "7 m")]
    markdown = lines_of("| Boat | Length |\n|---|:--|\n| Tern | 9 m |\n| Knot | 7 m |\n")
    assert [(cell.subject, cell.header, cell.value) for cell in cells_in(markdown)] == [
        ("Tern", "Length", "9 m"), ("Knot", "Length", "7 m")
    ]  # fmt: skip
    assert list(cells_in(lines_of("a tern | long and thin.\nb knot | short.\nc gull | loud.\n"))) == []
    assert list(cells_in(lines_of("Boat | Length\nTern | 9 m\nTern | 7 m\n"))) == []


def test_a_definition_in_prose_names_what_and_who() -> None:
    found = list(
        definitions_in(lines_of("Ternos is a small distribution developed by Boat Works. It is fast.\nWe are a crew of two."))
    )
    assert [(one.name, one.what, one.maker) for one in found] == [
        ("Ternos", "a small distribution developed by Boat Works", "Boat Works")
    ]


def test_strange_pages_make_no_facts_and_do_no_harm() -> None:
    odd = [
        page("none", "no heading at all, but [a link](https://docs.example/tide)"),
        page("open", "# [\n\n[[[](((\n\nclass (\n\n| | |\n⟦9⟧ raises ⟦7⟧\n"),
        page("bare", "#  \n\n" + "x" * 100_000),
        page("anchor", "# odd — Odd\n\n[](https://docs.example/tide)\n"),
    ]
    assert {fact.relation for fact in documents_graph(odd).facts} <= {"described as"}
    assert documents_graph([]).entities == {}


def test_a_version_behind_a_member_without_a_definition_is_not_the_pages_own() -> None:
    told = page(
        "constants",
        "# tides — Named heights\n\nSource code: [Lib/tides.py](https://code.example/tides.py)\n\nNote\n\nAll in metres.\n\n"
        "New in version 1.4.\n\nHIGHEST\n\nThe highest there is.\n\nChanged in version 1.9: It may be negative.\n",
    )
    versions = [(fact.relation, fact.object) for fact in documents_graph([told]).facts if fact.object.startswith("release")]
    assert versions == [("new in", "release 1.4")]


def test_every_recommendation_is_read_with_what_it_is_between() -> None:
    named = [page(name, f"# {name} — The {name}\n\nNew in version 1.4.\n") for name in ("tide", "moon", "wind", "sand")]
    lines = [f"Module {link(name, name)}\n\nAll about {name}." for name in ("tide", "moon", "wind")]
    text = "# sea — The sea\n\nSee also\n\n" + "\n\n".join(lines)
    graph = documents_graph([*named, page("sea", f"{text}\n\nThere is more.\n\nModule {link('sand', 'sand')}\n")])
    seen = [graph.entities[fact.object].name for fact in graph.facts if fact.relation == "see also"]
    assert seen == ["tide", "moon", "wind"]


def test_versions_belong_to_what_they_stand_behind() -> None:
    text = (
        "# boats — Boats\n\nNew in version 1.2.\n\nChanged in version 1.3: Some boat is faster.\n\n"
        "boats.hull()\n\nReturn the hull.\n\nNote\n\nIt floats.\n\nNew in version 1.5: The colour argument.\n\n"
        "boats.mast()\n\nReturn the mast.\n\nChanged in version 1.7: Boats may be of wood.\n"
    )
    graph = documents_graph([page("boats", text), page("use", f"# Use\n\nSee {link('boats.hull()', 'boats')}.\n")])
    told = {(graph.entities[f.subject].name, f.relation, f.object) for f in graph.facts if f.object.startswith("release")}
    assert told == {("boats", "new in", "release 1.2"), ("boats.hull()", "changed in", "release 1.5")}


def test_a_column_named_like_a_relation_of_another_maker_has_none_of_its_words() -> None:
    rows = "\n".join(f"Stop{n} | May {1870 + n}" for n in range(1, 6))
    graph = documents_graph([page("line", f"# The Line\n\nMuseum | Opened\n--- | ---\n{rows}\n")])
    words = Ground.of(graph, RelationBook(DOCUMENTS)).words.of("opened")
    assert [fact.relation for fact in graph.facts] == ["opened"] * 5
    assert not words.is_numeric and not words.is_exhaustive and not words.is_functional
