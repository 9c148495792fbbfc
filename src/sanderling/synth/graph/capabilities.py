"""What a question can ask of an agent: the five capabilities of LiteResearcher (arXiv 2604.17931), a generator for each.

A generator makes one question from a part of a graph, or says why it cannot; all of its chance comes from ``rng``. To add one,
write it and give it a line in `GENERATORS`.
"""

import random
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import permutations
from typing import Any, NamedTuple

from sanderling.synth.graph.graph import Fact, FactGraph, Node
from sanderling.synth.graph.relations import escaped, split_claim
from sanderling.synth.graph.sampling import Subgraph, chain_in, sample_walk, spanning_tree
from sanderling.synth.graph.tree import (
    Constraint,
    QueryNode,
    answers,
    is_decorated,
    is_followable,
    is_unique,
    needed,
    until_unique,
)
from sanderling.synth.graph.wording import Speaker, TangledError, listed, who_asks


class Capability(StrEnum):
    """What a question asks of an agent."""

    DIRECT = "direct"
    """Find one stated fact, however many hops away."""
    AGGREGATION = "aggregation"
    """Put facts of several pages together: one thing that fits them all, or two values set against each other."""
    ENUMERATION = "enumeration"
    """Name all that satisfy a condition."""
    CROSS_VERIFICATION = "cross-verification"
    """Sources say different things: establish what holds."""
    STATISTICS = "statistics"
    """Count, or compute over values of many pages."""


class Dropped(StrEnum):
    """Why a draw became no question."""

    NO_SHAPE = "no-shape"
    """The part of the graph holds nothing of the form that the generator makes."""
    NOT_UNIQUE = "not-unique"
    """Another answer fits, and no further constraint was at hand."""
    NAMES_ANSWER = "names-answer"
    ONE_PAGE = "one-page"
    """One page states every fact of a question of several hops."""
    TANGLED = "tangled"
    """Its words would leave open what belongs to what, or it names something that has no name of its own."""
    TOO_LONG = "too-long"
    NOT_FOLLOWABLE = "not-followable"
    """Many things fit the constraints of something between."""
    DECORATED = "decorated"
    """A constraint is not needed by a reader who knows what kind of thing is asked for."""
    TOO_FEW_HOPS = "too-few-hops"
    """Without the constraints that its answer does not need."""
    TOO_MANY_HOPS = "too-many-hops"
    """With the constraints that it took to leave one answer."""
    REPEATED = "repeated"
    """The same constraints were asked before."""
    ANSWER_AGAIN = "answer-again"
    """Enough questions have the same answer."""
    LONG_ANSWER = "long-answer"
    FACT_AGAIN = "fact-again"
    """Enough questions rest on one of its facts (in a graph that was read)."""


class Range(NamedTuple):
    """From a least number to a greatest, both in it."""

    least: int
    most: int


@dataclass(frozen=True)
class Draft:
    """A question before it is checked and numbered."""

    capability: Capability
    form: str
    """What the generator made: "chain", "tree", "difference", "list", "quarrel", "count", "earliest", "latest"."""
    text: str
    answers: tuple[str, ...]
    facts: tuple[Fact, ...]
    """All that it rests on, from the answer outwards."""
    hops: int
    """How many facts have to be put together; those of a group's further members do not count."""
    roots: tuple[QueryNode, ...]
    """The trees that were solved to make sure of the answer."""
    is_unique: bool
    named: tuple[str, ...]
    """The names and values that the question gives."""
    depth: int
    """The longest path from a name in the question to the answer."""
    path: tuple[str, ...]
    """The things on that path, the named one first."""
    extra: Mapping[str, Any] = field(default_factory=dict)
    """Further things worth keeping: the items of a list, the numbers behind a sum."""


Generator = Callable[[FactGraph, Subgraph, Range, random.Random], Draft | Dropped]
"""One question of so many hops from a part of a graph, or the reason why not. May raise TangledError."""


