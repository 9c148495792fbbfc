"""Cross-verification: sources say different things of one relation, and the question wants what holds.

Where a graph knows what other sites claim (``NAME@SITE``), the thing asked about is told by the wrong claim, and the answer
is what the better source has. Which source is meant is said: without that nobody could know.
"""

import random
from dataclasses import dataclass

from sanderling.synth.graph.capabilities.drafting import names_in, path_of
from sanderling.synth.graph.contract import Capability, Fact
from sanderling.synth.graph.draft import Draft, Dropped, Range
from sanderling.synth.graph.ground import Ground
from sanderling.synth.graph.growing import until_unique
from sanderling.synth.graph.query import Node, object_of, subject_of
from sanderling.synth.graph.sampling import Subgraph
from sanderling.synth.graph.tree import Clause, Spot, to_query
from sanderling.synth.graph.wording import Speaker, who_asks
from sanderling.synth.graph.words.contract import claimed, literally


@dataclass(frozen=True)
class _Quarrel:
    """What a site claims, and what holds."""

    claim: Fact
    truth: Fact


def cross_verification(ground: Ground, part: Subgraph, hops: Range, rng: random.Random) -> Draft | Dropped:
    """See `draft.Generator`."""
    if not ground.claims or hops.most < 2:
        return Dropped.NO_SHAPE
    quarrels = [each for node in part.nodes if not node.is_literal for each in _quarrels(ground, node)]
    if not quarrels:  # they are rare where pages mostly agree
        quarrels = _quarrels(ground, Node(rng.choice(ground.claims).subject))
    if not quarrels:
        return Dropped.NO_SHAPE
    quarrel = rng.choice(quarrels)
    rumour = object_of(quarrel.claim)
    if ground.name(rumour) is None:
        return Dropped.TANGLED
    claim = Spot(subject_of(quarrel.claim), (Clause(quarrel.claim, Spot(rumour, is_named=True)),))
    told = until_unique(ground, claim, rng, is_answer=False)
    if told is None:
        return Dropped.NOT_UNIQUE
    if quarrel.truth in set(told.facts()):
        return Dropped.NO_SHAPE
    root = Spot(object_of(quarrel.truth), (Clause(quarrel.truth, told),))
    speaker = Speaker(ground, rng)
    text = _text(ground, speaker, told, quarrel, rng)
    return Draft(
        capability=Capability.CROSS_VERIFICATION,
        text=text,
        answers=ground.answers(root.node),
        facts=(facts := tuple(root.facts())),
        hops=len(facts),
        queries=(to_query(root),),
        is_unique=len(ground.index.objects[(quarrel.truth.relation, subject_of(quarrel.truth))]) == 1,
        form="quarrel",
        named=names_in(ground, root),
        depth=root.depth(),
        path=path_of(ground, root),
        touching=(quarrel.truth,),
        extra={"claimed": quarrel.claim.object, "claimed_by": quarrel.claim.url},
    )


def _text(ground: Ground, speaker: Speaker, told: Spot, quarrel: _Quarrel, rng: random.Random) -> str:
    kind = speaker.kind(told.node)
    words = ground.words.of(quarrel.truth.relation)
    thing = words.value if quarrel.truth.is_literal else speaker.kind(object_of(quarrel.truth))
    that = f"that {kind}"
    np = rng.choice(words.noun or (f"the {literally(thing)} {words.object[0]}",)).format(s=that)
    speaker.prefaces.append(f"Consider the {kind} {speaker.clauses(told)}.")
    site = claimed(quarrel.claim.relation)[1]
    asked = f"by that page, {who_asks(thing).lower()} is {np}?"
    return speaker.tell(f"the page on {that} itself contradicts the {site}: {asked}")


def _quarrels(ground: Ground, node: Node) -> list[_Quarrel]:
    found: list[_Quarrel] = []
    for claim in ground.graph.outgoing[node.id]:
        base, site = claimed(claim.relation)
        if not site:
            continue
        truths = [fact for fact in ground.graph.outgoing[node.id] if fact.relation == base]
        if len(truths) == 1 and truths[0].object != claim.object:
            found.append(_Quarrel(claim, truths[0]))
    return found
