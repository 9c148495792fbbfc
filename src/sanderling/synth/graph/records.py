"""From drafts to the questions of a file, each with its evidence and where it comes from.

No page is masked. A question of several hops is asked so that its pages are found and read: each fact stands on a page that the
reader needs, mostly on that one alone, and no page holds them all (`checks.on_one_page`). What would be a short cut on a
page that is not needed is masked where the graph's maker knows of it (`Draft.hidden`). Knows no world.
"""

from sanderling.core.record import Question
from sanderling.synth.graph.contract import Fact, Uniqueness
from sanderling.synth.graph.draft import Draft
from sanderling.synth.graph.ground import Ground
from sanderling.synth.graph.query import object_of, subject_of

MAKER = "graph"
MAKER_VERSION = 5
"""Raised whenever the same graph and seed give other questions."""


def question_of(
    ground: Ground, draft: Draft, sure: Uniqueness, *, world: str, fingerprint: str, seed: int, number: int
) -> Question:
    """One question, numbered within its file."""
    return Question(
        id=f"{world}-graph-{seed}-{number}",
        text=draft.text,
        answers=draft.answers,
        masked_urls=draft.hidden,
        hops=draft.hops,
        meta={
            "maker": MAKER,
            "maker_version": MAKER_VERSION,
            "capability": draft.capability.value,
            "form": draft.form,
            "uniqueness": sure.value,
            "depth": draft.depth,
            "path": list(draft.path),
            "facts": [_evidence(ground, fact) for fact in draft.facts],
            "world": world,
            "fingerprint": fingerprint,
            "seed": seed,
            **draft.extra,
        },
    )


def _evidence(ground: Ground, fact: Fact) -> dict[str, str]:
    return {
        "subject": ground.answers(subject_of(fact))[0],
        "relation": fact.relation,
        "object": ground.answers(object_of(fact))[0],
        "url": fact.url,
        "quote": fact.quote,
    }
