"""Words for relations that nobody has written words for: whatever a model or a table calls them."""

import random

from hypothesis import given
from hypothesis import strategies as st

from sanderling.synth.graph.contract import Capability, Entity, Fact, FactGraph
from sanderling.synth.graph.draft import Range
from sanderling.synth.graph.ground import Ground
from sanderling.synth.graph.making import Wish, make
from sanderling.synth.graph.query import Node
from sanderling.synth.graph.tree import Clause, Spot
from sanderling.synth.graph.wording import Speaker
from sanderling.synth.graph.words.contract import claim_of
from sanderling.synth.graph.words.registry import RelationBook, plain_words

NAMES = st.text("ab{}_- s0!:.", min_size=1).filter(lambda name: name.strip("_- "))


@given(NAMES, NAMES)
def test_any_name_of_a_relation_stands_in_its_words_as_it_is(name: str, site: str) -> None:
    words = plain_words(name)
    label = " ".join(name.replace("_", " ").replace("-", " ").split()).lower()
    assert words.value == label
    assert words.subject[0].format(o="{o}") == f"whose {label} is {{o}}"
    assert words.object[0].format(s="{s}") == f"that is the {label} of {{s}}"
    assert words.noun[0].format(s="x") == f"the {label} of x"
    assert words.inquiry[0].format(s="x") == f"What is the {label} of x?"
    said = RelationBook({}).of(claim_of("depth", site.replace("@", "")))
    assert said.subject[0].format(o="9") == f"whose depth is 9 (according to the {site})"


def test_braces_in_kinds_values_and_relations_are_told_as_they_are() -> None:
    things = {name: Entity(name, f"{{{name}}}", "{basin}") for name in ("orlo", "venn")}
    depth, outlet = Fact("orlo", "{s} depth", "{9} m", is_literal=True), Fact("orlo", "{0} outlet", "venn")
    ground = Ground.of(FactGraph(things, (depth, outlet)), RelationBook({}))
    deep = Spot(Node("orlo"), (Clause(depth, Spot(Node("{9} m", is_literal=True), is_named=True)),))
    assert said(ground, deep) == {
        "What is the {basin} whose {s} depth is {9} m?",
        "Find the {basin} whose {s} depth is {9} m.",
        "Name the {basin} whose {s} depth is {9} m.",
    }
    assert "Which {basin} is the {0} outlet of {orlo}?" in said(
        ground, Spot(Node("venn"), (Clause(outlet, Spot(Node("orlo"), is_named=True)),))
    )


def said(ground: Ground, spot: Spot) -> set[str]:
    return {Speaker(ground, random.Random(seed)).question(spot) for seed in range(40)}


def test_a_quarrel_over_things_with_braces_is_told() -> None:
    things = {name: Entity(name, name.title(), "{basin}") for name in ("orlo", "venn", "kello")}
    truth = Fact("orlo", "{0} outlet", "venn", url="https://w.example/orlo")
    claim = Fact("orlo", claim_of("{0} outlet", "{log}"), "kello", url="https://w.example/log")
    ground = Ground.of(FactGraph(things, (truth, claim)), RelationBook({}))
    wish = Wish(1, Range(3, 3), Range(2, 3), (Capability.CROSS_VERIFICATION,))
    ((draft, _),) = make(ground, wish).drafts
    assert "(according to the {log})" in draft.text and "the {0} outlet of that {basin}" in draft.text
