"""What a draft must not be: a question that gives its answer, rests on one page, or goes on for too long. Pure functions."""

import re

from sanderling.synth.graph.draft import Draft, Dropped, Range
from sanderling.synth.graph.ground import Ground
from sanderling.synth.graph.query import object_of, subject_of
from sanderling.synth.graph.ways import FEWEST_STEPS, steps

_MOST_WORDS = 110
_LONGEST_ANSWER = 240


def fault(ground: Ground, draft: Draft, hops: Range) -> Dropped | None:
    """The first thing that is wrong with a draft; None when nothing is."""
    if not draft.is_unique:
        return Dropped.NOT_UNIQUE
    if any(len(answer) > _LONGEST_ANSWER for answer in draft.answers[:1]):
        return Dropped.LONG_ANSWER
    if gives_away(draft):
        return Dropped.NAMES_ANSWER
    if draft.hops > 1 and on_one_page(ground, draft):
        return Dropped.ONE_PAGE
    if (
        not ground.graph.complete
        and draft.form in ("chain", "tree")
        and steps(ground, draft.facts) < min(FEWEST_STEPS, hops.least)
    ):
        return Dropped.TOO_PLAIN
    if draft.hops < hops.least:
        return Dropped.TOO_FEW_HOPS
    if draft.hops > hops.most:
        return Dropped.TOO_MANY_HOPS
    if len(draft.text.split()) > _MOST_WORDS:
        return Dropped.TOO_LONG
    return None


def gives_away(draft: Draft) -> bool:
    """Whether an accepted answer, or an item of a list that is the answer, stands in the question as a word of its own."""
    items = draft.extra.get("items", []) if draft.form == "list" else []
    told = [*draft.answers, *(name for names in items for name in names)]
    text = draft.text.casefold()
    return any(re.search(rf"(?<!\w){re.escape(each.casefold())}(?!\w)", text) is not None for each in told)


def on_one_page(ground: Ground, draft: Draft) -> bool:
    """Whether some page states every fact that the question rests on."""
    pages = [ground.pages[(subject_of(fact), fact.relation, object_of(fact))] for fact in draft.facts]
    return bool(frozenset.intersection(*pages))
