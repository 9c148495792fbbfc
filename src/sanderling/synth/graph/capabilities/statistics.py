"""Statistics: count a group, or find the extremes of its members' numbers."""

import random
from collections.abc import Sequence

from sanderling.synth.graph.capabilities.drafting import between, names_in, path_of
from sanderling.synth.graph.contract import Capability, Fact
from sanderling.synth.graph.draft import Draft, Dropped, Range
from sanderling.synth.graph.ground import Ground
from sanderling.synth.graph.groups import Group, draw_group
from sanderling.synth.graph.query import Node
from sanderling.synth.graph.sampling import Subgraph
from sanderling.synth.graph.wording import Speaker

_SIZES = Range(2, 12)
_NUMERALS = ("two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")
_COUNTED = ("Take every {kind} {clauses}. How many are there?", "Count every {kind} {clauses}: how many are there?")
_EXTREMES = {"earliest": min, "latest": max}


def statistics(ground: Ground, part: Subgraph, hops: Range, rng: random.Random) -> Draft | Dropped:
    """See `draft.Generator`."""
    group = draw_group(ground, part, hops, _SIZES, rng)
    if isinstance(group, Dropped):
        return group
    numbers = _numbers(ground, group.members)
    speaker = Speaker(ground, rng)
    kind = speaker.kind(group.kind_of)
    clauses = speaker.clauses(group.root)
    if numbers and rng.random() < 0.5:
        facts = rng.choice(numbers)
        words = ground.words.of(facts[0].relation)
        noun = rng.choice(words.noun).format(s="each")
        extreme = rng.choice(list(_EXTREMES))
        text = f"take every {kind} {clauses}, and {noun}. Which {words.value} is the {extreme}?"
        answers: tuple[str, ...] = (str(_EXTREMES[extreme](int(fact.object) for fact in facts)),)
        return _draft(ground, group, speaker.tell(text), answers, facts, extreme)
    text = rng.choice(_COUNTED).format(kind=kind, clauses=clauses)
    count = len(group.members)
    return _draft(ground, group, speaker.tell(text), (str(count), _NUMERALS[count - 2]), (), "count")


def _numbers(ground: Ground, members: Sequence[Node]) -> list[tuple[Fact, ...]]:
    """For each numeric relation that all members have once: their facts. Values that are all the same tell nothing."""
    relations = {fact.relation for fact in ground.graph.outgoing[members[0].id] if ground.words.of(fact.relation).is_numeric}
    found: list[tuple[Fact, ...]] = []
    for relation in sorted(relations):
        facts = [[fact for fact in ground.graph.outgoing[node.id] if fact.relation == relation] for node in members]
        if all(len(each) == 1 for each in facts) and len({each[0].object for each in facts}) > 1:
            found.append(tuple(each[0] for each in facts))
    return found


def _draft(ground: Ground, group: Group, text: str, answers: tuple[str, ...], more: tuple[Fact, ...], form: str) -> Draft:
    return Draft(
        capability=Capability.STATISTICS,
        text=text,
        answers=answers,
        facts=(*group.facts, *more),
        hops=group.hops + bool(more),
        queries=(group.query,),
        is_unique=True,
        form=form,
        named=names_in(ground, group.root),
        depth=group.root.depth() + bool(more),
        between=between(group.root),
        path=path_of(ground, group.root)[:-1],
        extra={"items": [list(ground.answers(node)) for node in group.members]},
    )