def direct(graph: FactGraph, part: Subgraph, hops: Range, rng: random.Random) -> Draft | Dropped:
    """One stated fact at the end of a chain; its other end is named, everything between is described vaguely."""
    wanted = rng.randint(*hops)
    chain = chain_in(graph, part, wanted, rng)
    chain = chain or chain_in(graph, sample_walk(graph, part.nodes[0], wanted + 1, rng), wanted, rng)
    return _from_tree(graph, chain, Capability.DIRECT, "chain", rng) if chain else Dropped.NO_SHAPE


def aggregation(graph: FactGraph, part: Subgraph, hops: Range, rng: random.Random) -> Draft | Dropped:
    """In three of ten draws, where a part has numbers, their difference; else the one thing in which several ways meet."""
    if rng.random() < 0.3:
        compared = _difference(graph, part, hops, rng)
        if compared is not Dropped.NO_SHAPE:
            return compared
    wanted = rng.randint(*hops)
    for answer in rng.sample(part.nodes, len(part.nodes)):
        root = spanning_tree(graph, part, answer, wanted, rng)
        if root is None or len(root.constraints) < 2:
            continue
        draft = _from_tree(graph, root, Capability.AGGREGATION, "tree", rng)
        if draft is not Dropped.NO_SHAPE:
            return draft
    return Dropped.NO_SHAPE


def _from_tree(graph: FactGraph, root: QueryNode, capability: Capability, form: str, rng: random.Random) -> Draft | Dropped:
    """The question of a tree, with the constraints that leave one answer and without those that this does not need."""
    unique = until_unique(graph, root, rng)
    if unique is None:
        return Dropped.NOT_UNIQUE
    tight = needed(graph, unique)
    if form == "tree" and len(tight.constraints) < 2:
        return Dropped.NO_SHAPE
    if not is_followable(graph, tight):
        return Dropped.NOT_FOLLOWABLE
    if is_decorated(graph, tight):
        return Dropped.DECORATED
    if not graph.complete and graph.name(tight.node) is None:
        raise TangledError  # what it is called could mean something else as well
    facts = tuple(tight.facts())
    return Draft(
        capability, form,
        text=Speaker(graph, rng).question(tight), answers=graph.answers(tight.node), facts=facts, hops=len(facts),
        roots=(tight,), is_unique=is_unique(graph, tight), named=_names_in(graph, tight), depth=tight.depth(),
        path=_path(graph, tight),
    )  # fmt: skip


