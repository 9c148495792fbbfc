"""How near a world on Milvus comes to the same world on this machine: overlap and order of the first ten, batches, seconds.

Run: ``OMP_NUM_THREADS=1 python benchmarks/world_milvus.py --size 3000 --queries 100``; without ``--milvus`` on milvus-lite, a
double of Milvus in Python, whose seconds say nothing of a server. Prints only. The world is a generated encyclopedia, embedded
without a model; a query is a page's title and three of its words.
"""

import argparse
import random
import tempfile
import time
from pathlib import Path

from sanderling.world.contract import World, answered
from sanderling.world.disk.building import build_world
from sanderling.world.disk.dense import embed_world, ranked_world, settings_for
from sanderling.world.disk.embedders import HashedEmbedder
from sanderling.world.disk.index import SearchMode
from sanderling.world.disk.store import open_world
from sanderling.world.encyclopedia import generate_pages
from sanderling.world.local import LocalWorld
from sanderling.world.milvus import MilvusWorld, VectorIndex, push_world
from sanderling.world.text import content_terms


def asked(world: LocalWorld, count: int, seed: int) -> list[str]:
    """A title and three words of the page, so many times."""
    rng = random.Random(seed)
    pages = rng.sample(list(world.all_pages()), count)
    return [f"{page.title} {' '.join(rng.sample(content_terms(page.text, 1_000), 3))}" for page in pages]


def compared(here: World, there: World, queries: list[str]) -> str:
    """One line of figures."""
    lists = [[hit.url for hit in reply.hits] for reply in answered(here.search_many(queries))]
    began = time.perf_counter()
    single = [answered(there.search(query)) for query in queries]
    alone, began = time.perf_counter() - began, time.perf_counter()
    batch = answered(there.search_many(queries))
    together = time.perf_counter() - began
    found = [[hit.url for hit in reply.hits] for reply in single]
    pairs = list(zip(lists, found, strict=True))
    overlap = sum(len(set(a) & set(b)) / max(len(a), 1) for a, b in pairs) / len(pairs)
    return (
        f"overlap {overlap:.3f}, same order {sum(a == b for a, b in pairs)} of {len(pairs)}, "
        f"batch as single queries {sum(a == b for a, b in zip(single, batch, strict=True))} of {len(pairs)}, "
        f"{alone / len(pairs) * 1e3:.0f} ms alone, {together / len(pairs) * 1e3:.0f} ms in a batch"
    )


def main() -> None:
    """Build, embed, push, compare."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", type=int, default=3_000)
    parser.add_argument("--queries", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--vectors", type=VectorIndex, choices=list(VectorIndex), default=VectorIndex.HNSW)
    parser.add_argument("--milvus", help="http://host:19530")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder) / "w", Path(folder) / "there"
        build_world(source, generate_pages(options.size, options.seed), name="milvus", source="milvus")
        world, embedder = open_world(source), HashedEmbedder()
        embed_world(source, world, embedder, settings_for(embedder), spec="hashed")
        began = time.perf_counter()
        push_world(source, world, options.milvus or f"{folder}/lite.db", target, vector_index=options.vectors)
        print(f"{world.page_count:,} pages, {embedder.model}, {options.vectors}: pushed in {time.perf_counter() - began:.0f} s")
        queries = asked(world, options.queries, options.seed)
        for mode in SearchMode:
            print(f"{mode:<8} {compared(ranked_world(source, world, mode), MilvusWorld(target, mode), queries)}")


if __name__ == "__main__":
    main()
