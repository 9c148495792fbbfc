"""A snippet: where a page has the words of a query, in one line.

It is the window of words whose distinct query terms weigh most (rare terms weigh more), earliest first; it opens at a sentence
where one is near, closes at one where the window allows, and an ellipsis says where text was cut, as live engines do. It is no
wider than live ones: of 7,198 recorded ones nine in ten have at most 163 characters, or 97 of a script without spaces. Links
are shown as their words; everything else is as the page has it, because what looks like a mark may be code.

A long page is not laid out whole: its bytes are searched for the words, the heaviest first, and only the lines around the best
place are laid out.
"""

import re
import sys
from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import accumulate
from operator import itemgetter
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sanderling.world.disk.pages import Listed
from sanderling.world.text import ASCII_WORDS, WORD, Flow, flow, normal, plain, signs_beyond_ascii, word_bytes

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
_LOWER_CASE = np.uint8(32)  # the bit
_LONG = 8_000  # bytes, from which on the heaviest words are looked for first
_MANY = 16  # places, from which on fewer are looked at one by one
_SIGNS = np.frombuffer(ASCII_WORDS, np.uint8) == ord(" ")
_COMMON = "etaoinsrhldcumfpgwybvkxjqz"  # letters, the most common first
_RAREST = 3  # letters of a word that are looked for
_NO_ADDRESS = b" \n)"  # some of what ends an address
_REST_OF_LINK = re.compile(rb"[^\[\]\n]*\]\([^()\s]*\)|[^\[\]()\s]*\)")

Match = tuple[int, str]  # where a word is, and its term


class Source(NamedTuple):
    """A page as it is searched for snippets."""

    page: Listed  # without its text
    text: bytes  # a line break before and after
    laid_out: Flow | None  # of a short page
    words: bytes  # where the text has letters beyond ASCII, its `word_bytes`, else itself
    table: bytes | None  # which makes words of these bytes
    has_links: bool


def source(page: Listed) -> Source:
    """Prepare a page."""
    text, page = b"".join((b"\n", page.text[:_LONGEST], b"\n")), Listed(page.url, page.title, page.date, b"")
    signs = signs_beyond_ascii(text)
    short = len(text) - 2 < _LAID_OUT * _WIDTH
    laid_out = flow(_shown(page, text, 1, len(text) - 1), signs_only=signs) if short else None
    words, table = (text, ASCII_WORDS) if signs else (word_bytes(text), None)
    return Source(page, text, laid_out, words, table, not short and b"](" in text)


