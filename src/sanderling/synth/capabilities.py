"""What a question can ask of an agent: the five capabilities of LiteResearcher (arXiv 2604.17931), a generator for each.

A generator makes one question from a part of a graph; all of its chance comes from ``rng``. To add one, write it and give it a
line in `GENERATORS`.
"""

import random
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from itertools import permutations
from typing import Any, NamedTuple

from sanderling.synth import tree
from sanderling.synth.graph import DroppedError, Fact, FactGraph, Node, Subgraph, escaped, sample_walk, split_claim
from sanderling.synth.tree import Constraint, QueryNode, Speaker


class Capability(StrEnum):
    """What a question asks of an agent; see the generator of each."""

    DIRECT = "direct"
    AGGREGATION = "aggregation"
    ENUMERATION = "enumeration"
    CROSS_VERIFICATION = "cross-verification"
    STATISTICS = "statistics"


class Range(NamedTuple):
    """From a least number to a greatest, both in it."""

    least: int
    most: int


@dataclass(frozen=True)
class Draft:
    """A question before it is checked and numbered."""

    capability: Capability
    form: str  # "chain", "tree", "difference", "list", "quarrel", "count", "earliest" or "latest"
    text: str
    answers: tuple[str, ...]
    facts: tuple[Fact, ...]
    hops: int  # facts that have to be put together; those of a group's further members do not count
    roots: tuple[QueryNode, ...]  # the trees that were solved to make sure of the answer
    named: tuple[str, ...]  # the names and values that the question gives
    depth: int  # of the longest path from a name in the question to the answer
    path: tuple[str, ...]  # the things on it, the named one first
    extra: Mapping[str, Any] = field(default_factory=dict)  # for ``meta``: the items of a list, the numbers behind a difference


Generator = Callable[[FactGraph, Subgraph, Range, random.Random], Draft | None]
"""One question of so many hops from a part of a graph; None where the part has nothing of this form. Raises DroppedError."""


def _draft(
    graph: FactGraph, capability: Capability, form: str, text: str, answers: tuple[str, ...], facts: tuple[Fact, ...],
    *roots: QueryNode, hops: int | None = None, deeper: int = 0, **extra: Any,
) -> Draft:  # fmt: skip
    """``deeper``: edges between the roots and the answer."""
    deepest = max(roots, key=QueryNode.depth)
    named = (query.node for root in roots for query in root.nodes() if query.is_named)
    return Draft(
        capability, form, text, answers, facts, hops or len(facts), roots,
        named=tuple(dict.fromkeys(graph.name(node) or "" for node in named)), depth=deepest.depth() + deeper,
        path=tuple(graph.answers(node)[0] for node in reversed(deepest.longest_path())), extra=extra,
    )  # fmt: skip


def direct(graph: FactGraph, part: Subgraph, hops: Range, rng: random.Random) -> Draft | None:
    """One stated fact at the end of a chain; its other end is named, everything between is described vaguely."""
    wanted = rng.randint(*hops)
    chain = tree.chain_in(graph, part, wanted, rng)
    chain = chain or tree.chain_in(graph, sample_walk(graph, part.nodes[0], wanted + 1, rng), wanted, rng)
    return _from_tree(graph, chain, Capability.DIRECT, "chain", rng) if chain else None


def aggregation(graph: FactGraph, part: Subgraph, hops: Range, rng: random.Random) -> Draft | None:
    """In three of ten draws, where a part has numbers, their difference; else the one thing in which several ways meet."""
    if rng.random() < 0.3 and (compared := _difference(graph, part, hops, rng)):
        return compared
    wanted = rng.randint(*hops)
    for answer in rng.sample(part.nodes, len(part.nodes)):
        root = tree.spanning_tree(graph, part, answer, wanted, rng)
        if root and len(root.constraints) > 1 and (draft := _from_tree(graph, root, Capability.AGGREGATION, "tree", rng)):
            return draft
    return None


