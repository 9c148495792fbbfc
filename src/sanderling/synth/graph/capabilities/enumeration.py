"""Enumeration: name all that share a fact. The answer is the whole list.

Of up to four, any order is right, and all orders are accepted answers. More would have too many orders to write down (240
answers for five), so a longer list is asked for in alphabetical order. Items are accepted by one name each.
"""

import random
from collections.abc import Sequence
from itertools import permutations

from sanderling.synth.graph.capabilities.drafting import between, names_in, path_of
from sanderling.synth.graph.contract import Capability
from sanderling.synth.graph.draft import Draft, Dropped, Range
from sanderling.synth.graph.ground import Ground
from sanderling.synth.graph.groups import draw_group
from sanderling.synth.graph.sampling import Subgraph
from sanderling.synth.graph.wording import Speaker, listed

_SIZES = Range(2, 5)
_MOST_ORDERED = 4
"""Items of which every order is written down."""
_ASKED = ("name every {kind} {clauses}{ordered}.", "list every {kind} {clauses}{ordered}.")
_ORDERED = ", in alphabetical order"


def enumeration(ground: Ground, part: Subgraph, hops: Range, rng: random.Random) -> Draft | Dropped:
    """See `draft.Generator`."""
    group = draw_group(ground, part, hops, _SIZES, rng)
    if isinstance(group, Dropped):
        return group
    speaker = Speaker(ground, rng)
    kind = speaker.kind(group.kind_of)
    ordered = _ORDERED if len(group.members) > _MOST_ORDERED else ""
    text = rng.choice(_ASKED).format(kind=kind, clauses=speaker.clauses(group.root), ordered=ordered)
    items = [ground.answers(node)[0] for node in group.members]
    if len(set(items)) < len(items):  # namesakes: the full names tell them apart
        items = [ground.name(node) or ground.answers(node)[-1] for node in group.members]
    return Draft(
        capability=Capability.ENUMERATION,
        text=speaker.tell(text),
        answers=list_answers(items),
        facts=group.facts,
        hops=group.hops,
        queries=(group.query,),
        is_unique=True,
        form="list",
        named=names_in(ground, group.root),
        depth=group.root.depth(),
        between=between(group.root),
        path=path_of(ground, group.root)[:-1],
        extra={"items": [list(ground.answers(node)) for node in group.members]},
    )


def list_answers(items: Sequence[str]) -> tuple[str, ...]:
    """A list as an answer may give it: with commas (semicolons are judged alike) or with "and"; its order: see the module."""
    orders = _alphabetical(items) if len(items) > _MOST_ORDERED else [list(order) for order in permutations(items)]
    return tuple(dict.fromkeys((*(", ".join(order) for order in orders), *(listed(order) for order in orders))))


def _alphabetical(items: Sequence[str]) -> list[list[str]]:
    """What people call alphabetical: without regard to capitals, and besides without regard to what is no letter or digit."""
    plain = sorted(items, key=str.casefold)
    return [plain, sorted(plain, key=lambda item: "".join(filter(str.isalnum, item.casefold())))]