def _difference(graph: FactGraph, part: Subgraph, hops: Range, rng: random.Random) -> Draft | Dropped:
    """How far two numbers are apart: each the value of a thing that is described vaguely where the hops allow it."""
    stated = [fact for node in part.nodes if not node.is_literal for fact in graph.outgoing[node.id]]
    numbers = [fact for fact in stated if fact.is_literal and graph.words[fact.relation].is_numeric]
    pairs = [
        (a, b) for a in numbers for b in numbers if a.relation <= b.relation and a.subject != b.subject and a.object != b.object
    ]
    if not pairs or hops.most < 2:
        return Dropped.NO_SHAPE
    first, second = rng.choice(pairs)
    each = max(0, (hops.most - 2) // 2)
    one, other = (_described(graph, part, fact.head, each, rng) for fact in (first, second))
    if one is None or other is None:
        return Dropped.NOT_UNIQUE
    speaker = Speaker(graph, rng)
    phrases = [speaker.phrase(query) for query in (one, other)]
    if phrases[0] == phrases[1] and first.relation == second.relation:
        raise TangledError
    nouns = (graph.words[fact.relation].noun[0] for fact in (first, second))
    values = " and ".join(noun.format(s=phrase) for noun, phrase in zip(nouns, phrases, strict=True))
    text = speaker.after_prefaces(f"how many years lie between {values}?")
    if any(re.search(rf"(?<!\w){re.escape(fact.object)}(?!\w)", text) for fact in (first, second)):
        return Dropped.NAMES_ANSWER  # both numbers in the question are all that it takes
    facts = (first, *one.facts(), second, *other.facts())
    return Draft(
        Capability.AGGREGATION, "difference",
        text=text, answers=(str(abs(int(first.object) - int(second.object))),), facts=facts, hops=len(facts),
        roots=tuple(query for query in (one, other) if not query.is_named), is_unique=True, named=_names_in(graph, one, other),
        depth=1 + max(one.depth(), other.depth()), path=_path(graph, max(one, other, key=QueryNode.depth)),
        extra={"values": [first.object, second.object]},
    )  # fmt: skip


def _described(graph: FactGraph, part: Subgraph, node: Node, most: int, rng: random.Random) -> QueryNode | None:
    """A thing as the end of a chain of ``most`` facts at most that fits it alone, or by its name."""
    for hops in range(min(most, 2), 0, -1):
        chain = chain_in(graph, part, hops, rng, start=node)
        unique = until_unique(graph, chain, rng) if chain is not None else None
        if unique is not None and is_followable(graph, tight := needed(graph, unique)):
            return tight
    return QueryNode(node, is_named=True) if graph.name(node) is not None else None


@dataclass(frozen=True)
class _Group:
    """All things of a kind that share a fact: "every person whose home town is TOWN"; TOWN is given by a chain or a name."""

    root: QueryNode
    """What they share as a tree; its own thing is one of the group."""
    members: tuple[Node, ...]
    facts: tuple[Fact, ...]
    """Of each member, then those that describe what they share."""


def _group_in(graph: FactGraph, part: Subgraph, hops: Range, sizes: Range, rng: random.Random) -> _Group | Dropped:
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
        if shared.is_literal:
            query: QueryNode | None = QueryNode(shared, is_named=True)
        else:
            query = _described(graph, part.without(member), shared, hops.most - 1, rng)
        if query is None:
            continue
        root = QueryNode(member, (Constraint(fact, query),))
        if of_kind(answers(graph, root), kind) != members:
            continue
        ordered = sorted(members, key=lambda node: (graph.answers(node)[0], node.id))
        stated = [
            next(one for one in graph.outgoing[node.id] if one.relation == fact.relation and one.tail == shared)
            for node in ordered
        ]
        return _Group(root, tuple(ordered), (*stated, *query.facts()))
    return Dropped.NO_SHAPE


def _of_group(
    graph: FactGraph,
    group: _Group,
    capability: Capability,
    form: str,
    text: str,
    answers: tuple[str, ...],
    more: tuple[Fact, ...] = (),
) -> Draft:
    """``more``: a further fact of each member."""
    return Draft(
        capability, form,
        text=text, answers=answers, facts=(*group.facts, *more), hops=len(tuple(group.root.facts())) + bool(more),
        roots=(group.root,), is_unique=True, named=_names_in(graph, group.root), depth=group.root.depth() + bool(more),
        path=_path(graph, group.root)[:-1], extra={"items": [list(graph.answers(node)) for node in group.members]},
    )  # fmt: skip


_LISTED = Range(2, 5)
_MOST_ORDERED = 4
"""Items of which every order is written down: five would have 240 answers."""


def enumeration(graph: FactGraph, part: Subgraph, hops: Range, rng: random.Random) -> Draft | Dropped:
    """Name all that share a fact; the answer is the whole list.

    Of up to four, any order is right, and all orders are accepted answers; a longer list is asked for in alphabetical order.
    """
    group = _group_in(graph, part, hops, _LISTED, rng)
    if isinstance(group, Dropped):
        return group
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
    """A list as an answer may give it, with commas or with "and" (semicolons are judged like commas), in all accepted orders.

    Alphabetical is what people call so: without regard to capitals, and also without regard to what is no letter or digit.
    """
    if len(items) > _MOST_ORDERED:
        plain = sorted(items, key=str.casefold)
        orders = [plain, sorted(plain, key=lambda item: "".join(filter(str.isalnum, item.casefold())))]
    else:
        orders = [list(order) for order in permutations(items)]
    return tuple(dict.fromkeys((*(", ".join(order) for order in orders), *(listed(order) for order in orders))))


_COUNTED = Range(2, 12)
_NUMERALS = ("two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")
_HOW_MANY = ("Take every {kind} {clauses}. How many are there?", "Count every {kind} {clauses}: how many are there?")
_EXTREMES = {"earliest": min, "latest": max}


def statistics(graph: FactGraph, part: Subgraph, hops: Range, rng: random.Random) -> Draft | Dropped:
    """Count a group, or find the extremes of its members' numbers."""
    group = _group_in(graph, part, hops, _COUNTED, rng)
    if isinstance(group, Dropped):
        return group
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
    found: list[tuple[Fact, ...]] = []
    for relation in sorted(relations):
        facts = [[fact for fact in graph.outgoing[node.id] if fact.relation == relation] for node in members]
        if all(len(each) == 1 for each in facts) and len({each[0].object for each in facts}) > 1:
            found.append(tuple(each[0] for each in facts))
    return found


def cross_verification(graph: FactGraph, part: Subgraph, hops: Range, rng: random.Random) -> Draft | Dropped:
    """What holds where sources differ: a thing is described by another site's wrong claim, its own page has the answer.

    Which source is meant is said; without that nobody could know.
    """
    if not graph.contradicted or hops.most < 2:
        return Dropped.NO_SHAPE
    quarrels = [each for node in part.nodes if not node.is_literal for each in _contradictions(graph, node)]
    if not quarrels:  # they are rare where pages mostly agree
        quarrels = _contradictions(graph, rng.choice(graph.contradicted).head)
    if not quarrels:
        return Dropped.NO_SHAPE
    claim, truth = rng.choice(quarrels)
    if graph.name(claim.tail) is None:
        return Dropped.TANGLED
    subject = until_unique(graph, QueryNode(claim.head, (Constraint(claim, QueryNode(claim.tail, is_named=True)),)), rng)
    if subject is None:
        return Dropped.NOT_UNIQUE
    if truth in set(subject.facts()):
        return Dropped.NO_SHAPE
    root = QueryNode(truth.tail, (Constraint(truth, subject),))
    facts = tuple(root.facts())
    text = _contradiction_text(graph, subject, claim, truth, rng)
    return Draft(
        Capability.CROSS_VERIFICATION, "quarrel",
        text=text, answers=graph.answers(root.node), facts=facts, hops=len(facts),
        roots=(root,), is_unique=len(graph.tails[(truth.relation, truth.head)]) == 1, named=_names_in(graph, root),
        depth=root.depth(), path=_path(graph, root), extra={"claimed": claim.object, "claimed_by": claim.url},
    )  # fmt: skip


def _contradictions(graph: FactGraph, node: Node) -> list[tuple[Fact, Fact]]:
    """Each claim about a thing that its own page contradicts, and what holds."""
    found: list[tuple[Fact, Fact]] = []
    for claim in graph.outgoing[node.id]:
        base, site = split_claim(claim.relation)
        truths = [fact for fact in graph.outgoing[node.id] if site and fact.relation == base]
        if len(truths) == 1 and truths[0].object != claim.object:
            found.append((claim, truths[0]))
    return found


def _contradiction_text(graph: FactGraph, subject: QueryNode, claim: Fact, truth: Fact, rng: random.Random) -> str:
    speaker = Speaker(graph, rng)
    kind = speaker.kind(subject.node)
    words = graph.words[truth.relation]
    thing = words.value if truth.is_literal else speaker.kind(truth.tail)
    noun = rng.choice(words.noun or (f"the {escaped(thing)} {words.object[0]}",)).format(s=f"that {kind}")
    speaker.prefaces.append(f"Consider the {kind} {speaker.clauses(subject)}.")
    site = split_claim(claim.relation)[1]
    return speaker.after_prefaces(
        f"the page on that {kind} itself contradicts the {site}: by that page, {who_asks(thing).lower()} is {noun}?"
    )


GENERATORS: Mapping[Capability, Generator] = {
    Capability.DIRECT: direct,
    Capability.AGGREGATION: aggregation,
    Capability.ENUMERATION: enumeration,
    Capability.CROSS_VERIFICATION: cross_verification,
    Capability.STATISTICS: statistics,
}


def _path(graph: FactGraph, root: QueryNode) -> tuple[str, ...]:
    """The names of the things on the longest path to a tree's root, the given one first."""
    return tuple(graph.answers(node)[0] for node in reversed(root.longest_path()))


def _names_in(graph: FactGraph, *roots: QueryNode) -> tuple[str, ...]:
    """The names and values that trees give away."""
    named = [query for root in roots for query in root.nodes() if query.is_named]
    return tuple(dict.fromkeys(graph.name(query.node) or "" for query in named))
