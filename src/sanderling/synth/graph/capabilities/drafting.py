"""From a tree of constraints to a draft: the one step that all generators of trees share."""

import random

from sanderling.synth.graph.contract import Capability, Fact
from sanderling.synth.graph.draft import Draft
from sanderling.synth.graph.ground import Ground
from sanderling.synth.graph.growing import is_unique
from sanderling.synth.graph.query import Node
from sanderling.synth.graph.tree import Spot, to_query
from sanderling.synth.graph.wording import Speaker, TangledError


def draft_of(ground: Ground, root: Spot, capability: Capability, form: str, rng: random.Random) -> Draft:
    """The question of a tree. Raises TangledError, also for an answer whose name could mean something unknown as well."""
    if not ground.graph.complete and ground.name(root.node) is None:
        raise TangledError
    return Draft(
        capability=capability,
        text=Speaker(ground, rng).question(root),
        answers=ground.answers(root.node),
        facts=(facts := tuple(root.facts())),
        hops=len(facts),
        queries=(to_query(root),),
        is_unique=is_unique(ground, root),
        form=form,
        named=names_in(ground, root),
        depth=root.depth(),
        path=path_of(ground, root),
        touching=tuple(clause.fact for clause in root.clauses),
    )


def between(root: Spot) -> tuple[tuple[Node, tuple[Fact, ...]], ...]:
    """See `Draft.between`."""
    spots = (spot for spot in root.spots() if spot is not root and spot.clauses)
    return tuple((spot.node, tuple(clause.fact for clause in spot.clauses)) for spot in spots)


def path_of(ground: Ground, root: Spot) -> tuple[str, ...]:
    """The names of the things on the longest way to a tree's root, the given one first."""
    return tuple(ground.answers(node)[0] for node in reversed(root.way()))


def names_in(ground: Ground, *roots: Spot) -> tuple[str, ...]:
    """The names and values that trees give away."""
    named = [spot for root in roots for spot in root.spots() if spot.is_named]
    return tuple(dict.fromkeys(ground.name(spot.node) or "" for spot in named))
