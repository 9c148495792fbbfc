"""Page text as words: the one tokenisation of index, queries, snippets and extracts; plain words with places; sentences.

A term is lower case, without accents and vowel points that a writer may leave out, its English plural ending removed (Harman's
S-stemmer, 1991). Chinese, Japanese and Thai-like scripts have no spaces: each character is a word of its own, and neighbours
also form a pair. Pages are Markdown: snippets and extracts are cut from what a reader would see.
"""

import re
import unicodedata
from bisect import bisect_left
from collections.abc import Iterable
from functools import cache, lru_cache
from itertools import accumulate, groupby, pairwise
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

CJK = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
_KNOWN = 0x3000
_IS_CJK = re.compile(rf"[{CJK}]")
_JOINS = [
    code for code in range(0x300, _KNOWN) if unicodedata.category(chr(code)) in ("Mn", "Mc") and not _IS_CJK.match(chr(code))
]
_RUNS = [[code for _, code in run] for _, run in groupby(enumerate(_JOINS), lambda numbered: numbered[1] - numbered[0])]
_JOINED = "".join(f"{chr(run[0])}-{chr(run[-1])}" for run in _RUNS)
"""Marks that belong to the letter before them: accents, points of Hebrew and Arabic, vowel signs of India."""
WORD = re.compile(rf"[{CJK}]|[^\W_{CJK}]+(?:[{_JOINED}]+[^\W_{CJK}]*)*")
_NO_SIGN = re.compile(rf"[\w{CJK}{_JOINED}{chr(_KNOWN)}-\U0010ffff]")  # of what is beyond ASCII
_MARKS = re.compile("[\u0300-\u036f\u0591-\u05c7\u0610-\u061a\u0640\u064b-\u065f\u0670\u06d6-\u06ed]+")
"""Marks that a writer may leave out: accents, Hebrew points, Arabic vowels. Vowel signs of India are none of these."""
_NO_TERM = re.compile(r"[^a-z0-9\u0080-\U0010ffff]+|\s+")
_WORD_BYTES = bytes(
    ord(chr(byte).lower()) if byte < 128 and chr(byte).isalnum() else 32 if byte < 128 else byte for byte in range(256)
)
"""Bytes of UTF-8: ASCII letters in lower case, other ASCII as spaces, the rest as it is."""
ASCII_WORDS = bytes(byte if byte < 128 else 32 for byte in _WORD_BYTES)  # the rest as spaces, too
_IES = re.compile(r"ies (?<=[b-df-z0-9]ies )")
_S = re.compile(r"s (?<=[a-z0-9]{3}s )(?<![us]s )(?<![aeo]es )")
_SPACE, _LETTER = ord(" "), 1
_LEADING, _OF_THREE, _OF_FOUR = 0xC0, 0xE0, 0xF0  # bytes of UTF-8 from which on characters begin, of so many bytes
_LAST_ASCII = 127
_MOSTLY_ASCII = 8
"""Up to one byte in so many beyond one for each character: words are looked at one by one only where they are not ASCII."""
_STOP_TEXT = """
a about after all also an and any are as at be been before but by can could did do does for from had has have he her his
how i if in into is it its me my no not of on one or our out s she so some such t than that the their them then there
these they this those to up was we were what when where which while who whom whose why will with would you your
"""
STOP_WORDS = frozenset([*_STOP_TEXT.split(), "thi"])  # as they are written and as terms
_STOP_CJK = frozenset("的了是在和与及のはがをに")
_ADDRESS = r"\(((?:[^()\s]++|\([^()\s]*+\))*+)(?:\s+\"[^\"]*\")?\)"
_IMAGE = re.compile(rf"!\[([^\[\]]*+)\]{_ADDRESS}")
_LINK = re.compile(rf"\[(?:(?<![\w)\]]\[)|(?=[^\[\]]*+\]\((?:[A-Za-z]+:|[/#])))([^\[\]]*+)\]{_ADDRESS}")
"""A link; ``table[key](item)`` is code, unless what is in the parentheses is a whole address."""
_OPENS = r"[\s(.。！？」』]"
_TWO, _THREE = "Mr|Ms|Dr|St|No|pp|ed|Ed|Jr|Sr|vs|cf|ca|Bd", "Mrs|vol|Vol|geb"
_NOT_ABBREVIATED = rf"(?<!{_OPENS}[^\W\d_]\.)(?<!{_OPENS}(?:{_TWO})\.)(?<!{_OPENS}(?:{_THREE})\.)(?<!{_OPENS}Prof\.)"
_SENTENCE_END = re.compile(
    rf"[.!?。！？](?:(?<=[.!?])(?=[\"')\]»”’\s]){_NOT_ABBREVIATED}[\"')\]»”’]*\s+(?=[^a-z\s])|(?<=[。！？])[。！？]*[」』”’）]*\s*)"
)
_UNUSUAL = re.compile(r"[^\x20-\x7e\n\r\t\f\v\x80-\x9f]")
_NOISE = ("Cc", "Cn", "Co", "Cs")
_ENDS_WITHOUT_SPACE = "。！？"
_SAMPLE = 20_000
_NOISE_SHARE = 0.05
_UNSPACED = 2.5  # characters a word, at most, of a text in a script without spaces


