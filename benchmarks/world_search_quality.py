"""How often search finds the page that is looked for: recall@10 and mean reciprocal rank, by words, by nearness, by both.

Run: ``OMP_NUM_THREADS=1 python benchmarks/world_search_quality.py --size 2000 --queries 500`` for the hashed embedder, with
``--embedder`` for any other. Prints only. The world is a generated encyclopedia; a query's page is known in three ways:

- words: four words of a page's text, drawn at random; the page is that page
- misspelt: the same, with one letter of every second word replaced
- question: a question for one fact, in wordings that no page uses; the page is the atlas page that answers it
"""

import argparse
import random
import string
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from sanderling.synth.chains import chain_questions
from sanderling.world.contract import World, answered
from sanderling.world.disk.building import build_world
from sanderling.world.disk.dense import embed_world, ranked_world, settings_for
from sanderling.world.disk.embedders import open_embedder
from sanderling.world.disk.index import SearchMode
from sanderling.world.disk.store import open_world
from sanderling.world.encyclopedia import Encyclopedia, Site, generate_encyclopedia
from sanderling.world.text import content_terms

K = 10


class Item(NamedTuple):
    """A query and the address of the page it looks for."""

    query: str
    url: str


class Found(NamedTuple):
    """What a world found of a list of items."""

    recall: float
    """Share of the items whose page is among the first ten."""
    mrr: float
    """Mean of 1 / rank, 0 where the page is not among the first ten."""


def known_items(world: Encyclopedia, count: int, seed: int) -> dict[str, list[Item]]:
    """So many items of each kind."""
    rng = random.Random(f"known:{seed}:{world.name}")
    pages = [item.page for item in world.pages]
    words: list[Item] = []
    while len(words) < count:
        page = rng.choice(pages)
        terms = content_terms(page.text, 1_000)
        if len(terms) >= 4:
            words.append(Item(" ".join(rng.sample(terms, 4)), page.url))
    misspelt = [Item(_half_misspelt(item.query, rng), item.url) for item in words]
    atlas = {item.entity: item.page.url for item in world.pages if item.site is Site.ATLAS}
    questions = [Item(q.text, atlas[q.meta["start"]]) for q in chain_questions(world, count, seed, {1: 1.0})]
    return {"words": words, "misspelt": misspelt, "question": questions}


def _half_misspelt(query: str, rng: random.Random) -> str:
    return " ".join(_misspelt(word, rng) if number % 2 else word for number, word in enumerate(query.split()))


def _misspelt(word: str, rng: random.Random) -> str:
    at = rng.randrange(len(word))
    return word[:at] + rng.choice(string.ascii_lowercase.replace(word[at], "")) + word[at + 1 :]


def found(world: World, items: Sequence[Item]) -> Found:
    """Search for every item, all in one batch."""
    ranks: list[int] = []
    for item, reply in zip(items, answered(world.search_many([item.query for item in items], limit=K)), strict=True):
        urls = [hit.url for hit in reply.hits]
        ranks.append(urls.index(item.url) + 1 if item.url in urls else 0)
    return Found(sum(rank > 0 for rank in ranks) / len(ranks), sum(1 / rank for rank in ranks if rank) / len(ranks))


def main() -> None:
    """Build, embed, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", type=int, default=2000)
    parser.add_argument("--queries", type=int, default=500)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--embedder", default="hashed")
    options = parser.parse_args()
    truth = generate_encyclopedia(options.size, options.seed)
    items = known_items(truth, options.queries, options.seed)
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "w"
        build_world(place, (item.page for item in truth.pages), name="quality", source="quality")
        world, embedder = open_world(place), open_embedder(options.embedder)
        embed_world(place, world, embedder, settings_for(embedder), spec=options.embedder)
        print(f"{world.page_count:,} pages, {options.queries} queries of each kind, {embedder.model}; recall@{K}, MRR@{K}")
        for mode in SearchMode:
            figures = {kind: found(ranked_world(place, world, mode), group) for kind, group in items.items()}
            print(f"{mode:<8}" + "".join(f"   {kind} {each.recall:.3f}, {each.mrr:.3f}" for kind, each in figures.items()))


if __name__ == "__main__":
    main()
