"""A question's constraints as a tree: the exact search for everything that satisfies them, and the tree in English.

The answer is at the root, each edge is a fact, and the leaves are named things or given values. What lies between is described
by its kind and its own edges only, so it is a variable of a query. A tree of constraints is answered from its leaves to its
root, one set at a time, which is exact (Yannakakis 1981).
"""

import random
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from sanderling.synth.graph import DroppedError, Fact, FactGraph, Node, Subgraph, escaped

_MOST_BETWEEN = 5
"""How many things may fit the constraints of one between name and answer, where all facts are known; elsewhere one."""
_MOST_EXTRA = 2
_TRIED = 12


@dataclass(frozen=True, slots=True)
class Constraint:
    """One fact about a node of the tree, and the node at its other end."""

    fact: Fact
    other: "QueryNode"

    @property
    def describes_subject(self) -> bool:
        return self.fact.tail == self.other.node


@dataclass(frozen=True, slots=True)
class QueryNode:
    """One thing in a question: a named one is a leaf, any other has constraints.

    Example: ``QueryNode(town, (Constraint(birthplace, QueryNode(person, is_named=True)),))``, where a named person was born.
    """

    node: Node
    constraints: tuple[Constraint, ...] = ()
    is_named: bool = False

    def nodes(self) -> Iterator["QueryNode"]:
        yield self
        for constraint in self.constraints:
            yield from constraint.other.nodes()

    def facts(self) -> Iterator[Fact]:
        for constraint in self.constraints:
            yield constraint.fact
            yield from constraint.other.facts()

    def longest_path(self) -> tuple[Node, ...]:
        return (self.node, *max((constraint.other.longest_path() for constraint in self.constraints), key=len, default=()))

    def depth(self) -> int:
        return max((1 + constraint.other.depth() for constraint in self.constraints), default=0)


def chain_of(nodes: Sequence[Node], facts: Sequence[Fact]) -> QueryNode:
    """A tree without branches: ``facts[i]`` joins ``nodes[i]`` (nearer the answer) and ``nodes[i + 1]``; the last is named."""
    query = QueryNode(nodes[-1], is_named=True)
    for node, fact in zip(reversed(nodes[:-1]), reversed(facts), strict=True):
        query = QueryNode(node, (Constraint(fact, query),))
    return query


def canonical(root: QueryNode) -> tuple[tuple[object, ...], ...]:
    """A tree as a conjunction of (relation, subject, object), variables numbered from the answer; equal for equal questions."""
    atoms: list[tuple[object, ...]] = []
    count = 0

    def walk(query: QueryNode, term: int | Node) -> None:
        nonlocal count
        for constraint in query.constraints:
            other: int | Node = constraint.other.node
            if not constraint.other.is_named:
                count += 1
                other = count
            atoms.append((constraint.fact.relation, *((term, other) if constraint.describes_subject else (other, term))))
            walk(constraint.other, other)

    walk(root, 0)
    return tuple(sorted(atoms, key=repr))


def answers(graph: FactGraph, query: QueryNode) -> frozenset[Node]:
    """Everything that a node of a query can be so that all facts below it hold, over the whole graph."""
    result: frozenset[Node] | None = None
    for constraint in query.constraints:
        table = graph.heads if constraint.describes_subject else graph.tails
        ends = (constraint.other.node,) if constraint.other.is_named else answers(graph, constraint.other)
        found = [table.get((constraint.fact.relation, end), frozenset()) for end in ends]
        side = found[0] if len(found) == 1 else frozenset().union(*found)
        result = side if result is None else result & side
    if result is None:
        raise ValueError("a node that is not named has a constraint")
    return result


def is_unique(graph: FactGraph, root: QueryNode) -> bool:
    """Whether the root's own thing is the one answer."""
    return answers(graph, root) == {root.node}


def until_unique(graph: FactGraph, root: QueryNode, rng: random.Random) -> QueryNode | None:
    """The tree with as few further constraints as leave one answer, the strongest first; None when those at hand do not."""
    for _ in range(_MOST_EXTRA):
        left = len(answers(graph, root))
        if left == 1:
            return root
        best = root
        for node, constraint in _further(graph, root, rng):
            grown = _with_constraint(root, node, constraint)
            count = len(answers(graph, grown))
            if count < left:
                left, best = count, grown
            if left == 1:
                return best
        if best is root:
            return None
        root = best
    return root if is_unique(graph, root) else None


def _further(graph: FactGraph, root: QueryNode, rng: random.Random) -> list[tuple[Node, Constraint]]:
    used = set(root.facts())
    inside = {query.node for query in root.nodes()}
    found = [
        (query.node, Constraint(fact, QueryNode(other, is_named=True)))
        for query in root.nodes()
        if not query.is_named
        for fact, other in graph.around(query.node, rng)
        if fact not in used and other not in inside and graph.name(other) is not None
    ]
    rng.shuffle(found)
    found.sort(key=lambda pair: not pair[1].other.node.is_literal)
    return found[:_TRIED]