def snippet(page: Source, weights: Mapping[str, float], most_words: int) -> str:
    """At most ``most_words`` words of the page; of a script without spaces, as many characters as are as wide."""
    width = max(_WIDTH, most_words * _WIDTH // 30)
    units = {term: round(weight * _UNIT) for term, weight in weights.items()}
    laid_out, begins, ends = _stretch(page, units, width)
    total = len(laid_out.starts)
    if not total:
        return laid_out.text[:200].strip()
    opens = laid_out.opens if begins else laid_out.opens - {0}
    if laid_out.unspaced:  # characters twice as wide, each a word of its own
        width //= 2
        most_words = max(most_words, width * most_words // 30)
    most_words = max(min(most_words, width * total // len(laid_out.text)), 1)
    bonus = round(_SENTENCE_SHARE * _UNIT * max(weights.values(), default=0.0))
    found = _found(laid_out, units)
    _, begin, first, last = _best(_windows(found, units, most_words, _begins(found, most_words, opens), opens, bonus))
    if laid_out.ends[first] - laid_out.starts[begin] > _MOST_WIDTHS * width:  # signs without end stand between the two
        begin = first
    fits = max(bisect_right(laid_out.ends, laid_out.starts[begin] + width), first + 1)
    end = min(begin + most_words, fits, total)
    if end != total and end not in opens:  # a sentence ends in the last third of the window, after the last match
        least = max(min(last, end - 1), begin + (end - begin) * 2 // 3)
        end = next((stop for stop in range(end - 1, least, -1) if stop in opens), end)
    return _cut(laid_out, begin, end, width, begin in opens if begin else begins, end in opens if end < total else ends)


# The stretch of a page that is laid out.


def _stretch(page: Source, units: Mapping[str, int], width: int) -> tuple[Flow, bool, bool]:
    """The lines around the best window, of so many bytes; whether lines begin and end with it."""
    if page.laid_out is not None:
        return page.laid_out, True, True
    text = page.text
    start, end = 1, len(text) - 1
    if end > _LAID_OUT * width:
        first, last = _best_place(page, units, width)
        start, end = _begin(text, max(first, 1), _BEFORE * width), _end(text, last, _AFTER * width, _TO_LINE_END * width)
    laid_out = flow(_shown(page.page, text, start, end), signs_only=page.table is not None)
    return laid_out, text[start - 1 : start] == b"\n", text[end : end + 1] == b"\n"


def _best_place(page: Source, units: Mapping[str, int], size: int) -> tuple[int, int]:
    """The first and last match of the best window of so many bytes; addresses of links do not count.

    The heaviest words are looked for on the whole page until no window without them can be the best, the others only where a
    window with them may be.
    """
    found = [] if page.table else _outside(page, _not_ascii(page.words, units))
    heaviest = max((units[term] for _, term in found), default=0)
    rest = sorted(filter(str.isascii, units), key=units.__getitem__)
    left = sum(units[term] for term in rest) + _REPEAT * _MOST_REPEATS
    if len(page.words) < _LONG:
        found += _outside(page, _matches(page.words.translate(page.table), rest))
        rest = []
    letters = np.frombuffer(page.words, np.uint8) | _LOWER_CASE
    while rest and heaviest <= left:
        term = rest.pop()
        left -= units[term]
        if matches := _outside(page, _on_page(page, letters, term)):
            found += matches
            heaviest = max(heaviest, units[term])
    found.sort()
    if rest:
        places = [place for place, _ in found]
        if len(found) > _MANY:
            windows = [*_windows(found, units, size, places)]
            least = max(windows)[0] - left
            places = [begin for worth, begin, _, _ in windows if worth >= least]
        found = _near(page, rest, found, places, size)
    return _best(_windows(found, units, size, [place for place, _ in found]))[2:]


def _on_page(page: Source, letters: NDArray[np.uint8], term: str) -> list[Match]:
    """The matches of an ASCII term on a page: where its rarest letters stand as they should, the word is looked at."""
    words, table = page.words, page.table
    length, longest, forms, rarest = _sought(term)
    end = max(len(letters) - length, 0)  # of where it may begin: a line break is last
    (at, letter), *more = rarest
    hits = letters[at : at + end] == letter
    for at, letter in more:
        hits &= letters[at : at + end] == letter
    places = hits.nonzero()[0]
    if len(places) > _MANY:  # the beginning of a short word is in the middle of many others
        places = places[_SIGNS[np.frombuffer(words, np.uint8)[places - 1]]]
    return [(place, term) for place in places.tolist() if words[place - 1 : place + longest].translate(table).startswith(forms)]


def _near(page: Source, terms: Collection[str], found: list[Match], places: Sequence[int], size: int) -> list[Match]:
    """The matches of ASCII terms, and those found of others, in windows of so many bytes that have some place in them."""
    longest = size + max(map(len, terms)) + 4
    starts, ends = list[int](), list[int]()
    for place in places:
        if ends and place - size < ends[-1]:
            ends[-1] = place + longest
        else:
            starts.append(max(place - size, 0))
            ends.append(place + longest)
    stretches = [page.words[start:end] for start, end in zip(starts, ends, strict=True)]
    joined = b"x".join(stretches).translate(page.table)  # no word goes over from one to the next
    begins = [0, *accumulate(len(stretch) + 1 for stretch in stretches)]
    near: list[Match] = []
    for at, term in _matches(joined, terms):
        stretch = bisect_right(begins, at) - 1
        near.append((starts[stretch] + at - begins[stretch], term))
    if len(places) < len(found):
        found = [match for match in found if match[0] < ends[bisect_right(starts, match[0]) - 1]]
    return sorted(found + _outside(page, near))


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
    """Where the words begin in some `word_bytes` that have one of some ASCII terms, in no order."""
    found: list[Match] = []
    for term in terms:
        begins, forms = _forms(term)
        at = words.find(begins)
        while at >= 0:
            if words.startswith(forms, at):
                found.append((at + 1, term))
            at = words.find(begins, at + len(begins) - 1)
    return found


def _not_ascii(words: bytes, terms: Collection[str]) -> list[Match]:
    """The matches among words that hold other than ASCII letters."""
    found: list[Match] = []
    places = (np.frombuffer(words, np.uint8) > _LAST_ASCII).nonzero()[0]
    end = 0
    for place in places[np.diff(places, prepend=-2) > 1].tolist():
        if place < end:
            continue
        start, end = words.rfind(b" ", 0, place) + 1, words.find(b" ", place)
        stretch = words[start:end].decode("utf-8", "replace")
        for word in WORD.finditer(stretch):
            if (term := normal(word[0])) in terms:
                found.append((start + len(stretch[: word.start()].encode()), term))
    return found


@lru_cache(maxsize=10_000)
def _forms(term: str) -> tuple[bytes, tuple[bytes, ...]]:
    """How the ASCII words begin that have an ASCII term, and these words, with spaces around them."""
    forms = [form for form in (term, f"{term}s", f"{term[:-1]}ies") if normal(form) == term]
    begins = term[:-1] if term.endswith("y") and len(term) > 1 else term
    return f" {begins}".encode(), tuple(f" {form} ".encode() for form in forms)


@lru_cache(maxsize=10_000)
def _sought(term: str) -> tuple[int, int, tuple[bytes, ...], list[tuple[int, np.uint8]]]:
    """How long the beginning and the whole of the words with an ASCII term are, these words, and the rarest letters."""
    begins, forms = _forms(term)
    letters = begins[1:]
    places = sorted(range(len(letters)), key=lambda at: _COMMON.find(chr(letters[at])), reverse=True)
    return len(letters), len(forms[-1]) - 1, forms, [(at, np.uint8(letters[at])) for at in places[:_RAREST]]


def _outside(page: Source, matches: list[Match]) -> list[Match]:
    """The matches that are in no address of a link."""
    if not page.has_links:
        return matches
    text = page.text
    return [match for match in matches if text[match[0] - 1] in _NO_ADDRESS or not _in_address(text, match[0])]


def _in_address(text: bytes, place: int) -> bool:
    opened = text.rfind(b"](", max(place - _LONGEST_ADDRESS, 0), place)
    return opened >= 0 and b")" not in (address := text[opened:place]) and address.split() == [address]


# Windows, and how they are cut.


def _windows(
    found: Sequence[Match],
    units: Mapping[str, int],
    size: int,
    begins: Iterable[int],
    opens: Collection[int] = (),
    bonus: int = 0,
) -> Iterator[tuple[int, int, int, int]]:
    """What each window is worth that begins at one of some places, in order; its begin, and the first and last match in it.

    A window that begins where one ``opens`` a sentence is worth a ``bonus``.
    """
    places, terms, inside = [place for place, _ in found], [term for _, term in found], dict.fromkeys(units, 0)
    places.append(sys.maxsize)
    value = first = end = 0
    for begin in begins:
        while places[end] < begin + size:
            term = terms[end]
            if not (count := inside[term]):
                value += units[term]
            inside[term] = count + 1
            end += 1
        while places[first] < begin:
            term = terms[first]
            inside[term] = count = inside[term] - 1
            if not count:
                value -= units[term]
            first += 1
        count = end - first
        worth = value + _REPEAT * (count if count < _MOST_REPEATS else _MOST_REPEATS)
        yield worth + bonus if begin in opens else worth, begin, places[first], places[end - 1]


def _best(windows: Iterable[tuple[int, int, int, int]]) -> tuple[int, int, int, int]:
    """The first of the best windows; zeros where there is none."""
    return max(windows, key=itemgetter(0), default=(0, 0, 0, 0))


def _begins(matches: Sequence[Match], size: int, opens: Collection[int]) -> list[int]:
    """Where windows may begin: at the sentence of a match, or a little before one."""
    lead, opening, begins = min(_LEAD_IN, size - 1), sorted({0, *opens}), set[int]()
    for place, _ in matches:
        begins.add(place - lead if place > lead else 0)
        sentence = opening[bisect_right(opening, place) - 1]
        if place - sentence < size:
            begins.add(sentence)
    return sorted(begins)


def _found(flow: Flow, terms: Collection[str]) -> list[Match]:
    """The numbers of the words that have one of some terms, in order, and the terms there."""
    found = _matches(flow.words, [*filter(str.isascii, terms)])
    if not flow.words.isascii():
        found += _not_ascii(flow.words, terms)
    if len(flow.words) > len(flow.text) + 2:  # bytes, not characters
        text = f" {flow.text}".encode()
        found = [(len(text[:at].decode()), term) for at, term in found]
    found.sort()
    return [(bisect_left(flow.starts, at - 1), term) for at, term in found]


def _cut(flow: Flow, begin: int, end: int, width: int, opens: bool, closes: bool) -> str:
    """The words from one to before another; an ellipsis where it neither ``opens`` nor ``closes`` with a sentence."""
    text, starts, ends = flow.text, flow.starts, flow.ends
    start_char, stop_char = 0, len(text)
    if begin:
        seek = text.find if opens else text.rfind  # the marks of a line belong to it
        space = seek(" ", ends[begin - 1], starts[begin])
        start_char = space + 1 if space >= 0 else starts[begin]
    if end < len(starts):
        space = text.find(" ", ends[end - 1], starts[end])
        stop_char = space if space >= 0 else ends[end - 1]
    least_char = starts[begin] - width
    most_char = min(ends[end - 1] + width, starts[begin] + _MOST_WIDTHS * width)
    body = text[max(start_char, least_char) : min(stop_char, most_char)].strip()
    before = "" if opens and start_char >= least_char else "… "
    after = "" if closes and stop_char <= most_char else " …"
    return before + body + after
