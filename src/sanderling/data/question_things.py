"""What a question is about, as far as writing tells: its numbers and its names. Two that differ in them are two questions.

"The mayor of the home town of the potter Nolhum" and "… of the potter Belkor" have nearly all their words in common, and so
have all questions of one template. They are told apart by this rule: *other numbers* on either side, or *other names on both
sides*. A name that only one side has may just say more ("in Oslo, Norway"). Names are words with a capital that begin no
sentence, all words in quotation marks, and symbols. Where nearly every word has a capital (a headline, a shout), capitals tell
nothing; neither do they in small letters and in scripts without them, where only numbers, symbols and quotation marks are left.
Nouns of German are names here: its paraphrases are more often taken for other questions. Pure; knows no language.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import pairwise

from sanderling.core.text import question_tokens

_WORD = re.compile(r"[^\W\d_][\w'’.+#-]*")
_QUOTED = re.compile('"([^"\n]{1,200})"|“([^”\n]{1,200})”|«([^»\n]{1,200})»|「([^」\n]{1,200})」|《([^》\n]{1,200})》')
_OWNING = re.compile(r"['’][sS]?$")
_ENDING = re.compile(r"[.?!:;…。？！]")
_SHORT = 4
"""Letters of an abbreviation such as "St." or "Prof.", after which no sentence begins."""
_FEWEST, _MOST_SHARE = 3, 0.8
"""From so many words after the first on, so large a share with capitals means nothing."""


@dataclass(frozen=True, slots=True)
class Things:
    """What one question is about."""

    words: str
    """Its normal form."""
    names: Mapping[str, int] = field(default_factory=dict[str, int])
    """Words of names, without the ending of "Norway's", and how often each stands in the question."""

    def differ(self, other: "Things") -> bool:
        """Whether the two are about other things, however alike they read."""
        if _numbers(self.words) != _numbers(other.words):
            return True
        return _has_other_name(self, other) and _has_other_name(other, self)


def things_of(words: str, texts: Iterable[str]) -> Things:
    """What texts of one normal form are about: a name in one of them is a name.

    Example: ``things_of("whos mayor of askims port", ["Who's mayor of Askim's port?"]).names == {"askim": 1}``
    """
    said_words = words.split()
    names = {word: word for word in said_words if not word.isalnum() and word[0] not in "-0123456789"}
    for text in texts:
        for said in _named(text):
            bare = question_tokens(_OWNING.sub("", said))
            names |= dict(zip(question_tokens(said), bare, strict=False))
    return Things(words, Counter(names[word] for word in said_words if word in names))


def _named(text: str) -> list[str]:
    """The words of names, as they are written."""
    quoted = [word for found in _QUOTED.findall(text) for part in found for word in part.split()]
    found = list(_WORD.finditer(text))
    later = [match[0] for match in found[1:]]
    capitals = sum(word[0].isupper() for word in later)
    if len(later) >= _FEWEST and capitals >= _MOST_SHARE * len(later):
        return quoted
    begin = {0}
    for number, (one, other) in enumerate(pairwise(found), start=1):
        said = one[0].rstrip(".")
        is_short = said[:1].isupper() and len(said) <= _SHORT
        between = "." * one[0].endswith(".") + text[one.end() : other.start()]
        if _ENDING.search(between.replace(".", "") if is_short else between):
            begin.add(number)
    return quoted + [
        match[0]
        for number, match in enumerate(found)
        if (match[0][0].isupper() and number not in begin) or any(char.isupper() for char in match[0][1:])
    ]


def _has_other_name(one: Things, other: Things) -> bool:
    """Whether the first names what the second does not, or not as often."""
    words = _set(other.words)
    for name, count in one.names.items():
        unnamed = other.words.split().count(name) if name in words else 0
        if count > other.names.get(name, unnamed):
            return True
    return False


@lru_cache(maxsize=16_384)
def _set(words: str) -> frozenset[str]:
    return frozenset(words.split())


@lru_cache(maxsize=16_384)
def _numbers(words: str) -> frozenset[str]:
    return frozenset(word for word in words.split() if any(char in "0123456789" for char in word))
