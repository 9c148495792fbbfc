"""An embedder without weights: words and their parts, hashed to signed places of a vector.

Each word of a text (by `text`) and each run of three letters within it adds to four places with signs that a hash decides, so
that texts with many words or word parts in common have a large inner product (feature hashing: Weinberger et al., 2009). Words
that say nothing are left out; repeated words count by their logarithm.

What it is worth: nothing beyond words. It knows no synonym and no meaning; against the full-text index it forgives spelling and
endings, and ranks worse otherwise. It is here so that dense and hybrid search run, and can be tested, with no model at all.
"""

import math
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

from sanderling.world import text as terms
from sanderling.world.dense.embedder import Kind, Vectors

DIMENSION = 512
SMALLEST = 16
_VERSION = 1
"""Raised when the same text gets another vector."""
_PLACES = 4
_PART = 3
_PART_WEIGHT = 1.0
"""Of all parts of a word together, against the word itself."""
_MOST_TERMS = 4_096


class HashedEmbedder:
    """Deterministic on every machine; needs no file and no network.

    Example: ``HashedEmbedder(512).embed(["tidal flats"], Kind.QUERY)``
    """

    def __init__(self, dimension: int = DIMENSION) -> None:
        """``dimension``: length of the vectors. Raises ValueError below 16."""
        if dimension < SMALLEST:
            raise ValueError(f"a hashed embedder needs {SMALLEST} dimensions or more, not {dimension}")
        self._dimension = dimension
        self._of_word = lru_cache(maxsize=100_000)(self._word)

    @property
    def model(self) -> str:
        return f"hashed-{_VERSION}:{self._dimension}"

    @property
    def dimension(self) -> int:
        return self._dimension

    def embed(self, texts: Sequence[str], kind: Kind) -> Vectors:
        """One row for each text; a text without words is all zero. Queries and documents are embedded alike."""
        found = np.zeros((len(texts), self._dimension), np.float32)
        for row, text in enumerate(texts):
            counts = Counter(terms.index_terms(text)[:_MOST_TERMS])
            for word in terms.content_terms(text, _MOST_TERMS):
                places, weights = self._of_word(word)
                found[row, places] += weights * (1.0 + math.log(counts[word] or 1))
        return found

    def _word(self, word: str) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """The places of a word and its parts, each once, with their weights."""
        bounded = f"<{word}>"
        parts = [bounded[start : start + _PART] for start in range(len(bounded) - _PART + 1)] if len(word) >= _PART else []
        features = [(word, 1.0), *((part, _PART_WEIGHT / math.sqrt(len(parts))) for part in parts)]
        dense = np.zeros(self._dimension, np.float32)
        for feature, weight in features:
            digest = blake2b(feature.encode("utf-8", "replace"), digest_size=4 * _PLACES, salt=b"sanderling").digest()
            for start in range(0, len(digest), 4):
                value = int.from_bytes(digest[start : start + 4], "little")
                dense[(value >> 1) % self._dimension] += weight if value & 1 else -weight
        places = np.flatnonzero(dense)
        return places, dense[places]