def _from_tree(graph: FactGraph, root: QueryNode, capability: Capability, form: str, rng: random.Random) -> Draft | None:
    """The question of a tree, with the constraints that leave one answer and without those that this does not need."""
    unique = tree.until_unique(graph, root, rng)
    if unique is None:
        raise DroppedError("not unique")
    tight = tree.needed(graph, unique)
    if form == "tree" and len(tight.constraints) < 2:
        return None
    if not tree.is_followable(graph, tight):
        raise DroppedError("not followable")
    if tree.is_decorated(graph, tight):
        raise DroppedError("a constraint is not needed")
    if not graph.complete and graph.name(tight.node) is None:
        raise DroppedError("ambiguous words")  # what it is called could mean something else as well
    text = Speaker(graph, rng).question(tight)
    return _draft(graph, capability, form, text, graph.answers(tight.node), tuple(tight.facts()), tight)


def _difference(graph: FactGraph, part: Subgraph, hops: Range, rng: random.Random) -> Draft | None:
    """How far two numbers are apart: each the value of a thing that is described vaguely where the hops allow it."""
    stated = [fact for node in part.nodes if not node.is_literal for fact in graph.outgoing[node.id]]
    numbers = [fact for fact in stated if fact.is_literal and graph.words[fact.relation].is_numeric]
    pairs = [
        (a, b) for a in numbers for b in numbers if a.relation <= b.relation and a.subject != b.subject and a.object != b.object
    ]
    if not pairs or hops.most < 2:
        return None
    first, second = rng.choice(pairs)
    each = max(0, (hops.most - 2) // 2)
    one, other = (_described(graph, part, fact.head, each, rng) for fact in (first, second))
    if one is None or other is None:
        raise DroppedError("not unique")
    speaker = Speaker(graph, rng)
    phrases = [speaker.phrase(query) for query in (one, other)]
    if phrases[0] == phrases[1] and first.relation == second.relation:
        raise DroppedError("ambiguous words")
    nouns = (graph.words[fact.relation].noun[0] for fact in (first, second))
    values = " and ".join(noun.format(s=phrase) for noun, phrase in zip(nouns, phrases, strict=True))
    text = speaker.after_prefaces(f"how many years lie between {values}?")
    if any(re.search(rf"(?<!\w){re.escape(fact.object)}(?!\w)", text) for fact in (first, second)):
        raise DroppedError("names its answer")  # both numbers in the question are all that it takes
    facts = (first, *one.facts(), second, *other.facts())
    answer = str(abs(int(first.object) - int(second.object)))
    values = [first.object, second.object]
    return _draft(graph, Capability.AGGREGATION, "difference", text, (answer,), facts, one, other, deeper=1, values=values)


def _described(graph: FactGraph, part: Subgraph, node: Node, most: int, rng: random.Random) -> QueryNode | None:
    """A thing as the end of a chain of ``most`` facts at most that fits it alone, or by its name."""
    for hops in range(min(most, 2), 0, -1):
        chain = tree.chain_in(graph, part, hops, rng, start=node)
        unique = tree.until_unique(graph, chain, rng) if chain is not None else None
        if unique is not None and tree.is_followable(graph, tight := tree.needed(graph, unique)):
            return tight
    return QueryNode(node, is_named=True) if graph.name(node) is not None else None


@dataclass(frozen=True)
class _Group:
    """All things of a kind that share a fact: "every person whose home town is TOWN"; TOWN is given by a chain or a name."""

    root: QueryNode
    members: tuple[Node, ...]
    facts: tuple[Fact, ...]


def _group_in(graph: FactGraph, part: Subgraph, hops: Range, sizes: Range, rng: random.Random) -> _Group | None:
    """A group of so many members from the part's facts. Only where all facts are known can it be counted or listed."""

    def of_kind(nodes: frozenset[Node], kind: str) -> frozenset[Node]:
        return frozenset(node for node in nodes if graph.kind(node) == kind)

    edges = list(part.facts) if graph.complete else []
    rng.shuffle(edges)
    for fact in edges:
        member, shared = fact.head, fact.tail
        kind = graph.kind(member)
        members = of_kind(graph.heads[(fact.relation, shared)], kind)
        if not kind or not sizes.least <= len(members) <= sizes.most:
            continue
        query = QueryNode(shared, is_named=True)
        if not shared.is_literal and not (query := _described(graph, part.without(member), shared, hops.most - 1, rng)):
            continue
        root = QueryNode(member, (Constraint(fact, query),))
        if of_kind(tree.answers(graph, root), kind) != members:
            continue
        ordered = sorted(members, key=lambda node: (graph.answers(node)[0], node.id))
        same = (fact.relation, shared)
        stated = [next(one for one in graph.outgoing[node.id] if (one.relation, one.tail) == same) for node in ordered]
        return _Group(root, tuple(ordered), (*stated, *query.facts()))
    return None


def _of_group(
    graph: FactGraph, group: _Group, capability: Capability, form: str, text: str, answers: tuple[str, ...],
    more: tuple[Fact, ...] = (),
) -> Draft:  # fmt: skip
    """``more``: a further fact of each member."""
    facts, hops = (*group.facts, *more), len(tuple(group.root.facts())) + bool(more)
    items = [list(graph.answers(node)) for node in group.members]
    draft = _draft(graph, capability, form, text, answers, facts, group.root, hops=hops, deeper=bool(more), items=items)
    return replace(draft, path=draft.path[:-1])


_LISTED = Range(2, 5)
_MOST_ORDERED = 4  # items of which every order is written down: five would have 240 answers


def enumeration(graph: FactGraph, part: Subgraph, hops: Range, rng: random.Random) -> Draft | None:
    """Name all that share a fact. Of up to four any order is accepted; a longer list is asked for in alphabetical order."""
    group = _group_in(graph, part, hops, _LISTED, rng)
    if group is None:
        return None
    speaker = Speaker(graph, rng)
    kind = speaker.kind(group.members[0])
    asked = rng.choice(("name", "list"))
    clauses = speaker.clauses(group.root)
    ordered = ", in alphabetical order" if len(group.members) > _MOST_ORDERED else ""
    items = [graph.answers(node)[0] for node in group.members]
    if len(set(items)) < len(items):  # namesakes: the full names tell them apart
        items = [graph.name(node) or graph.answers(node)[-1] for node in group.members]
    text = speaker.after_prefaces(f"{asked} every {kind} {clauses}{ordered}.")
    return _of_group(graph, group, Capability.ENUMERATION, "list", text, list_answers(items))


def list_answers(items: Sequence[str]) -> tuple[str, ...]:
    """A list as an answer may give it, with commas or with "and", in all accepted orders."""
    if len(items) > _MOST_ORDERED:
        plain = sorted(items, key=str.casefold)
        orders = [plain, sorted(plain, key=lambda item: "".join(filter(str.isalnum, item.casefold())))]
    else:
        orders = [list(order) for order in permutations(items)]
    return tuple(dict.fromkeys((*(", ".join(order) for order in orders), *(tree.listed(order) for order in orders))))


_COUNTED = Range(2, 12)
_NUMERALS = ("two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")
_HOW_MANY = ("Take every {kind} {clauses}. How many are there?", "Count every {kind} {clauses}: how many are there?")
_EXTREMES = {"earliest": min, "latest": max}


def statistics(graph: FactGraph, part: Subgraph, hops: Range, rng: random.Random) -> Draft | None:
    """Count a group, or find the extremes of its members' numbers."""
    group = _group_in(graph, part, hops, _COUNTED, rng)
    if group is None:
        return None
    numbers = _numbers(graph, group.members)
    speaker = Speaker(graph, rng)
    kind, clauses = speaker.kind(group.members[0]), speaker.clauses(group.root)
    if numbers and rng.random() < 0.5:
        facts = rng.choice(numbers)
        words = graph.words[facts[0].relation]
        noun = rng.choice(words.noun).format(s="each")
        extreme = rng.choice(list(_EXTREMES))
        answer = str(_EXTREMES[extreme](int(fact.object) for fact in facts))
        text = speaker.after_prefaces(f"take every {kind} {clauses}, and {noun}. Which {words.value} is the {extreme}?")
        return _of_group(graph, group, Capability.STATISTICS, extreme, text, (answer,), facts)
    text = speaker.after_prefaces(rng.choice(_HOW_MANY).format(kind=kind, clauses=clauses))
    count = len(group.members)
    return _of_group(graph, group, Capability.STATISTICS, "count", text, (str(count), _NUMERALS[count - 2]))


def _numbers(graph: FactGraph, members: Sequence[Node]) -> list[tuple[Fact, ...]]:
    """For each numeric relation that all members have once: their facts. Values that are all the same tell nothing."""
    relations = {fact.relation for fact in graph.outgoing[members[0].id] if graph.words[fact.relation].is_numeric}
    stated = [
        [[fact for fact in graph.outgoing[node.id] if fact.relation == relation] for node in members]
        for relation in sorted(relations)
    ]
    alone = [tuple(each[0] for each in facts) for facts in stated if all(len(each) == 1 for each in facts)]
    return [facts for facts in alone if len({fact.object for fact in facts}) > 1]


def cross_verification(graph: FactGraph, part: Subgraph, hops: Range, rng: random.Random) -> Draft | None:
    """What holds where sources differ: a thing is described by another site's wrong claim, its own page has the answer."""
    if not graph.contradicted or hops.most < 2:
        return None
    quarrels = [each for node in part.nodes if not node.is_literal for each in _contradictions(graph, node)]
    if not quarrels:  # they are rare where pages mostly agree
        quarrels = _contradictions(graph, rng.choice(graph.contradicted).head)
    if not quarrels:
        return None
    claim, truth = rng.choice(quarrels)
    if graph.name(claim.tail) is None:
        raise DroppedError("ambiguous words")
    subject = tree.until_unique(graph, QueryNode(claim.head, (Constraint(claim, QueryNode(claim.tail, is_named=True)),)), rng)
    if subject is None:
        raise DroppedError("not unique")
    if truth in set(subject.facts()):
        return None
    speaker = Speaker(graph, rng)
    kind, words = speaker.kind(subject.node), graph.words[truth.relation]
    thing = words.value if truth.is_literal else speaker.kind(truth.tail)
    noun = rng.choice(words.noun or (f"the {escaped(thing)} {words.object[0]}",)).format(s=f"that {kind}")
    speaker.prefaces.append(f"Consider the {kind} {speaker.clauses(subject)}.")
    text = speaker.after_prefaces(
        f"the page on that {kind} itself contradicts the {split_claim(claim.relation)[1]}: by that page, "
        f"{tree.who_asks(thing).lower()} is {noun}?"
    )
    if len(graph.tails[(truth.relation, truth.head)]) > 1:
        raise DroppedError("not unique")
    root = QueryNode(truth.tail, (Constraint(truth, subject),))
    return _draft(
        graph, Capability.CROSS_VERIFICATION, "quarrel", text, graph.answers(root.node), tuple(root.facts()), root,
        claimed=claim.object, claimed_by=claim.url,
    )  # fmt: skip


def _contradictions(graph: FactGraph, node: Node) -> list[tuple[Fact, Fact]]:
    found: list[tuple[Fact, Fact]] = []
    for claim in graph.outgoing[node.id]:
        base, site = split_claim(claim.relation)
        truths = [fact for fact in graph.outgoing[node.id] if site and fact.relation == base]
        if len(truths) == 1 and truths[0].object != claim.object:
            found.append((claim, truths[0]))
    return found


GENERATORS: Mapping[Capability, Generator] = {
    Capability.DIRECT: direct,
    Capability.AGGREGATION: aggregation,
    Capability.ENUMERATION: enumeration,
    Capability.CROSS_VERIFICATION: cross_verification,
    Capability.STATISTICS: statistics,
}
