"""Texts and hosts compared: overlap of words, near-duplicates within a list, concentration on few hosts. Pure functions.

Words are the index's own terms (`world.terms`: lower case, stemmed, a character of a script without spaces is one). A domain is
a host name without ``www.``: the list of public suffixes is not known here, so ``a.example.org`` and ``b.example.org`` are two.
"""

import math
from collections import Counter
from collections.abc import Iterable, Sequence

from sanderling.world.addresses import canonical_url
from sanderling.world.text import words

SHINGLE = 3
"""Words in a shingle."""


def jaccard(a: str, b: str) -> float | None:
    """Distinct words in both over distinct words in either; None when neither has a word."""
    return _share(set(words(a)), set(words(b)))


def containment(of: str, within: str) -> float | None:
    """Share of the distinct words of one text that another has too; None for a text without words."""
    needed = set(words(of))
    return len(needed & set(words(within))) / len(needed) if needed else None


def near_duplicates(texts: Sequence[str], at: float) -> float | None:
    """Share of the texts that nearly repeat an *earlier* one: Jaccard of 3-word shingles of at least ``at``.

    None for an empty list; a text without words repeats nothing.
    """
    if not texts:
        return None
    shingled = [_shingles(text) for text in texts]
    repeats = sum(
        any(bool(here) and (_share(here, before) or 0.0) >= at for before in shingled[:index])
        for index, here in enumerate(shingled)
    )
    return repeats / len(texts)


def domain(url: str) -> str:
    """The host of an address without ``www.``; empty for an address without a host."""
    _, found, rest = canonical_url(url).partition("://")
    host = rest.partition("/")[0].partition("?")[0].rpartition("@")[2] if found else ""
    return host.removeprefix("www.")


def top_share(counts: Counter[str], most: int) -> float | None:
    """Share of all that the ``most`` commonest names have; None for nothing."""
    total = counts.total()
    return sum(count for _, count in counts.most_common(most)) / total if total else None


def entropy_bits(counts: Iterable[int]) -> float | None:
    """Shannon entropy of shares, in bits (the plug-in estimate, which is low for small samples); None for nothing."""
    present = [count for count in counts if count > 0]
    total = sum(present)
    return sum(-c / total * math.log2(c / total) for c in present) + 0.0 if total else None


def _shingles(text: str) -> set[str]:
    """Runs of three words; of a shorter text, the whole."""
    found = words(text)
    if len(found) < SHINGLE:
        return {" ".join(found)} if found else set()
    return {" ".join(found[i : i + SHINGLE]) for i in range(len(found) - SHINGLE + 1)}


def _share(a: set[str], b: set[str]) -> float | None:
    either = len(a | b)
    return len(a & b) / either if either else None
