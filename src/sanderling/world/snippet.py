"""Snippets: the few words of a page that show best why it was found.

The window of ``most_words`` words whose distinct query terms weigh most (rare terms weigh more), earliest first; it opens at a
sentence where one is near, closes at one where the window allows, and an ellipsis says where text was cut, as live engines do.
Query-aware and deterministic. Knows no index: weights are handed in.
"""

from bisect import bisect_left
from collections.abc import Mapping

from sanderling.world.text import Flow

DEFAULT_WORDS = 30


def snippet(flow: Flow, weights: Mapping[str, float], most_words: int = DEFAULT_WORDS) -> str:
    """At most ``most_words`` words of the page.

    Args:
        flow: the page.
        weights: query term -> weight; two-character terms of scripts without spaces count by their characters.
        most_words: length of the window.

    """
    total = len(flow.terms)
    if not total:
        return flow.text[:200].strip()
    hits = [(i, weights[term]) for i, term in enumerate(flow.terms) if term in weights]
    first, last = _best_window(flow, hits, most_words)
    begin = _open_at_sentence(flow, first, last, most_words)
    end = min(begin + most_words, total)
    end = _close_at_sentence(flow, begin, last, end)
    return _cut(flow, begin, end)


def _best_window(flow: Flow, hits: list[tuple[int, float]], most_words: int) -> tuple[int, int]:
    """First and last matching word of the best window; (0, 0) when nothing matches."""
    best = (0.0, 0, 0)
    places = [i for i, _ in hits]
    for n, (start, _) in enumerate(hits):
        stop = bisect_left(places, start + most_words, lo=n)
        distinct = {flow.terms[i]: weight for i, weight in hits[n:stop]}
        value = sum(distinct.values()) + 1e-3 * min(stop - n, 10)
        if value > best[0] + 1e-9:
            best = (value, start, places[stop - 1])
    return best[1], best[2]


def _open_at_sentence(flow: Flow, first: int, last: int, most_words: int) -> int:
    """The opening of the sentence around ``first`` if the window then still reaches ``last``; else a little before."""
    slack = most_words - 1 - (last - first)
    for begin in range(first, max(first - slack, 0) - 1, -1):
        if begin in flow.opens:
            return begin
    return max(first - min(slack, 3), 0)


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
