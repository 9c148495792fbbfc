"""Makes questions from a graph: draws parts, hands them to generators in turn, checks what comes back, and keeps count.

The capability with the fewest questions has the next draw; one that finds nothing for long is given up. The same graph,
settings and seed give the same questions. No page of a question is masked: it is asked so that its pages are found and read.
"""

import random
import re
from collections import Counter
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field

from pydantic import Field, model_validator

from sanderling.core.config import Frozen
from sanderling.core.record import Question
from sanderling.synth.capabilities import GENERATORS, Capability, Draft, Range
from sanderling.synth.graph import DroppedError, FactGraph, sample_subgraph
from sanderling.synth.tree import canonical

MAKER, MAKER_VERSION = "graph", 5  # the version is raised whenever the same graph and seed give other questions
_PATIENCE = 1_000  # draws in a row without a question after which a capability is given up
_LEAST_AGAIN, _SHARE_AGAIN = 2, 50
"""Two questions may have one answer, or a fiftieth of all: hubs would otherwise answer too many."""
_MOST_WORDS, _LONGEST_ANSWER = 110, 240


class GraphSettings(Frozen):
    """Which questions are made of a graph."""

    count: int = Field(default=100, ge=1)  # questions to make
    size: Range = Range(5, 7)  # entities in the part of the graph behind a question
    hops: Range = Range(2, 5)  # facts that a question combines; groups have one more for each member
    capabilities: tuple[Capability, ...] = tuple(Capability)  # kinds of questions
    seed: int = 0  # random seed of the draws

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
    """The questions, and what became of the draws."""

    drafts: list[Draft] = field(default_factory=list)
    kept: Counter[Capability] = field(default_factory=Counter)
    dropped: Counter[str] = field(default_factory=Counter)


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
        try:
            made.drafts.append(_draw(graph, settings, capability, rng, asked))
        except DroppedError as dropped:
            made.dropped[str(dropped)] += 1
            misses[capability] += 1
            if misses[capability] >= _PATIENCE:
                open_to.remove(capability)
            continue
        misses[capability] = 0
        made.kept[capability] += 1
        progress(len(made.drafts))
    return made


def _draw(
    graph: FactGraph, settings: GraphSettings, capability: Capability, rng: random.Random, asked: Counter[Hashable]
) -> Draft:
    """One draw. ``asked``: how often each constraint and answer was asked about. Raises DroppedError."""
    part = sample_subgraph(graph, rng.randint(*settings.size), rng)
    draft = GENERATORS[capability](graph, part, settings.hops, rng)
    if draft is None:
        raise DroppedError("nothing of this form")
    most = max(_LEAST_AGAIN, settings.count // _SHARE_AGAIN)
    about = tuple(names[0] for names in draft.extra["items"]) if "items" in draft.extra else draft.answers
    key, pages = _key(draft), [graph.pages[fact.head, fact.relation, fact.tail] for fact in draft.facts]
    items = draft.extra["items"] if draft.form == "list" else []
    text, hidden = draft.text.casefold(), (*draft.answers, *(name for names in items for name in names))
    wrong = {
        "answer too long": len(draft.answers[0]) > _LONGEST_ANSWER,
        "names its answer": any(re.search(rf"(?<!\w){re.escape(each.casefold())}(?!\w)", text) for each in hidden),
        "one page has all its facts": draft.hops > 1 and set.intersection(*pages),
        "too few or many hops": not settings.hops.least <= draft.hops <= settings.hops.most,
        "question too long": len(draft.text.split()) > _MOST_WORDS,
        "same answer as others": (draft.form in ("chain", "tree") or not graph.complete) and asked[about] >= most,
        "repeated": asked[key],
    }
    if reason := next((reason for reason, is_wrong in wrong.items() if is_wrong), None):
        raise DroppedError(reason)
    asked.update((about, key))
    return draft


def _key(draft: Draft) -> Hashable:
    compared = draft.facts if draft.form == "difference" else ()
    trees = sorted((canonical(root) for root in draft.roots), key=repr)
    return ("constraints", tuple(trees), tuple(sorted(compared, key=repr)))


def question_of(graph: FactGraph, draft: Draft, *, world: str, fingerprint: str, seed: int, number: int) -> Question:
    """A draft as a question, numbered within its file, with its evidence and where it comes from."""
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
            "uniqueness": "proven" if graph.complete else "unchecked",
            "depth": draft.depth,
            "path": list(draft.path),
            "facts": [
                {
                    "subject": graph.answers(fact.head)[0],
                    "relation": fact.relation,
                    "object": graph.answers(fact.tail)[0],
                    "url": fact.url,
                    "quote": fact.quote,
                }
                for fact in draft.facts
            ],
            "world": world,
            "fingerprint": fingerprint,
            "seed": seed,
            **draft.extra,
        },
    )
