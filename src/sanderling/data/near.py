"""Finding texts that are nearly the same, among many: MinHash with banding (the library `rensa`), then the true similarity.

Contract: what is found reaches the threshold in the Jaccard similarity of all shingles (compared by hashes of 64 bits); nothing
rests on the estimate alone. What is *missed* does: a pair of similarity s shares one of 32 bands of 4 positions with
probability 1 - (1 - s^4)^32, which is 0.9998 at 0.7 and 0.9999999 at 0.8. Deterministic: hashes are keyed by constants. Texts
come as their words with single spaces between them (:func:`~sanderling.core.text.normalised`). Memory: about
2 KB for each.
"""

import hashlib

import numpy as np
from numpy.typing import NDArray
from rensa import RMinHash, RMinHashLSH  # pyright: ignore[reportAttributeAccessIssue]

from sanderling.core.text import shingles

THRESHOLD = 0.7
LEAST_THRESHOLD = 0.5
"""Below it too many pairs share no band: what is missed there would not be worth the name."""
_POSITIONS = 128
_BANDS = 32
_SEED = 1

Hashes = NDArray[np.uint64]


class NearIndex:
    """Texts by number, counted from 0, and which of them are nearly equal to another."""

    def __init__(self) -> None:
        self._index = RMinHashLSH(threshold=THRESHOLD, num_perm=_POSITIONS, num_bands=_BANDS)
        self._hashes = np.zeros(1_024, dtype=np.uint64)
        """The shingles of all texts, one after the other."""
        self._ends = np.zeros(64, dtype=np.int64)
        """Where the text before ends: one more entry than there are texts."""
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def add(self, words: str) -> int:
        """Add a text; its number. A text without words is never found."""
        found = shingle_hashes(words)
        number, start = self._count, int(self._ends[self._count])
        while start + len(found) > len(self._hashes):
            self._hashes = np.concatenate((self._hashes, np.zeros_like(self._hashes)))
        if number + 2 > len(self._ends):
            self._ends = np.concatenate((self._ends, np.zeros_like(self._ends)))
        self._hashes[start : start + len(found)] = found
        self._ends[number + 1] = start + len(found)
        self._count += 1
        if words:
            self._index.insert(number, _signature(words))
        return number

    def near(self, words: str, threshold: float = THRESHOLD) -> list[tuple[int, float]]:
        """Texts that reach the threshold, by number, ascending, and how similar they are."""
        if not words:
            return []
        numbers = np.array(sorted(self._index.query(_signature(words))), dtype=np.int64)
        if not len(numbers):
            return []
        found = self._similarities(shingle_hashes(words), numbers)
        reached = found >= threshold
        return list(zip(numbers[reached].tolist(), found[reached].tolist(), strict=True))

    def _similarities(self, own: Hashes, numbers: NDArray[np.int64]) -> NDArray[np.float64]:
        """The true similarity to each of several texts, at once."""
        starts, sizes = self._ends[numbers], self._ends[numbers + 1] - self._ends[numbers]
        firsts = np.cumsum(sizes) - sizes
        places = np.repeat(starts - firsts, sizes) + np.arange(int(sizes.sum()))
        theirs = self._hashes[places]
        at = np.minimum(np.searchsorted(own, theirs), len(own) - 1)
        common = np.add.reduceat((own[at] == theirs).astype(np.int64), firsts)
        return common / (len(own) + sizes - common)


def similarity(a: str, b: str) -> float:
    """The share of common shingles of two texts, given as words; 0 where both have none."""
    one, two = shingles(a.split()), shingles(b.split())
    together = len(one | two)
    return len(one & two) / together if together else 0.0


def shingle_hashes(words: str) -> Hashes:
    """Hashes of a text's shingles, each once, ascending."""
    digests = (hashlib.blake2b(shingle.encode(), digest_size=8).digest() for shingle in shingles(words.split()))
    return np.unique(np.frombuffer(b"".join(digests), dtype="<u8"))


def _signature(words: str) -> RMinHash:
    found = RMinHash(num_perm=_POSITIONS, seed=_SEED)
    found.update(sorted(shingles(words.split())))
    return found