def _with_constraint(root: QueryNode, node: Node, constraint: Constraint) -> QueryNode:
    if root.node == node and not root.is_named:
        return replace(root, constraints=(*root.constraints, constraint))
    for number, each in enumerate(root.constraints):
        grown = _with_constraint(each.other, node, constraint)
        if grown is not each.other:
            return _replaced(root, number, grown)
    return root


def _replaced(root: QueryNode, number: int, below: QueryNode) -> QueryNode:
    clauses = list(root.constraints)
    clauses[number] = Constraint(clauses[number].fact, below)
    return replace(root, constraints=tuple(clauses))


def _without_one(root: QueryNode) -> Iterator[QueryNode]:
    """The trees that lack one constraint, and all below it; a thing keeps its last one."""
    for number, constraint in enumerate(root.constraints):
        rest = (*root.constraints[:number], *root.constraints[number + 1 :])
        if rest:
            yield replace(root, constraints=rest)
        for below in _without_one(constraint.other):
            yield _replaced(root, number, below)


def needed(graph: FactGraph, root: QueryNode) -> QueryNode:
    """The tree without whatever its answer does not need: without any of its constraints, more things would fit."""
    while (smaller := next((tree for tree in _without_one(root) if is_unique(graph, tree)), None)) is not None:
        root = smaller
    return root


def is_decorated(graph: FactGraph, root: QueryNode) -> bool:
    """Whether a reader who goes by the kind of thing that is asked for could do without some constraint."""
    kind = graph.kind(root.node)
    fitting = ({node for node in answers(graph, tree) if graph.kind(node) == kind} for tree in _without_one(root))
    return any(found == {root.node} for found in fitting)


def is_followable(graph: FactGraph, root: QueryNode) -> bool:
    """Whether few other things fit what is said of each between, and no given name holds that of a hidden thing."""
    given = [(graph.name(query.node) or "").casefold() for query in root.nodes() if query.is_named]
    hidden = [graph.answers(query.node)[0].casefold() for query in root.nodes() if not query.is_named]
    if any(re.search(rf"(?<!\w){re.escape(name)}(?!\w)", each) for name in hidden for each in given):
        return False
    most = _MOST_BETWEEN if graph.complete else 1
    between = (query for query in root.nodes() if query is not root and query.constraints)
    return all(len(answers(graph, query)) <= most for query in between)


# -- chains and trees through a part of a graph ----------------------------------------------------------------------------


def chain_in(graph: FactGraph, part: Subgraph, hops: int, rng: random.Random, start: Node | None = None) -> QueryNode | None:
    """A path of so many edges through the part, from an answer to something that has a name; None when there is none."""
    starts = [start] if start is not None else list(part.nodes)
    rng.shuffle(starts)

    def walk(nodes: list[Node], facts: list[Fact]) -> bool:
        """Go on from the last node, depth first; only the ends of a path may be values."""
        if len(facts) == hops:
            return graph.name(nodes[-1]) is not None and not (hops == 1 and nodes[-1].is_literal)
        if nodes[-1].is_literal and len(nodes) > 1:
            return False
        edges = list(part.touching(nodes[-1]))
        rng.shuffle(edges)
        for fact, other in edges:
            if other in nodes:
                continue
            nodes.append(other)
            facts.append(fact)
            if walk(nodes, facts):
                return True
            nodes.pop()
            facts.pop()
        return False

    for answer in starts:
        nodes, facts = [answer], list[Fact]()
        if walk(nodes, facts):
            return chain_of(nodes, facts)
    return None


def spanning_tree(graph: FactGraph, part: Subgraph, answer: Node, most: int, rng: random.Random) -> QueryNode | None:
    """The part as a tree below an answer, of ``most`` edges at most, breadth first; None when a leaf has no name."""
    edges: dict[Node, list[tuple[Fact, Node]]] = {answer: []}
    queue, count = [answer], 0
    while queue and count < most:
        at = queue.pop(0)
        near = list(part.touching(at))
        rng.shuffle(near)
        for fact, other in near:
            if other in edges or count == most:
                continue
            if at == answer and fact.tail == answer and len(graph.tails[(fact.relation, fact.head)]) == 1:
                continue  # it would single out the answer by itself, and all other branches were needless
            edges[at].append((fact, other))
            edges[other] = []
            count += 1
            if not other.is_literal:
                queue.append(other)

    def build(node: Node) -> QueryNode:
        below = edges[node]
        return QueryNode(node, tuple(Constraint(fact, build(other)) for fact, other in below), is_named=not below)

    root = build(answer)
    if answer.is_literal or any(graph.name(query.node) is None for query in root.nodes() if query.is_named):
        return None
    return root


# -- in English: named things by their names, all others by their kind and what is said of them ----------------------------
# A clause behind a thing that has several clauses of its own could belong to either, so such things get a sentence of their own
# before ("Consider the town that …. Which person was born in *that town*?"), and so is all but the last of several branches.

