"""Enumeration: name all that share a fact. The answer is the whole list, in any order."""

import random
from collections.abc import Sequence
from itertools import permutations

from sanderling.synth.graph.capabilities.drafting import names_in, path_of
from sanderling.synth.graph.contract import Capability
from sanderling.synth.graph.draft import Draft, Dropped, Range
from sanderling.synth.graph.ground import Ground
from sanderling.synth.graph.groups import draw_group
from sanderling.synth.graph.sampling import Subgraph
from sanderling.synth.graph.wording import Speaker, listed

_SIZES = Range(2, 5)
_ASKED = ("name every {kind} {clauses}.", "list every {kind} {clauses}.")


def enumeration(ground: Ground, part: Subgraph, hops: Range, rng: random.Random) -> Draft | Dropped:
    """See `draft.Generator`."""
    group = draw_group(ground, part, hops, _SIZES, rng)
    if isinstance(group, Dropped):
        return group
    speaker = Speaker(ground, rng)
    kind = speaker.kind(group.kind_of)
    text = rng.choice(_ASKED).format(kind=kind, clauses=speaker.clauses(group.root))
    items = [ground.answers(node)[0] for node in group.members]
    if len(set(items)) < len(items):  # namesakes: the full names tell them apart
        items = [ground.name(node) or ground.answers(node)[-1] for node in group.members]
    return Draft(
        capability=Capability.ENUMERATION,
        text=speaker.tell(text),
        answers=in_any_order(items),
        facts=group.facts,
        hops=group.hops,
        queries=(group.query,),
        is_unique=True,
        form="list",
        named=names_in(ground, group.root),
        depth=group.root.depth(),
        path=path_of(ground, group.root)[:-1],
        extra={"items": [list(ground.answers(node)) for node in group.members]},
    )


def in_any_order(items: Sequence[str]) -> tuple[str, ...]:
    """A list as an answer may give it, the given order first: with commas (semicolons are judged alike) or with "and"."""
    orders = tuple(permutations(items))
    return tuple(dict.fromkeys((*(", ".join(order) for order in orders), *(listed(order) for order in orders))))
