"""What dense search costs in process: ranking of made-up vectors, alone and in batches; embedding pages.

Run: ``OMP_NUM_THREADS=1 python benchmarks/world_dense.py --pages 100000 --dimension 384``. Prints only. Vectors are drawn
around 2,000 centres, seeded, of unit length, one passage for each page; queries are drawn around the same centres, each
asked once.
"""

import argparse
import resource
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from sanderling.world.disk.dense import DenseIndex, settings_for
from sanderling.world.disk.embedders import HashedEmbedder, Kind, Vectors
from sanderling.world.encyclopedia import generate_pages

CENTRES, SPREAD = 2_000, 0.7


class Drawn:
    """An embedder whose vectors are drawn, by the number that a text is."""

    model = "drawn"

    def __init__(self, dimension: int, seed: int) -> None:
        self.dimension = dimension
        self._rng = np.random.default_rng(seed)
        self._centres = self._rng.normal(size=(CENTRES, dimension)).astype(np.float32)
        self._centres /= np.linalg.norm(self._centres, axis=1, keepdims=True)

    def draw(self, count: int) -> Vectors:
        """So many unit vectors."""
        noise = self._rng.normal(size=(count, self.dimension), scale=SPREAD / self.dimension**0.5)
        found = (self._centres[self._rng.integers(CENTRES, size=count)] + noise).astype(np.float32)
        return found / np.linalg.norm(found, axis=1, keepdims=True)

    def embed(self, texts: Sequence[str], kind: Kind) -> Vectors:
        """Queries, whatever they say."""
        return self.draw(len(texts))


def measure(index: DenseIndex, label: str, calls: int) -> None:
    """Print what a query costs alone, and in batches of 16."""
    for batch in (1, 16):
        seconds = []
        for _ in range(max(calls // batch, 3)):
            start = time.perf_counter()
            index.rank_many([f"q{number}" for number in range(batch)], 10)
            seconds.append((time.perf_counter() - start) / batch)
        seconds.sort()
        p50, p99 = seconds[len(seconds) // 2] * 1e3, seconds[int(len(seconds) * 0.99)] * 1e3
        print(f"{label:<28} in batches of {batch:>2}   p50 {p50:8.3f} ms a query   p99 {p99:8.3f} ms")


def main() -> None:
    """Store vectors, and search them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pages", type=int, default=100_000)
    parser.add_argument("--dimension", type=int, default=384)
    parser.add_argument("--calls", type=int, default=100)
    options = parser.parse_args()
    drawn, hashed = Drawn(options.dimension, 0), HashedEmbedder()
    texts = [page.text for page in generate_pages(500, 0)]
    start = time.perf_counter()
    hashed.embed(texts, Kind.DOCUMENT)
    spent = time.perf_counter() - start
    words = sum(len(text.split()) for text in texts)
    print(f"hashed embedder: {len(texts) / spent:,.0f} pages/s, {words / spent:,.0f} words/s")
    with tempfile.TemporaryDirectory() as folder:
        shape, file = (options.pages, options.dimension), Path(folder) / "vectors.bin"
        vectors = np.memmap(file, "float16", "w+", shape=shape)
        for first in range(0, options.pages, 10_000):
            vectors[first : first + 10_000] = drawn.draw(min(10_000, options.pages - first))
        vectors.flush()
        start = time.perf_counter()
        owners = np.arange(options.pages, dtype=np.uint32)
        index = DenseIndex(settings_for(drawn), np.memmap(file, "float16", "r", shape=shape), owners, drawn)
        print(f"{options.pages:,} x {options.dimension}, float16: opened in {time.perf_counter() - start:.2f} s")
        measure(index, "exact", options.calls)
    print(f"peak memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3:,.0f} MB")


if __name__ == "__main__":
    main()
