"""Makes questions from a graph: draws parts, hands them to generators in turn, checks what comes back, and keeps count.

The capability with the fewest questions has the next draw, so that each gets its share as far as the graph has questions of it;
one that finds nothing for long is given up. The same graph, settings and seed give the same questions.

No page of a question is masked: a question of several hops is asked so that its pages are found and read, each fact stands on
a page that the reader needs, and no page holds them all.
"""

import random
import re
from collections import Counter
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field

from pydantic import Field, model_validator

from sanderling.core.config import Frozen
from sanderling.core.record import Question
from sanderling.synth.graph.capabilities import GENERATORS, Capability, Draft, Dropped, Range
from sanderling.synth.graph.graph import Fact, FactGraph
from sanderling.synth.graph.sampling import sample_subgraph
from sanderling.synth.graph.tree import canonical
from sanderling.synth.graph.wording import TangledError

MAKER, MAKER_VERSION = "graph", 5
"""The version is raised whenever the same graph and seed give other questions."""
_PATIENCE = 1_000
"""Draws in a row without a question after which a capability is given up."""
_LEAST_AGAIN, _SHARE_AGAIN = 2, 50
"""Two questions may have one answer, or a fiftieth of all: hubs would otherwise answer too many. In a graph that was read the
same goes for resting on one fact."""
_MOST_WORDS = 110
_LONGEST_ANSWER = 240


class GraphSettings(Frozen):
    """Which questions are made of a graph."""

    count: int = Field(default=100, ge=1)
    size: Range = Range(5, 7)
    """Things in the part of the graph behind a question."""
    hops: Range = Range(2, 5)
    """Facts that a question puts together; groups have one for each member besides."""
    capabilities: tuple[Capability, ...] = tuple(Capability)
    seed: int = 0

    @model_validator(mode="after")
    def _in_order(self) -> "GraphSettings":
        for name, (low, high), least in (("size", self.size, 2), ("hops", self.hops, 1)):
            if not least <= low <= high:
                raise ValueError(f"{name} {low}-{high} does not go upwards from {least}: write {least} or {least}-{least + 3}")
        if self.size.most <= self.hops.least:
            raise ValueError(f"a question of {self.hops.least} hops needs a part of {self.hops.least + 1} things: raise size")
        return self


@dataclass
class Made:
    """The questions, and what became of every draw."""

    drafts: list[Draft] = field(default_factory=list)
    drawn: Counter[Capability] = field(default_factory=Counter)
    kept: Counter[Capability] = field(default_factory=Counter)
    dropped: dict[Capability, Counter[Dropped]] = field(default_factory=dict)


def make(graph: FactGraph, settings: GraphSettings, progress: Callable[[int], None] = lambda _: None) -> Made:
    """As many different questions as are wanted, or as there are to be found.

    Example: ``make(open_graph(Path("worlds/invented")), GraphSettings(count=10)).drafts[0].text``
    """
    made = Made()
    asked: Counter[Hashable] = Counter()
    misses: Counter[Capability] = Counter()
    open_to = list(dict.fromkeys(settings.capabilities))
    rng = random.Random(f"graph questions:{settings.seed}")
    while len(made.drafts) < settings.count and open_to and graph.facts_of:
        capability = min(open_to, key=lambda one: made.kept[one])
        draft = _draw(graph, settings, capability, rng, asked)
        made.drawn[capability] += 1
        if isinstance(draft, Dropped):
            made.dropped.setdefault(capability, Counter())[draft] += 1
            misses[capability] += 1
            if misses[capability] >= _PATIENCE:
                open_to.remove(capability)
            continue
        misses[capability] = 0
        made.kept[capability] += 1
        made.drafts.append(draft)
        progress(len(made.drafts))
    return made


def _draw(
    graph: FactGraph, settings: GraphSettings, capability: Capability, rng: random.Random, asked: Counter[Hashable]
) -> Draft | Dropped:
    """One draw. ``asked``: how often each constraint, answer and fact was asked about."""
    part = sample_subgraph(graph, rng.randint(*settings.size), rng)
    try:
        draft = GENERATORS[capability](graph, part, settings.hops, rng)
    except TangledError:
        return Dropped.TANGLED
    if isinstance(draft, Dropped):
        return draft
    if reason := _fault(graph, draft, settings.hops):
        return reason
    most = max(_LEAST_AGAIN, settings.count // _SHARE_AGAIN)
    about = tuple(names[0] for names in draft.extra["items"]) if "items" in draft.extra else draft.answers
    if (draft.form in ("chain", "tree") or not graph.complete) and asked[about] >= most:
        return Dropped.ANSWER_AGAIN
    if asked[key := _key(draft)]:
        return Dropped.REPEATED
    facts = () if graph.complete else draft.facts
    if any(asked[fact] >= most for fact in facts):
        return Dropped.FACT_AGAIN
    asked.update((about, key, *facts))
    return draft


def _key(draft: Draft) -> Hashable:
    """Equal for drafts that ask the same: their constraints, and of two values that are set against each other the facts."""
    compared = draft.facts if draft.form == "difference" else ()
    trees = sorted((canonical(root) for root in draft.roots), key=repr)
    return ("constraints", tuple(trees), tuple(sorted(compared, key=repr)))


def _fault(graph: FactGraph, draft: Draft, hops: Range) -> Dropped | None:
    """The first thing that is wrong with a draft: it gives its answer, rests on one page, goes on for too long."""
    if not draft.is_unique:
        return Dropped.NOT_UNIQUE
    if any(len(answer) > _LONGEST_ANSWER for answer in draft.answers[:1]):
        return Dropped.LONG_ANSWER
    if _gives_away(draft):
        return Dropped.NAMES_ANSWER
    if draft.hops > 1 and frozenset.intersection(*map(graph.pages_with, draft.facts)):
        return Dropped.ONE_PAGE
    if draft.hops < hops.least:
        return Dropped.TOO_FEW_HOPS
    if draft.hops > hops.most:
        return Dropped.TOO_MANY_HOPS
    return Dropped.TOO_LONG if len(draft.text.split()) > _MOST_WORDS else None


def _gives_away(draft: Draft) -> bool:
    """Whether an accepted answer, or an item of a list that is the answer, stands in the question as a word of its own."""
    items = draft.extra["items"] if draft.form == "list" else []
    text = draft.text.casefold()
    hidden = (*draft.answers, *(name for names in items for name in names))
    return any(re.search(rf"(?<!\w){re.escape(each.casefold())}(?!\w)", text) is not None for each in hidden)


def question_of(graph: FactGraph, draft: Draft, *, world: str, fingerprint: str, seed: int, number: int) -> Question:
    """A draft as a question, numbered within its file, with its evidence and where it comes from."""

    def evidence(fact: Fact) -> dict[str, str]:
        subject, object = graph.answers(fact.head)[0], graph.answers(fact.tail)[0]
        return {"subject": subject, "relation": fact.relation, "object": object, "url": fact.url, "quote": fact.quote}

    return Question(
        id=f"{world}-graph-{seed}-{number}",
        text=draft.text,
        answers=draft.answers,
        hops=draft.hops,
        meta={
            "maker": MAKER,
            "maker_version": MAKER_VERSION,
            "capability": draft.capability.value,
            "form": draft.form,
            "uniqueness": graph.uniqueness.value,
            "depth": draft.depth,
            "path": list(draft.path),
            "facts": [evidence(fact) for fact in draft.facts],
            "world": world,
            "fingerprint": fingerprint,
            "seed": seed,
            **draft.extra,
        },
    )
