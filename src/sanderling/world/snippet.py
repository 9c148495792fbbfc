"""Snippets: the few words of a page that show best why it was found.

The window of ``most_words`` words whose distinct query terms weigh most (rare terms weigh more), earliest first; it opens at a
sentence where one is near, closes at one where the window allows, and an ellipsis says where text was cut, as live engines do.
Query-aware and deterministic. Knows no index: weights are handed in.
"""

from bisect import bisect_left
from collections.abc import Mapping

from sanderling.world.text import Flow

_LEAD_WORDS = 3
"""Words shown before a match whose sentence begins too far back."""
_SENTENCE_SHARE = 0.25


def snippet(flow: Flow, weights: Mapping[str, float], most_words: int) -> str:
    """At most ``most_words`` words of the page.

    Args:
        flow: the page.
        weights: query term -> weight; two-character terms of scripts without spaces count by their characters.
        most_words: length of the window.

    """
    total = len(flow.terms)
    if not total:
        return flow.text[:200].strip()
    begin, last = _best_window(flow, weights, most_words)
    end = _close_at_sentence(flow, begin, last, min(begin + most_words, total))
    return _cut(flow, begin, end)


def _best_window(flow: Flow, weights: Mapping[str, float], most_words: int) -> tuple[int, int]:
    """First word and last matching word of the best window; (0, 0) when nothing matches.

    Windows begin at the sentence of a match, or a little before the match. Beginning at a sentence is worth a part of the
    heaviest term, so that a common word more does not cut a sentence in two.
    """
    places = [i for i, term in enumerate(flow.terms) if term in weights]
    if not places:
        return 0, 0
    bonus = _SENTENCE_SHARE * max(weights.values())
    best = (0.0, 0, 0)
    for begin in _beginnings(flow, places, most_words):
        inside = places[bisect_left(places, begin) : bisect_left(places, begin + most_words)]
        value = sum(weights[term] for term in dict.fromkeys(flow.terms[i] for i in inside)) + 1e-3 * min(len(inside), 10)
        value += bonus if begin in flow.opens else 0.0
        if value > best[0] + 1e-9:
            best = (value, begin, inside[-1])
    return best[1], best[2]


def _beginnings(flow: Flow, places: list[int], most_words: int) -> list[int]:
    """Where a window may begin, in order: every window holds at least one match."""
    opens = sorted(flow.opens)
    lead = min(_LEAD_WORDS, most_words - 1)
    found: set[int] = set()
    for place in places:
        sentence = opens[bisect_left(opens, place + 1) - 1] if opens else 0
        if place - sentence < most_words:
            found.add(sentence)
        found.add(max(place - lead, 0))
    return sorted(found)


def _close_at_sentence(flow: Flow, begin: int, last: int, end: int) -> int:
    """The end of a sentence in the last third of the window, after the last match; else the window's end."""
    if end == len(flow.terms) or end in flow.opens:
        return end
    for stop in range(end - 1, max(last, begin + (end - begin) * 2 // 3), -1):
        if stop in flow.opens:
            return stop
    return end


def _cut(flow: Flow, begin: int, end: int) -> str:
    total = len(flow.terms)
    if begin == 0:
        start_char = 0
    else:
        space = flow.text.rfind(" ", flow.ends[begin - 1], flow.starts[begin])
        start_char = space + 1 if space >= 0 else flow.starts[begin]
    if end == total:
        stop_char = len(flow.text)
    else:
        space = flow.text.find(" ", flow.ends[end - 1], flow.starts[end])
        stop_char = space if space >= 0 else flow.ends[end - 1]
    body = flow.text[start_char:stop_char].strip()
    before = "" if begin in flow.opens or begin == 0 else "… "
    after = "" if end == total or end in flow.opens else " …"
    return before + body + after
