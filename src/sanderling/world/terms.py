"""Words of a text as search terms: the one tokenisation that index, queries, snippets and passages share.

A term is lowercase, without Latin diacritics, its English plural ending removed (Harman's S-stemmer, 1991). Chinese, Japanese
and Thai-like scripts have no spaces: each character is a word of its own, and neighbours also form a pair, so that a query
of two characters finds them side by side. Knows no index and no page.
"""

import re
import unicodedata
from collections.abc import Iterable
from functools import lru_cache
from itertools import pairwise

_CJK = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
WORD = re.compile(rf"[{_CJK}]|(?:(?![{_CJK}])[^\W_])+(?:[\u0300-\u036f]+(?:(?![{_CJK}])[^\W_])*)*")
_ASCII_WORD = re.compile(r"[a-z0-9]+")
_IS_CJK = re.compile(rf"[{_CJK}]")
_MARKS = re.compile("[\u0300-\u036f]+")

_STOP_TEXT = """
a about after all also an and any are as at be been before but by can could did do does for from had has have he her his
how i if in into is it its me my no not of on one or our out s she so some such t than that the their them then there
these they this those to up was we were what when where which while who whom whose why will with would you your
"""
STOP_WORDS = frozenset(_STOP_TEXT.split())
_STOP_CJK = frozenset("的了是在和与及のはがをに")


def _stem(word: str) -> str:
    if len(word) < 4 or word[-1] != "s" or word[-2] in "us":
        return word
    if word.endswith("ies") and word[-4] not in "ae":
        return word[:-3] + "y"
    if word.endswith("es") and word[-3] in "aeo":
        return word
    return word[:-1]


@lru_cache(maxsize=200_000)
def normal(word: str) -> str:
    """The term of one word as it stands in a text."""
    if not word.isascii():
        word = unicodedata.normalize("NFC", _MARKS.sub("", unicodedata.normalize("NFKD", word.casefold())))
    return _stem(word.lower())


def is_cjk(word: str) -> bool:
    """Whether a word comes from a script without spaces."""
    return not word.isascii() and _IS_CJK.match(word) is not None


def words(text: str) -> list[str]:
    """All terms in order; each character of a script without spaces is one."""
    if text.isascii():
        return [normal(word) for word in _ASCII_WORD.findall(text.lower())]
    return [normal(word) for word in WORD.findall(text)]


def pairs(found: list[str]) -> list[str]:
    """Neighbouring characters of scripts without spaces, as terms of two characters."""
    return [a + b for a, b in pairwise(found) if is_cjk(a) and is_cjk(b)]


def index_terms(text: str) -> list[str]:
    """What is indexed of a text: its words, and its pairs of characters."""
    found = words(text)
    return found if text.isascii() else found + pairs(found)


def _is_stop(term: str) -> bool:
    return term in STOP_WORDS or term in _STOP_CJK


def _first_content(terms: Iterable[str], most: int) -> tuple[str, ...]:
    distinct = dict.fromkeys(terms)
    content = [term for term in distinct if not _is_stop(term)]
    return tuple((content or list(distinct))[:most])


def content_terms(text: str, most: int) -> tuple[str, ...]:
    """The first ``most`` distinct words of a text that say something; stop-words only when there is nothing else."""
    return _first_content(words(text), most)


def query_terms(text: str, most: int) -> tuple[str, ...]:
    """As `content_terms`, but neighbouring characters of scripts without spaces are asked for as pairs only."""
    if text.isascii():
        return content_terms(text, most)
    found = words(text)
    cjk = [is_cjk(term) for term in found]
    terms: list[str] = []
    for i, term in enumerate(found):
        if cjk[i] and i + 1 < len(found) and cjk[i + 1]:
            terms.append(term + found[i + 1])
        elif not (cjk[i] and i > 0 and cjk[i - 1]):
            terms.append(term)
    return _first_content(terms, most)
