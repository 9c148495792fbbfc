"""Texts as vectors: what an embedder is, and what this package makes sure of whichever it is.

Vectors come back as float32 of unit length (or all zero, for a text that says nothing), in the order of the texts. Models that
were trained with instructions get them as prefixes, one for queries and one for documents. Knows no page and no index.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from sanderling.core.errors import UserError

Vectors = NDArray[np.float32]
_SMALLEST = 1e-12


class Kind(StrEnum):
    """What a text is to the search: models are trained to embed the two differently."""

    QUERY = "query"
    DOCUMENT = "document"


class Embedder(Protocol):
    """Embeds texts. Deterministic: the same text and kind give the same vector."""

    @property
    def model(self) -> str:
        """Names the vectors: an index made by one model is never asked with another."""
        ...

    @property
    def dimension(self) -> int:
        """Length of a vector. Raises UserError when it cannot be found out."""
        ...

    def embed(self, texts: Sequence[str], kind: Kind) -> Vectors:
        """One row for each text, of any length but NaN-free. Raises UserError, or `EmbedderOutageError`."""
        ...


class EmbedderOutageError(UserError, OSError):
    """The embedder cannot be reached or is broken: an outage of the search, not a reply."""


@dataclass(frozen=True)
class Prefixes:
    """What is put before a text, as the model was trained.

    Examples: ``Prefixes("query: ", "passage: ")`` for E5; for the English BGE models
    ``Prefixes("Represent this sentence for searching relevant passages: ")``.
    """

    query: str = ""
    document: str = ""

    def of(self, kind: Kind) -> str:
        """The prefix of a kind of text."""
        return self.query if kind is Kind.QUERY else self.document


NO_PREFIXES = Prefixes()


def embed_units(embedder: Embedder, texts: Sequence[str], kind: Kind, prefixes: Prefixes = NO_PREFIXES) -> Vectors:
    """Embed texts, prefixed, as rows of unit length. Raises UserError when the embedder breaks its promises."""
    if not texts:
        return np.zeros((0, embedder.dimension), np.float32)
    prefix = prefixes.of(kind)
    found = np.asarray(embedder.embed([prefix + text for text in texts], kind), dtype=np.float32)
    expected = (len(texts), embedder.dimension)
    if found.shape != expected:
        raise UserError(
            f"The embedder {embedder.model} returned vectors of shape {found.shape} instead of {expected}: mend it."
        )
    if not np.isfinite(found).all():
        raise UserError(f"The embedder {embedder.model} returned a vector with NaN or infinity: mend it.")
    lengths = np.sqrt(np.einsum("ij,ij->i", found, found, dtype=np.float64))[:, None]
    return np.where(lengths > _SMALLEST, found / np.maximum(lengths, _SMALLEST), 0.0).astype(np.float32)
