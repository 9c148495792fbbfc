"""Direct: one stated fact at the end of a chain. The chain's other end is named; everything between is told vaguely."""

import random

from sanderling.synth.graph.capabilities.drafting import draft_of
from sanderling.synth.graph.contract import Capability
from sanderling.synth.graph.draft import Draft, Dropped, Range
from sanderling.synth.graph.ground import Ground
from sanderling.synth.graph.growing import draw_chain, is_decorated, is_followable, needed, until_unique
from sanderling.synth.graph.sampling import Subgraph, walk
from sanderling.synth.graph.ways import draw_way


def direct(ground: Ground, part: Subgraph, hops: Range, rng: random.Random) -> Draft | Dropped:
    """A chain of so many facts, and further constraints where its answer is not the only one; see `draft.Generator`."""
    wanted = rng.randint(hops.least, hops.most)
    chain = draw_chain(ground, part, wanted, rng) if ground.graph.complete else draw_way(ground, wanted, rng)
    if chain is None and ground.graph.complete:
        chain = draw_chain(ground, walk(ground, part.nodes[0], wanted + 1, rng), wanted, rng)
    if chain is None:
        return Dropped.NO_SHAPE
    root = until_unique(ground, chain, rng)
    if root is None:
        return Dropped.NOT_UNIQUE
    root = needed(ground, root)
    if not is_followable(ground, root):
        return Dropped.NOT_FOLLOWABLE
    if is_decorated(ground, root):
        return Dropped.DECORATED
    return draft_of(ground, root, Capability.DIRECT, "chain", rng)
