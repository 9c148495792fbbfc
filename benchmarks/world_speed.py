"""What a call of the world costs, in process: building, searching and visiting generated encyclopedias.

Run: ``OMP_NUM_THREADS=1 python benchmarks/world_speed.py --size 2000 --calls 2000``. Queries are a page's title and three words
of another page, seeded; each query is asked once.
"""

import argparse
import random
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from sanderling.world.contract import Page
from sanderling.world.encyclopedia import generate_pages
from sanderling.world.local import LocalWorld
from sanderling.world.store import build_world, open_world


def timed(label: str, calls: list[Callable[[], object]]) -> None:
    """Print median and tail of calls, in milliseconds."""
    seconds = []
    for call in calls:
        start = time.perf_counter()
        call()
        seconds.append(time.perf_counter() - start)
    seconds.sort()
    p50, p99 = seconds[len(seconds) // 2] * 1e3, seconds[int(len(seconds) * 0.99)] * 1e3
    print(f"{label:<28} n {len(seconds):>6}   p50 {p50:7.3f} ms   p99 {p99:7.3f} ms")


def measure(label: str, world: LocalWorld, pages: list[Page], calls: int, seed: int) -> None:
    """Time searches and visits of one world."""
    rng = random.Random(seed)
    queries = [rng.choice(pages).title + " " + " ".join(rng.sample(rng.choice(pages).text.split(), 3)) for _ in range(calls)]
    urls = [rng.choice(pages).url for _ in range(calls)]
    timed(f"{label}: search", [lambda q=q: world.search(q, limit=10) for q in queries])
    timed(f"{label}: visit, 40 words", [lambda u=u: world.visit(u, "born founded capital", max_words=40) for u in urls])


def main() -> None:
    """Build in memory and on disk, and time both."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", type=int, default=2000)
    parser.add_argument("--calls", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    pages = list(generate_pages(options.size, options.seed))
    start = time.perf_counter()
    memory = LocalWorld.in_memory(pages, name="bench")
    print(f"{len(pages):,} pages; built in memory in {time.perf_counter() - start:.2f} s")
    measure("memory", memory, pages, options.calls, options.seed)
    with tempfile.TemporaryDirectory() as folder:
        start = time.perf_counter()
        build_world(Path(folder) / "w", pages, name="bench", source="bench")
        print(f"built on disk in {time.perf_counter() - start:.2f} s")
        measure("disk", open_world(Path(folder) / "w"), pages, options.calls, options.seed)


if __name__ == "__main__":
    main()
