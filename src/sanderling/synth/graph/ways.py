"""Ways through a graph that was read from documents: from an answer on, each step of another kind, to something with a name.

In such a graph a few relations have most facts, and a drawn part of it hardly ever holds a way worth asking for. So a way is
laid step by step instead: first the relation is drawn, among those that say something new, then the fact. Knows no wording
but which relations have words for which end.
"""

import random
from collections.abc import Sequence

from sanderling.synth.graph.contract import Fact
from sanderling.synth.graph.ground import Ground
from sanderling.synth.graph.query import Node, object_of, subject_of
from sanderling.synth.graph.sampling import around
from sanderling.synth.graph.tree import Clause, Spot, chain_of

FEWEST_STEPS = 2
"""Facts of a question that take finding something out."""
_TRIED = 8
"""Answers that are tried for one draw."""
_MOST_ANSWERS = 6
"""Answers that may fit a way, so that further facts may tell the one from the others."""
_TOLD, _TWICE = 0.5, 0.5
"""Share of branches that tell their end vaguely; of joins that may have one relation twice."""
_QUOTED, _GOES_ON = 0.3, 0.3
"""Share of ways that begin at quoted words in place of a name; that go on where they could end."""


def draw_way(ground: Ground, hops: int, rng: random.Random) -> Spot | None:
    """A way of ``hops`` facts at most that is worth asking for, laid from a drawn name on; None where none was found."""
    for _ in range(_TRIED):
        way = _way_on(ground, draw_fact(ground, rng), hops, rng)
        if way is not None:
            return way
    return None


def _way_on(ground: Ground, start: Fact, hops: int, rng: random.Random) -> Spot | None:
    """From one end of a fact, by its name, over the other end to an answer; each thing is told by the one before alone."""
    ends = [subject_of(start), object_of(start)]
    rng.shuffle(ends)
    nodes, facts = ends, [start]
    if ground.name(nodes[0]) is None or not _tells(ground, start, nodes[0], nodes[1], most=1):
        return None
    pages = ground.pages[(subject_of(start), start.relation, object_of(start))]
    quote = _quoted(ground, nodes[0]) if hops > FEWEST_STEPS and rng.random() < _QUOTED else None
    while steps(ground, facts) < FEWEST_STEPS or pages or rng.random() < _GOES_ON:
        is_last = len(facts) + 1 + (quote is not None) >= hops
        near = [
            (fact, other)
            for fact, other in around(ground.graph, nodes[-1], rng)
            if other not in nodes
            and family(ground, fact) not in {family(ground, each) for each in facts}
            and _tells(ground, fact, nodes[-1], other, most=_MOST_ANSWERS if is_last else 1)
        ]
        if not near or len(facts) + (quote is not None) >= hops:
            break
        fact, other = drawn(near, rng)
        facts.append(fact)
        nodes.append(other)
        pages &= ground.pages[(subject_of(fact), fact.relation, object_of(fact))]
        if other.is_literal:
            break
    if steps(ground, facts) < FEWEST_STEPS or pages:
        return None
    if quote is not None:
        nodes, facts = [object_of(quote), *nodes], [quote, *facts]
    return chain_of(nodes[::-1], facts[::-1])


def _tells(ground: Ground, fact: Fact, told: Node, thing: Node, *, most: int) -> bool:
    """Whether a fact with its one end known tells its other end from all but ``most`` things."""
    if thing.is_literal and not ground.words.of(fact.relation).is_answer:
        return False
    if not can_be_told(ground, fact, told) or (object_of(fact) == told and ground.words.of(fact.relation).is_weak):
        return False
    return len(_fits(ground, fact, told)) <= most


def _quoted(ground: Ground, node: Node) -> Fact | None:
    """Words that only this thing is described with."""
    if node.is_literal:
        return None
    for fact in ground.graph.outgoing[node.id]:
        words = ground.words.of(fact.relation)
        if fact.is_literal and not words.is_step and words.subject and len(_fits(ground, fact, object_of(fact))) == 1:
            return fact
    return None


def way_from(
    ground: Ground, start: Node, hops: int, rng: random.Random, avoid: Sequence[Node] = (), before: Sequence[Fact] = ()
) -> Spot | None:
    """A way of ``hops`` facts at most from a thing, past some things and facts; None where it leads to no name."""
    nodes: list[Node] = [start]
    facts: list[Fact] = []
    while len(facts) < hops:
        told = facts_told(ground, nodes[-1], (*before, *facts), rng)
        near = [(fact, other) for fact, other in told if other not in nodes and other not in avoid]
        near = [(fact, other) for fact, other in near if _leads_back(ground, fact, nodes, other)]
        if len(facts) + 1 == hops:
            near = [(fact, other) for fact, other in near if ground.name(other) is not None]
        if not near:
            break
        fact, other = drawn(near, rng)
        nodes.append(other)
        facts.append(fact)
        if other.is_literal:
            break
        if ground.name(other) is not None and steps(ground, facts) >= FEWEST_STEPS and rng.random() > _GOES_ON:
            break
    while facts and ground.name(nodes[-1]) is None:
        nodes.pop()
        facts.pop()
    return chain_of(nodes, facts) if facts else None


def _leads_back(ground: Ground, fact: Fact, nodes: Sequence[Node], other: Node) -> bool:
    """Whether the other end of a fact tells of the last thing of a way: of something between, of it alone."""
    if len(nodes) == 1 and not may_be_asked(ground, nodes[0], fact, other):
        return False
    if object_of(fact) == other and ground.words.of(fact.relation).is_weak:
        return False
    return len(_fits(ground, fact, other)) <= (_MOST_ANSWERS if len(nodes) == 1 else 1)