_PREFACES = ("Consider {np}.", "Think of {np}.", "Take {np}.")
_ASKED = ("{who} is {np}?", "Name {np}.", "Find {np}.")
_PERSON = "person"
_DEEPEST = 3  # edges below a thing that one sentence takes; deeper ones are split


class Speaker:
    """Words one question; each choice among wordings is drawn from ``rng``.

    Its methods raise DroppedError where the words would leave open what belongs to what, or what something is.

    Example: ``Speaker(graph, random.Random(0)).question(root)``
    """

    def __init__(self, graph: FactGraph, rng: random.Random) -> None:
        self.graph, self.rng = graph, rng
        self.prefaces: list[str] = []
        self._referred: set[str] = set()
        """Kinds that "that KIND" stands for already."""

    def question(self, root: QueryNode) -> str:
        return self.after_prefaces(self._asked(root))

    def after_prefaces(self, last: str) -> str:
        return " ".join([*self.prefaces, last[0].upper() + last[1:]])

    def phrase(self, query: QueryNode) -> str:
        """A thing as a part of a sentence; one that needs a sentence of its own gets it."""
        return self._lift(query) if len(query.constraints) > 1 or query.depth() >= _DEEPEST else self._inline(query)

    def clauses(self, query: QueryNode) -> str:
        """What is said of a thing, as relative clauses; of its branches one stays in the sentence, the last."""
        flat = [constraint for constraint in query.constraints if not constraint.other.constraints]
        deep = sorted(
            (constraint for constraint in query.constraints if constraint.other.constraints), key=lambda one: one.other.depth()
        )
        clauses = [self._clause(constraint, self._inline(constraint.other)) for constraint in flat]
        clauses += [self._clause(constraint, self._lift(constraint.other)) for constraint in deep[:-1]]
        clauses += [self._clause(constraint, self.phrase(constraint.other)) for constraint in deep[-1:]]
        return " and ".join(clauses)

    def kind(self, node: Node) -> str:
        kind = self.graph.kind(node)
        if not kind:
            raise DroppedError("ambiguous words")
        return kind

    def _inline(self, query: QueryNode) -> str:
        if query.is_named:
            name = self.graph.name(query.node)
            if name is None:
                raise DroppedError("ambiguous words")
            return name
        return (len(query.constraints) == 1 and self._noun(query.constraints[0])) or self._described(query)

    def _lift(self, query: QueryNode) -> str:
        """Describe a thing in a sentence of its own, and give the words that then stand for it."""
        kind = self.kind(query.node)
        described = self._described(query)
        if kind in self._referred:
            raise DroppedError("ambiguous words")
        self._referred.add(kind)
        self.prefaces.append(self.rng.choice(_PREFACES).format(np=described))
        return f"that {kind}"

    def _described(self, query: QueryNode) -> str:
        kind = self.kind(query.node)
        article = "the" if len(answers(self.graph, query)) == 1 else "an" if kind[0].lower() in "aeiou" else "a"
        return f"{article} {kind} {self.clauses(query)}"

    def _asked(self, root: QueryNode) -> str:
        if root.node.is_literal:
            return self._value_asked(root)
        kind = self.kind(root.node)
        if len(root.constraints) == 1 and (noun := self._noun(root.constraints[0])):
            asked = _ASKED if kind in noun.split() else (*_ASKED, f"Which {escaped(kind)} is {{np}}?")
            return self.rng.choice(asked).format(who=who_asks(kind), np=noun)
        clauses = self.clauses(root)
        pronoun, _, rest = clauses.partition(" ")
        if len(root.constraints) == 1 and kind == _PERSON and pronoun == "who":
            return f"Who {rest}?"
        if len(root.constraints) == 1 and pronoun in ("who", "that") and root.constraints[0].describes_subject:
            return f"Which {kind} {rest}?"
        return self.rng.choice(_ASKED).format(who=who_asks(kind), np=f"the {kind} {clauses}")

    def _value_asked(self, root: QueryNode) -> str:
        if len(root.constraints) != 1:
            raise DroppedError("ambiguous words")
        (constraint,) = root.constraints
        subject = self.phrase(constraint.other)
        return self.rng.choice(self.graph.words[constraint.fact.relation].inquiry).format(s=subject)

    def _noun(self, constraint: Constraint) -> str:
        """A noun phrase for what has this constraint alone, where its relation has one and chance wants it."""
        words = self.graph.words[constraint.fact.relation]
        if constraint.describes_subject or not words.noun or self.rng.random() < 0.5:
            return ""
        other = self.phrase(constraint.other)
        return self.rng.choice(words.noun).format(s=other)

    def _clause(self, constraint: Constraint, other: str) -> str:
        words = self.graph.words[constraint.fact.relation]
        return self.rng.choice(words.subject if constraint.describes_subject else words.object).format(s=other, o=other)


def listed(items: Sequence[str]) -> str:
    """A list in words: "a, b and c"."""
    return " and ".join([", ".join(items[:-1]), items[-1]]) if len(items) > 1 else items[0]


def who_asks(kind: str) -> str:
    """The word that asks for something of a kind."""
    return "Who" if kind == _PERSON else "What"
