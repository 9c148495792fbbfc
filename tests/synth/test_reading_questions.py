"""Questions from read graphs: drafts by exact search, a model's words, and what a rewording must not do."""

import asyncio
import json

import pytest
from scripted_clients import ScriptedClient

from sanderling.synth.graph.capabilities import Range
from sanderling.synth.graph.graph import Uniqueness
from sanderling.synth.graph.making import GraphSettings
from sanderling.synth.prompt import Models
from sanderling.synth.reading import COMPARER, READER, REWRITER, ReadingSettings, Unfit, questions_around, reword
from sanderling.world.contract import Page
from sanderling.world.local import LocalWorld

FILLER = "The council met on Monday to speak of nets, salt and the weather. " * 6


def town(name: str, builder: str, year: int) -> Page:
    text = f"# {name}\n\nThe tower of {name} was built by {builder} in {year}.\n\n{FILLER}"
    return Page(url=f"https://w.example/{name.lower()}", title=name, text=text)


def person(name: str, teacher: str, home: str) -> Page:
    text = f"# {name}\n\n{name} learnt from {teacher}. {name} was born in {home}.\n\n{FILLER}"
    return Page(url=f"https://w.example/{name.lower()}", title=name, text=text)


PAGES = [
    town("Orlo", "Brandt", 1412),
    town("Venn", "Lund", 1430),
    person("Brandt", "Ohm", "Kello"),
    person("Lund", "Ohm", "Tarn"),
    person("Ohm", "Falk", "Kello"),
]


def read(page: Page) -> dict:
    """What a careful model says of one of these pages."""
    lines = page.text.splitlines()[2]
    parts = lines.replace(".", "").split()
    if parts[0] == "The":
        tower, builder, year = f"tower of {page.title}", parts[7], parts[9]
        entities = [{"name": tower, "kind": "tower"}, {"name": builder, "kind": "mason"}]
        facts = [(tower, "builder", builder), (tower, "year of building", year)]
    else:
        teacher, home = parts[3], parts[8]
        entities = [{"name": n, "kind": "mason"} for n in (page.title, teacher)] + [{"name": home, "kind": "village"}]
        facts = [(page.title, "teacher", teacher), (page.title, "birthplace", home)]
    said = [{"subject": s, "relation": r, "object": o, "quote": _sentence(lines, o)} for s, r, o in facts]
    return {"entities": entities, "facts": said}


def _sentence(line: str, object: str) -> str:
    return next(part.strip() + "." for part in line.split(".") if object in part.split())


def model(system: str, material: str, sample: int) -> str:
    if system == READER.system:
        address = material.partition("Address: ")[2].partition("\n")[0]
        return json.dumps(read(next(page for page in PAGES if page.url == address)))
    if system == REWRITER.system:
        return json.dumps({"question": "As an expert would ask: " + material.removeprefix("Draft: ")})
    return json.dumps({"same": True, "reason": "word for word"})


def around(say=model):
    world = LocalWorld.in_memory(PAGES, name="w")
    client = ScriptedClient(say)
    wanted = GraphSettings(count=4, size=Range(3, 6), hops=Range(2, 4), capabilities=ReadingSettings().graph.capabilities)
    chosen = ReadingSettings(pages=5, per_entity=1, graph=wanted)
    return asyncio.run(questions_around(world, PAGES[0], Models([client], [client]), chosen, {"world": "w"}))


def test_questions_have_drafts_evidence_and_one_answer_over_what_was_read():
    result = around()
    assert len(result.questions) == 4 and result.rejected == []
    for question in result.questions:
        meta = question.meta
        assert question.text.startswith("As an expert would ask: ") and meta["draft"] in question.text
        assert meta["maker"] == "reading" and meta["uniqueness"] == Uniqueness.UNCHECKED and meta["world"] == "w"
        assert question.hops and question.hops >= 2 and len({fact["url"] for fact in meta["facts"]}) >= 2
        for fact in meta["facts"]:
            page = next(page for page in PAGES if page.url == fact["url"])
            assert fact["quote"] in page.text
        assert not any(answer in question.text.split() for answer in question.answers)
    assert result.figures["things read"] >= 6 and result.figures["facts read"] == 10
    assert len(result.steps) == 5 + 2 * 4


def test_a_page_that_leads_nowhere_says_so():
    result = around(lambda *_: json.dumps({"entities": [], "facts": []}))
    assert result.questions == [] and [one["reason"] for one in result.rejected] == [Unfit.NO_DRAFT]


def reworded(text: object, same: str = '{"same": true}', **more):
    def say(system: str, material: str, sample: int) -> str:
        return (text if isinstance(text, str) else json.dumps(text)) if system == REWRITER.system else same

    client = ScriptedClient(say)
    draft = "Find the tower whose builder is the mason whose birthplace is Kello."
    found = asyncio.run(reword(draft, ("tower of Orlo",), ("Brandt", "Meister Brandt"), Models([client], [client]), **more))
    return found, client


@pytest.mark.parametrize(
    ("said", "same", "unfit"),
    [
        ({"question": "Which tower did the mason from Kello build?"}, '{"same": true}', None),
        ({"question": "Which tower did Brandt of Kello build?"}, '{"same": true}', Unfit.NAMES_WHAT_WAS_HIDDEN),
        ({"question": "Is it the Tower of Orlo that a mason from Kello built?"}, '{"same": true}', Unfit.NAMES_ITS_ANSWER),
        ({"question": "Which tower is it, according to the text?"}, '{"same": true}', Unfit.LEANS_ON_THE_PAGE),
        ({"question": "Which tower? " * 200}, '{"same": true}', Unfit.TOO_LONG),
        (
            {"question": "Which bridge did the mason from Kello build?"},
            '{"same": false, "reason": "bridge"}',
            Unfit.NOT_THE_SAME,
        ),
        ({"question": "Which tower did the mason from Kello build?"}, "I think so", Unfit.UNSCORED),
        ("no idea", '{"same": true}', Unfit.UNREADABLE_REPLY),
        ({"question": ""}, '{"same": true}', Unfit.UNREADABLE_REPLY),
    ],
)
def test_rewordings(said, same, unfit):
    found, client = reworded(said, same)
    assert found.unfit is unfit
    by_rule = (Unfit.NAMES_WHAT_WAS_HIDDEN, Unfit.NAMES_ITS_ANSWER, Unfit.LEANS_ON_THE_PAGE, Unfit.TOO_LONG)
    judged = any(system == COMPARER.system for system, _ in client.asked)
    assert judged is (unfit not in (*by_rule, Unfit.UNREADABLE_REPLY))
    assert (found.detail == "bridge") is (unfit is Unfit.NOT_THE_SAME)