@lru_cache(maxsize=200_000)
def normal(word: str) -> str:
    """The term of one word as it stands in a text."""
    return _stemmed(f"{_lower(word)} ").rstrip(" ")


@lru_cache(maxsize=200_000)
def _lower(word: str) -> str:
    """One word in lower case, without what a writer may leave out."""
    if not word.isascii():
        folded = unicodedata.normalize("NFC", _MARKS.sub("", unicodedata.normalize("NFKD", word.casefold())))
        word = _NO_TERM.sub("", folded.lower()) or word
    return word.lower()


def _stemmed(written: str) -> str:
    """Words in lower case, a space after each, without their plural endings."""
    return _S.sub(" ", _IES.sub("y ", written))


def is_cjk(word: str) -> bool:
    """Whether a word comes from a script without spaces."""
    return not word.isascii() and _IS_CJK.match(word) is not None


def term_text(text: str) -> str:
    """All terms of a text in order, separated by spaces: the fast form of ``normal`` over all that ``WORD`` finds."""
    return _stemmed(_written(text))


@lru_cache(maxsize=1)  # a page is indexed, then signed
def _written(text: str) -> str:
    """All words of a text as they are written, in lower case and without accents, spaces between them and at the end."""
    if not text.isascii():
        if len(text.encode("utf-8", "replace")) - len(text) > len(text) // _MOSTLY_ASCII:
            return _folded(text)
        text = " ".join([part if part.isascii() else _folded(part) for part in text.split()])
    return text.encode("utf-8").translate(_WORD_BYTES).decode("utf-8") + " "


def _folded(text: str) -> str:
    return " ".join([*map(_lower, WORD.findall(text)), ""])


