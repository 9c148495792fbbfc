"""Snippets: the few words of a page that show best why it was found.

The window of ``most_words`` words whose distinct query terms weigh most (rare terms weigh more), earliest first; it opens at a
sentence where one is near, closes at one where the window allows, and an ellipsis says where text was cut, as live engines do.
A snippet is no wider than live ones are: of 7,198 recorded ones nine in ten have at most 163 characters, or 97 of a script
without spaces, whose words are single characters. Query-aware and deterministic. Knows no index: weights are handed in.
"""

from collections.abc import Iterable, Mapping

from sanderling.world.terms import term_starts
from sanderling.world.text import Flow

_LEAD_WORDS = 3
"""Words shown before a match whose sentence begins too far back."""
_SENTENCE_SHARE = 0.25
_UNIT = 1 << 20
"""Weights are counted in whole parts of one, so that sums do not depend on their order."""
_REPEAT = _UNIT // 1_000
_MOST_REPEATS = 10
_WIDTH = 165
"""Most characters of a snippet of up to 30 words; longer ones may have as many for each word."""
_MOST_WIDTHS = 4
"""A single word wider than a snippet is shown up to so many widths; of the signs before and after the words, one each."""


def snippet(flow: Flow, weights: Mapping[str, float], most_words: int) -> str:
    """At most ``most_words`` words of the page.

    Args:
        flow: the page.
        weights: query term -> weight; two-character terms of scripts without spaces count by their characters.
        most_words: length of the window; of a script without spaces, as many characters as are as wide.

    """
    total = len(flow.starts)
    if not total:
        return flow.text[:200].strip()
    width = max(_WIDTH, most_words * _WIDTH // 30)
    if flow.unspaced:  # characters twice as wide, each a word of its own
        width //= 2
        most_words = max(most_words, width * most_words // 30)
    most_words = max(min(most_words, width * total // len(flow.text)), 1)
    begin, first, last = _best_window(flow, weights, most_words)
    if flow.ends[first] - flow.starts[begin] > _MOST_WIDTHS * width:  # signs without end stand between the two
        begin = first
    fits = max(int(flow.ends.searchsorted(flow.starts[begin] + width, side="right")), first + 1)
    end = min(begin + most_words, fits, total)
    end = _close_at_sentence(flow, begin, min(last, end - 1), end)
    return _cut(flow, begin, end, width)


def _best_window(flow: Flow, weights: Mapping[str, float], most_words: int) -> tuple[int, int, int]:
    """First word, first and last matching word of the best window; zeros when nothing matches.

    Windows begin at the sentence of a match, or a little before the match. Beginning at a sentence is worth a part of the
    heaviest term, so that a common word more does not cut a sentence in two; many matches are worth a little.
    """
    units = {term: round(weight * _UNIT) for term, weight in weights.items()}
    places, matches = _matches(flow, weights)
    if not places:
        return 0, 0, 0
    bonus = round(_SENTENCE_SHARE * _UNIT * max(weights.values()))
    inside = dict.fromkeys(units, 0)
    value = first = end = best = 0
    window = (0, 0, 0)
    for begin in _beginnings(flow, places, most_words):
        while end < len(places) and places[end] < begin + most_words:
            term = matches[end]
            if not inside[term]:
                value += units[term]
            inside[term] += 1
            end += 1
        while places[first] < begin:
            term = matches[first]
            inside[term] -= 1
            if not inside[term]:
                value -= units[term]
            first += 1
        total = value + _REPEAT * min(end - first, _MOST_REPEATS) + (bonus if begin in flow.opens else 0)
        if total > best:
            best, window = total, (begin, places[first], places[end - 1])
    return window


def _matches(flow: Flow, terms: Iterable[str]) -> tuple[list[int], list[str]]:
    """The numbers of the words that are one of some terms, in order, and the terms there."""
    found: list[tuple[int, str]] = []
    for term in terms:
        sought = f" {term} "
        at = flow.terms.find(sought)
        while at >= 0:
            found.append((at + 1, term))
            at = flow.terms.find(sought, at + len(sought) - 1)
    found.sort()
    places = term_starts(flow.terms).searchsorted([at for at, _ in found])
    return places.tolist(), [term for _, term in found]


def _beginnings(flow: Flow, places: list[int], most_words: int) -> list[int]:
    """Where a window may begin, in order: every window holds at least one match."""
    lead = min(_LEAD_WORDS, most_words - 1)
    found = {max(place - lead, 0) for place in places}
    opens = iter(sorted(flow.opens))
    sentence, after = 0, next(opens, len(flow.starts))
    for place in places:
        while after <= place:
            sentence, after = after, next(opens, len(flow.starts))
        if place - sentence < most_words:
            found.add(sentence)
    return sorted(found)


def _close_at_sentence(flow: Flow, begin: int, last: int, end: int) -> int:
    """The end of a sentence in the last third of the window, after the last match; else the window's end."""
    if end == len(flow.starts) or end in flow.opens:
        return end
    for stop in range(end - 1, max(last, begin + (end - begin) * 2 // 3), -1):
        if stop in flow.opens:
            return stop
    return end


def _cut(flow: Flow, begin: int, end: int, width: int) -> str:
    total = len(flow.starts)
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
    least_char, most_char = flow.starts[begin] - width, flow.ends[end - 1] + width
    most_char = min(most_char, flow.starts[begin] + _MOST_WIDTHS * width)
    body = flow.text[max(start_char, least_char) : min(stop_char, most_char)].strip()
    before = "" if (begin in flow.opens or begin == 0) and start_char >= least_char else "… "
    after = "" if (end == total or end in flow.opens) and stop_char <= most_char else " …"
    return before + body + after
