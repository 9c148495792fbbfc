"""A snippet: where a page has the words of a query, in one line.

It is the window of words whose distinct query terms weigh most (rare terms weigh more), earliest first; it opens at a sentence
where one is near, closes at one where the window allows, and an ellipsis says where text was cut, as live engines do. It is no
wider than live ones: of 7,198 recorded ones nine in ten have at most 163 characters, or 97 of a script without spaces. Links
are shown as their words; everything else is as the page has it, because what looks like a mark may be code.

A long page is not laid out whole: its bytes are searched for the words, and only the lines around the best place are laid out.
"""

import re
from bisect import bisect_right
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from sanderling.world.disk.pages import Listed
from sanderling.world.text import WORD, Flow, flow, normal, plain, word_bytes

_LONGEST = 200_000  # bytes of a page that are searched
_LEAD_IN = 3  # words shown before a match whose sentence begins too far back
_SENTENCE_SHARE = 0.25
_UNIT = 1 << 20  # weights are counted in whole parts of one, so that sums do not depend on their order
_REPEAT = _UNIT // 1_000
_MOST_REPEATS = 10
_WIDTH = 165  # most characters of a snippet of up to 30 words; longer ones may have as many for each word
_MOST_WIDTHS = 4  # up to which a single word wider than a snippet is shown; of the signs around the words, one each
_BEFORE, _AFTER, _TO_LINE_END = 2, 4, 2  # widths of a snippet that are laid out around its matches; addresses count there
_LAID_OUT = _BEFORE + _AFTER + _TO_LINE_END  # up to which a page is laid out whole
_LONGEST_ADDRESS = 300
_LAST_ASCII = 127
_END_OF_ADDRESS = re.compile(rb"[\s)]")
_REST_OF_LINK = re.compile(rb"[^\[\]\n]*\]\([^()\s]*\)|[^\[\]()\s]*\)")

Match = tuple[int, str]  # where a word is, and its term


@dataclass(frozen=True, slots=True, eq=False)
class Source:
    """A page as it is searched for snippets."""

    page: Listed
    text: bytes  # a line break before and after
    searched: bytes | Flow  # its `word_bytes`; a short page is laid out whole


def source(page: Listed) -> Source:
    """Prepare a page."""
    text = b"\n" + page.text[:_LONGEST] + b"\n"
    if len(text) - 2 < _LAID_OUT * _WIDTH:
        return Source(page, text, flow(_shown(page, text, 1, len(text) - 1)))
    return Source(page, text, word_bytes(text))