def spans(text: str) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Where the words of a text begin and end, in the order of `words`."""
    if text.isascii():
        inside = np.frombuffer(f" {text} ".encode("ascii").translate(_WORD_BYTES), dtype=np.uint8) != _SPACE
    else:
        codes = np.frombuffer(f" {text} ".encode("utf-32-le", "surrogatepass"), dtype=np.uint32)
        inside = _kinds()[np.minimum(codes, _KNOWN)]
        if inside.max() > _LETTER:
            found = np.array([match.span() for match in WORD.finditer(text)], dtype=np.int32).reshape(-1, 2)
            return found[:, 0], found[:, 1]
    borders = _borders(inside).astype(np.int32)
    return borders[::2], borders[1::2]


def _borders(inside: NDArray[Any]) -> NDArray[np.intp]:
    return (inside[1:] != inside[:-1]).nonzero()[0]


@cache
def _kinds() -> NDArray[np.int8]:
    """For each of the first characters, and last for all others: 0 between words, 1 in words, 2 where only ``WORD`` knows."""
    kinds = np.array([WORD.match(chr(code)) is not None for code in range(_KNOWN + 1)], dtype=np.int8)
    for first, end in ((0xE00, 0xF00), (0x1000, 0x10A0), (0x1780, 0x1800), (_KNOWN, _KNOWN + 1)):
        kinds[first:end] = _LETTER + 1
    kinds[_JOINS] = _LETTER + 1
    return kinds


def word_bytes(text: bytes) -> bytes:
    """UTF-8 in as many bytes: ASCII letters in lower case, what is surely no part of a word as spaces, the rest as it is."""
    text = text.translate(_WORD_BYTES)
    if text.isascii():
        return text
    found = np.frombuffer(bytearray(text + b"  "), dtype=np.uint8)
    places = (found >= _LEADING).nonzero()[0]
    first, second, third = (found[places + n].astype(np.int32) & 63 for n in range(3))
    three, four = found[places] >= _OF_THREE, found[places] >= _OF_FOUR
    codes = np.where(three, (first & 15) << 12 | second << 6 | third, first << 6 | second)
    signs = _kinds()[np.where(four, _KNOWN, np.minimum(codes, _KNOWN))] == 0
    found[places[signs]] = found[places[signs] + 1] = found[places[signs & three] + 2] = _SPACE
    return found[:-2].tobytes()


def signs_beyond_ascii(text: bytes) -> bool:
    """Whether all that UTF-8 has beyond ASCII is surely no part of a word."""
    if text.isascii():
        return True
    found = np.frombuffer(text, dtype=np.uint8)
    return not _NO_SIGN.search(found[found > _LAST_ASCII].tobytes().decode("utf-8", "replace"))


def words(text: str) -> list[str]:
    """All terms in order; each character of a script without spaces is one."""
    return term_text(text).split()


def index_text(text: str) -> str:
    """What is indexed of a text, separated by spaces.

    Its terms; plurals also as they are written; in scripts without spaces, the pairs of neighbours.
    """
    folded = _written(text)
    more: list[str] = []
    for plural, ending, singular in ((_IES, "ies", "y "), (_S, "s", " ")):
        *before, last = plural.split(folded)
        more += [part[part.rfind(" ") + 1 :] + ending for part in before]
        folded = singular.join([*before, last])
    if not text.isascii() and _IS_CJK.search(text):
        more += [a + b for a, b in pairwise(folded.split()) if is_cjk(a) and is_cjk(b)]
    return " ".join([folded, *more])


def content_terms(text: str, most: int) -> tuple[str, ...]:
    """The first ``most`` distinct words of a text that say something; stop-words only when there is nothing else."""
    return _telling(words(text), most)


def query_terms(text: str, most: int) -> tuple[str, ...]:
    """As `content_terms`, but neighbouring characters of scripts without spaces are asked for as pairs only."""
    return _telling(_paired(words(text)), most)


def query_words(text: str, most: int) -> tuple[str, ...]:
    """As `query_terms`, each word as it is written."""
    return _telling(_paired(_written(text).split()), most)


def _paired(found: list[str]) -> list[str]:
    if all(map(str.isascii, found)):
        return found
    cjk = [False, *map(is_cjk, found), False]
    terms: list[str] = []
    for i, term in enumerate(found):
        if cjk[i + 1] and cjk[i + 2]:
            terms.append(term + found[i + 1])
        elif not (cjk[i + 1] and cjk[i]):
            terms.append(term)
    return terms


def _telling(terms: Iterable[str], most: int) -> tuple[str, ...]:
    distinct = dict.fromkeys(terms)
    content = [term for term in distinct if term not in STOP_WORDS and term not in _STOP_CJK]
    return tuple((content or list(distinct))[:most])


def clean(text: str) -> str:
    """The text without lone surrogates and null characters, which no file or model can hold."""
    if "\x00" in text:
        text = text.replace("\x00", "\ufffd")
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")


def is_text(text: str) -> bool:
    """False for binary noise: more than 5% of control, unassigned, private or replacement characters at the start."""
    sample = text[:_SAMPLE]
    if "\ufffd" not in sample and sample.replace("\n", "").isprintable():  # nearly every page, and quickly told
        return True
    unusual = [char for char in _UNUSUAL.findall(sample) if not char.isprintable() and unicodedata.category(char) in _NOISE]
    return len(unusual) + sample.count("\ufffd") <= len(sample) * _NOISE_SHARE


@lru_cache(maxsize=1)  # as above
def plain(text: str) -> str:
    """The text with links and images as their words; everything else stays as the page has it, for it may be code."""
    if "](" in text:
        text = _LINK.sub(itemgetter(1), _IMAGE.sub(itemgetter(1), text) if "![" in text else text)
    return text


def sentences(line: str) -> list[str]:
    """The sentences of one paragraph, spaces at the ends removed; abbreviations and initials do not end one."""
    line = " " + line
    cuts = [0, *(match.end() for match in _SENTENCE_END.finditer(line)), len(line)]
    parts = [line[start:end].strip() for start, end in pairwise(cuts)]
    return [part for part in parts if part]


def word_count(text: str) -> int:
    """Words; each character of a script without spaces is one."""
    return len(words(text))


class Flow(NamedTuple):
    """Plain text in one line, with the place of every word."""

    text: str
    words: bytes  # as `word_bytes`, a space before and after; as long as ``text`` where all beyond ASCII are signs
    starts: list[int]  # for each word the place in ``text`` where it begins
    ends: list[int]
    opens: frozenset[int]  # numbers of the words that open a sentence
    unspaced: bool  # whether most of it is in a script without spaces, in which words are single characters


def flow(text: str, *, signs_only: bool = False) -> Flow:
    """Lay out a text in one line; ``signs_only``: all that it has beyond ASCII are signs."""
    lines = [
        spaced
        for line in plain(text).splitlines()
        if (spaced := line.strip() if line.isprintable() and "  " not in line else " ".join(line.split()))
    ]
    joined = " ".join(lines)
    within: list[int] = []  # lines, where a sentence begins
    if not joined.isascii() and any(sign in joined for sign in _ENDS_WITHOUT_SPACE):
        lines = [part for line in lines for part in sentences(line)]
        joined = " ".join(lines)
    else:
        within = [match.end() - 1 for match in _SENTENCE_END.finditer(" " + joined)]
    begins = [*accumulate([len(line) + 1 for line in lines[:-1]], initial=0), *within]
    if signs_only or joined.isascii():
        found = f" {joined} ".encode("ascii", "replace").translate(_WORD_BYTES)
        borders = _borders(np.frombuffer(found, dtype=np.uint8) != _SPACE).tolist()
        starts, ends = borders[::2], borders[1::2]
    else:
        found = word_bytes(f" {joined} ".encode())
        starts, ends = (places.tolist() for places in spans(joined))
    opens = frozenset([bisect_left(starts, begin) for begin in begins]) - {len(starts)}
    unspaced = len(joined) < _UNSPACED * len(starts) and 2 * len(_IS_CJK.findall(joined)) > len(starts)
    return Flow(joined, found, starts, ends, opens, unspaced)