def draw_join(ground: Ground, hops: int, rng: random.Random) -> Spot | None:
    """An answer that two ways lead to, neither to it alone; None where none was found."""
    for _ in range(_TRIED):
        fact = draw_fact(ground, rng)
        answer = rng.choice((subject_of(fact), object_of(fact)))
        first = None if answer.is_literal else _branch(ground, answer, (), hops - 1, rng)
        for _ in range(_TRIED if first else 0):
            second = _branch(ground, answer, (first,), hops - sum(1 for _ in first.other.facts()) - 1, rng) if first else None
            if first is None or second is None or not _meet(ground, answer, first, second):
                continue
            root = Spot(answer, (first, second))
            if steps(ground, tuple(root.facts())) >= FEWEST_STEPS:
                return root
    return None


def _meet(ground: Ground, answer: Node, *clauses: Clause) -> bool:
    """Whether the answer alone fits them, as far as their other ends are known."""
    return frozenset.intersection(*(_fits(ground, clause.fact, clause.other.node) for clause in clauses)) == {answer}


def _branch(ground: Ground, answer: Node, before: tuple[Clause, ...], hops: int, rng: random.Random) -> Clause | None:
    """One way to an answer that others fit as well; of a relation that is there already only what joins two things to it."""
    facts = [fact for clause in before for fact in (clause.fact, *clause.other.facts())]
    inside = [answer, *(spot.node for clause in before for spot in clause.other.spots())]
    twice = {clause.fact.relation for clause in before if not clause.describes_subject and rng.random() < _TWICE}
    others = [fact for fact in facts if fact.relation not in twice or ground.words.of(fact.relation).is_weak]
    near = [
        (fact, other)
        for fact, other in facts_told(ground, answer, others, rng)
        if other not in inside
        and may_be_asked(ground, answer, fact, other)
        and (fact.relation not in twice or object_of(fact) == answer)
        and len(_fits(ground, fact, other)) > 1
    ]
    if not near or hops < 1:
        return None
    fact, other = drawn(near, rng)
    below: Spot | None = Spot(other, is_named=True)
    if ground.name(other) is None or (not other.is_literal and hops > 1 and rng.random() < _TOLD):
        below = way_from(ground, other, min(hops - 1, 2), rng, inside, (*facts, fact))
    return Clause(fact, below) if below is not None else None


def _fits(ground: Ground, fact: Fact, other: Node) -> frozenset[Node]:
    """The things of which a fact with that other end is known."""
    return (ground.index.subjects if object_of(fact) == other else ground.index.objects)[(fact.relation, other)]


def draw_fact(ground: Ground, rng: random.Random) -> Fact:
    """A fact of a relation that is a step; one with a hundred times the facts is drawn ten times as often."""
    relations = [relation for relation in ground.relations if ground.words.of(relation).is_step] or list(ground.relations)
    weights = [len(ground.facts_of[relation]) ** 0.5 for relation in relations]
    return rng.choice(ground.facts_of[rng.choices(relations, weights)[0]])


def may_be_asked(ground: Ground, answer: Node, fact: Fact, other: Node) -> bool:
    """Whether a fact can be what tells of an answer: no quoted words, and no value that cannot be asked for."""
    return ground.words.of(fact.relation).is_answer or not (answer.is_literal or other.is_literal)


def facts_told(ground: Ground, node: Node, facts: Sequence[Fact], rng: random.Random) -> list[tuple[Fact, Node]]:
    """The facts of a thing that can be told of it, and that say something else than those before."""
    if node.is_literal:
        found = [(fact, subject_of(fact)) for fact in ground.facts_with(node)]
        near = rng.sample(found, min(len(found), 3))
    else:
        near = around(ground.graph, node, rng)
    families = {family(ground, fact) for fact in facts}
    return [(fact, other) for fact, other in near if can_be_told(ground, fact, other) and family(ground, fact) not in families]


def drawn(near: Sequence[tuple[Fact, Node]], rng: random.Random) -> tuple[Fact, Node]:
    """One of some facts, each relation and direction as likely as another."""
    kinds = sorted({(fact.relation, object_of(fact) == other) for fact, other in near})
    kind = rng.choice(kinds)
    return rng.choice([(fact, other) for fact, other in near if (fact.relation, object_of(fact) == other) == kind])


def steps(ground: Ground, facts: Sequence[Fact]) -> int:
    """The facts that take finding something out: no quoted words, and no name that begins with the name it leads to."""
    return sum(ground.words.of(fact.relation).is_step and not _is_told(ground, fact) for fact in facts)


def _is_told(ground: Ground, fact: Fact) -> bool:
    """Whether a name says its fact: "os.fork()" belongs to "os"."""
    ends = [ground.answers(node)[0].casefold() for node in (subject_of(fact), object_of(fact))]
    return ends[0].startswith(f"{ends[1]}.")


def can_be_told(ground: Ground, fact: Fact, other: Node) -> bool:
    """Whether its relation has words for the end that is not ``other``."""
    words = ground.words.of(fact.relation)
    return bool(words.subject if object_of(fact) == other else words.object)


def family(ground: Ground, fact: Fact) -> str:
    """What a fact says, as far as a question should say it once."""
    return ground.words.of(fact.relation).family or fact.relation
