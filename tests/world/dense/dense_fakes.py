"""Small worlds and embedders with known geometry for the tests of dense search."""

from collections.abc import Sequence

import numpy as np

from sanderling.world.contract import Page
from sanderling.world.disk.embedders import Kind, Vectors

_TEXT = "river stone harbour poet founder museum school bridge winter garden music glass letter north island"
WORDS = _TEXT.split()


def made_pages(count: int, seed: int = 0) -> list[Page]:
    rng = np.random.default_rng(seed)
    return [
        Page(
            url=f"https://w.example/{number}",
            title=f"{rng.choice(WORDS).title()} {number}",
            text=" ".join(rng.choice(WORDS, 40)) + f". Number {number}.",
        )
        for number in range(count)
    ]


class TableEmbedder:
    """Looks texts up by their last word; counts its calls."""

    model = "table"

    def __init__(self, table: dict[str, Sequence[float]], dimension: int = 2) -> None:
        self.table, self.dimension = table, dimension
        self.calls: list[tuple[list[str], Kind]] = []

    def embed(self, texts: Sequence[str], kind: Kind) -> Vectors:
        self.calls.append((list(texts), kind))
        return np.array([self.table.get(text.split()[-1], [0.0] * self.dimension) for text in texts], np.float32)