def snippet(page: Source, weights: Mapping[str, float], most_words: int) -> str:
    """At most ``most_words`` words of the page; of a script without spaces, as many characters as are as wide."""
    width = max(_WIDTH, most_words * _WIDTH // 30)
    laid_out, terms, begins, ends = _stretch(page, weights, width)
    total = len(laid_out.starts)
    if not total:
        return laid_out.text[:200].strip()
    opens = laid_out.opens if begins else laid_out.opens - {0}
    if laid_out.unspaced:  # characters twice as wide, each a word of its own
        width //= 2
        most_words = max(most_words, width * most_words // 30)
    most_words = max(min(most_words, width * total // len(laid_out.text)), 1)
    begin, first, last = _best_window(_found(laid_out, terms), weights, most_words, opens)
    if laid_out.ends[first] - laid_out.starts[begin] > _MOST_WIDTHS * width:  # signs without end stand between the two
        begin = first
    fits = max(int(laid_out.ends.searchsorted(laid_out.starts[begin] + width, side="right")), first + 1)
    end = min(begin + most_words, fits, total)
    if end != total and end not in opens:  # a sentence ends in the last third of the window, after the last match
        least = max(min(last, end - 1), begin + (end - begin) * 2 // 3)
        end = next((stop for stop in range(end - 1, least, -1) if stop in opens), end)
    borders = opens | ({0} if begins else set()) | ({total} if ends else set())
    return _cut(laid_out, begin, end, width, borders)


# The stretch of a page that is laid out.


def _stretch(page: Source, weights: Mapping[str, float], width: int) -> tuple[Flow, Collection[str], bool, bool]:
    """The lines around the best window, of so many bytes; the terms that may be there; whether lines begin and end with it."""
    if isinstance(page.searched, Flow):
        return page.searched, weights, True, True
    text = page.text
    start, end = 1, len(text) - 1
    terms: Collection[str] = weights
    if end > _LAID_OUT * width:
        matches = _matches(page.searched, weights)
        within = [match for match in matches if not _in_address(text, match[0])] if b"](" in text else matches
        first, _, last = _best_window(within, weights, width)
        start, end = _begin(text, max(first, 1), _BEFORE * width), _end(text, last, _AFTER * width, _TO_LINE_END * width)
        if text.find(b"](", start, end) < 0:  # else words may come together
            terms = {term for _, term in matches}
    return flow(_shown(page.page, text, start, end)), terms, text[start - 1 : start] == b"\n", text[end : end + 1] == b"\n"


def _shown(page: Listed, text: bytes, start: int, end: int) -> str:
    """A part of a page; a first heading that only repeats the title is left out."""
    shown = text[start:end].decode("utf-8", "ignore")
    if start == 1:
        head, _, rest = shown.lstrip().partition("\n")
        if " ".join(plain(head).lstrip("#").split()).casefold() == " ".join(page.title.split()).casefold():
            return rest
    return shown


def _begin(text: bytes, place: int, most: int) -> int:
    """Where the line of a place begins, or a word not too far before it, outside of links."""
    least = max(place - most, 0)
    if (line := text.rfind(b"\n", least, place)) >= 0:
        return line + 1
    start = text.find(b" ", least, place) + 1 or place
    link = _REST_OF_LINK.match(text, start, place)
    return link.end() if link else start


def _end(text: bytes, place: int, least: int, more: int) -> int:
    """Where a line ends not too far behind a place, or a word."""
    if place + least >= len(text):
        return len(text) - 1
    line = text.find(b"\n", place + least, place + least + more)
    space = text.rfind(b" ", place, place + least)
    return line if line >= 0 else space if space > place else place + least  # a script without spaces is cut anywhere


def _matches(words: bytes, terms: Collection[str]) -> list[Match]:
    """Where in some `word_bytes` the words are that have one of some terms, in order; addresses of links count, too."""
    found: list[Match] = []
    for term in filter(str.isascii, terms):
        begins, forms = _forms(term)
        at = words.find(begins)
        while at >= 0:
            if words.startswith(forms, at):
                found.append((at + 1, term))
            at = words.find(begins, at + len(begins) - 1)
    if not words.isascii():
        found += _not_ascii(words, terms)
    found.sort()
    return found


def _not_ascii(words: bytes, terms: Collection[str]) -> Iterator[Match]:
    """The matches among words that hold other than ASCII letters."""
    places = (np.frombuffer(words, np.uint8) > _LAST_ASCII).nonzero()[0]
    end = 0
    for place in places[np.diff(places, prepend=-2) > 1].tolist():
        if place < end:
            continue
        start, end = words.rfind(b" ", 0, place) + 1, words.find(b" ", place)
        stretch = words[start:end].decode("utf-8", "replace")
        for word in WORD.finditer(stretch):
            if (term := normal(word[0])) in terms:
                yield start + len(stretch[: word.start()].encode()), term


@lru_cache(maxsize=10_000)
def _forms(term: str) -> tuple[bytes, tuple[bytes, ...]]:
    """How the ASCII words begin that have an ASCII term, and these words, with spaces around them."""
    forms = [form for form in (term, f"{term}s", f"{term[:-1]}ies") if normal(form) == term]
    begins = term[:-1] if term.endswith("y") and len(term) > 1 else term
    return f" {begins}".encode(), tuple(f" {form} ".encode() for form in forms)


def _in_address(text: bytes, place: int) -> bool:
    opened = text.rfind(b"](", max(place - _LONGEST_ADDRESS, 0), place)
    return opened >= 0 and not _END_OF_ADDRESS.search(text, opened + 2, place)


# Windows, and how they are cut.


def _best_window(
    matches: Sequence[Match], weights: Mapping[str, float], size: int, opens: Collection[int] | None = None
) -> tuple[int, int, int]:
    """The begin of the best window, and the first and last match in it; zeros when nothing matches.

    Windows begin at a match; where it is known what ``opens`` a sentence, at the sentence of one, which is worth a part of the
    heaviest term, or a little before one.
    """
    if not matches:
        return 0, 0, 0
    begins = {place for place, _ in matches}
    if opens is not None:
        lead, opening = min(_LEAD_IN, size - 1), sorted({0, *opens})
        sentences = {place: opening[bisect_right(opening, place) - 1] for place in begins}
        begins = {max(place - lead, 0) for place in begins}
        begins |= {sentence for place, sentence in sentences.items() if place - sentence < size}
    units = {term: round(weights[term] * _UNIT) for term in {term for _, term in matches}}
    bonus = round(_SENTENCE_SHARE * _UNIT * max(weights.values()))
    inside = dict.fromkeys(units, 0)
    value = first = end = best = 0
    window = (0, 0, 0)
    for begin in sorted(begins):
        while end < len(matches) and matches[end][0] < begin + size:
            term = matches[end][1]
            value += 0 if inside[term] else units[term]
            inside[term] += 1
            end += 1
        while matches[first][0] < begin:
            term = matches[first][1]
            inside[term] -= 1
            value -= 0 if inside[term] else units[term]
            first += 1
        total = value + _REPEAT * min(end - first, _MOST_REPEATS) + (bonus if opens and begin in opens else 0)
        if total > best:
            best, window = total, (begin, matches[first][0], matches[end - 1][0])
    return window


def _found(flow: Flow, terms: Collection[str]) -> list[Match]:
    """The numbers of the words that have one of some terms, in order, and the terms there."""
    found = _matches(flow.words, terms)
    places = [at - 1 for at, _ in found]
    if found and not flow.text.isascii():
        text = flow.text.encode()
        places = [len(text[:at].decode()) for at in places]
    return [(number, term) for number, (_, term) in zip(flow.starts.searchsorted(places).tolist(), found, strict=True)]


def _cut(flow: Flow, begin: int, end: int, width: int, borders: Collection[int]) -> str:
    """The words from one to before another; an ellipsis where that is no border of sentences."""
    start_char, stop_char = 0, len(flow.text)
    if begin:
        seek = flow.text.find if begin in borders else flow.text.rfind  # the marks of a line belong to it
        space = seek(" ", flow.ends[begin - 1], flow.starts[begin])
        start_char = space + 1 if space >= 0 else flow.starts[begin]
    if end < len(flow.starts):
        space = flow.text.find(" ", flow.ends[end - 1], flow.starts[end])
        stop_char = space if space >= 0 else flow.ends[end - 1]
    least_char, most_char = flow.starts[begin] - width, flow.ends[end - 1] + width
    most_char = min(most_char, flow.starts[begin] + _MOST_WIDTHS * width)
    body = flow.text[max(start_char, least_char) : min(stop_char, most_char)].strip()
    before = "" if begin in borders and start_char >= least_char else "… "
    after = "" if end in borders and stop_char <= most_char else " …"
    return before + body + after
