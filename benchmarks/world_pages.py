"""Search on real pages beside SQLite's full-text index: how often the page is found, and how long a search with snippets takes.

    OMP_NUM_THREADS=1 python benchmarks/world_pages.py FOLDER --work runs/pages
    OMP_NUM_THREADS=1 python benchmarks/world_pages.py FOLDER --work runs/pages --embedder benchmarks/world_minilm.py:embed

FOLDER holds unpacked packages of documentation, such as Debian's (``apt-get download git-doc``, ``dpkg -x``, then copy each
``usr/share/doc/PACKAGE`` into it, symbolic links followed, without the ``.txt`` twins of HTML pages); the result names their
versions by their changelogs. A query's page is known: four words of it drawn blindly, one of its sentences, or its title.
FTS5 has the same titles and texts, its own tokenizer and ranking, and is asked for all words, as its users ask by default, and
for any. Milliseconds are of the processor, each query once, searches in turn, from a cold cache.
"""

import argparse
import gzip
import json
import random
import re
import sqlite3
import time
from collections.abc import Callable, Sequence
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np

import sanderling
from sanderling.evaluate.statistics import paired_difference
from sanderling.runs.files import replace_file
from sanderling.runs.progress import machine
from sanderling.world.contract import Page, answered
from sanderling.world.cutting import as_read
from sanderling.world.disk.building import build_world
from sanderling.world.disk.dense import embed_world, ranked_world, settings_for
from sanderling.world.disk.embedders import open_embedder
from sanderling.world.disk.index import SearchMode
from sanderling.world.disk.store import open_world
from sanderling.world.sources.kinds import Gathering, open_sources
from sanderling.world.text import STOP_WORDS, sentences

RESULT = Path(__file__).parent / "results" / "world_pages.json"
WORD = re.compile(r"[^\W_]+")
K, SNIPPET_WORDS, LEAST_LETTERS, SENTENCE = 10, 30, 3, range(6, 31)

Item = tuple[str, int]  # a query and the number of its page
Search = Callable[[str], Sequence[int]]


def packages(folder: Path) -> list[str]:
    """Names and versions, by the first line of each changelog: ``git (1:2.39.5-0) …``."""
    found = []
    for path in sorted(folder.glob("*/changelog.Debian.gz")):
        with gzip.open(path, "rt") as lines:
            found.append(f"{path.parent.name} {lines.readline().partition('(')[2].partition(')')[0]}")
    return found


def known_items(pages: Sequence[Page], count: int, seed: int) -> dict[str, list[Item]]:
    """Queries of each kind, from pages drawn without repetition."""
    rng = random.Random(f"pages {seed}")
    items: dict[str, list[Item]] = {"four words": [], "sentence": [], "title": []}
    for number in rng.sample(range(len(pages)), min(count, len(pages))):
        text = as_read(pages[number].text)
        own = [word for word in dict.fromkeys(WORD.findall(text)) if telling(word)]
        said = [part for line in text.splitlines() for part in sentences(line) if len(part.split()) in SENTENCE]
        if len(own) >= 4:
            items["four words"].append((" ".join(rng.sample(own, 4)), number))
        if said:
            items["sentence"].append((rng.choice(said), number))
        items["title"].append((pages[number].title, number))
    return items


def telling(word: str) -> bool:
    """Whether a word is longer than two letters, no number and no stop word."""
    return len(word) >= LEAST_LETTERS and not word.isdigit() and word.lower() not in STOP_WORDS


def fts5(pages: Sequence[Page], joined: str, *, snippets: bool = False) -> Search:
    """SQLite's search for all words (`` AND ``) or any of them (`` OR ``)."""
    database = sqlite3.connect(":memory:")
    database.execute("CREATE VIRTUAL TABLE pages USING fts5(title, text)")
    rows = ((number, page.title, page.text) for number, page in enumerate(pages))
    database.executemany("INSERT INTO pages(rowid, title, text) VALUES (?, ?, ?)", rows)
    database.execute("INSERT INTO pages(pages) VALUES ('optimize')")
    shown = f", snippet(pages, 1, '', '', ' … ', {SNIPPET_WORDS})" if snippets else ""
    select = f"SELECT rowid{shown} FROM pages WHERE pages MATCH ? ORDER BY rank LIMIT {K}"

    def search(query: str) -> list[int]:
        asked = joined.join(f'"{word}"' for word in dict.fromkeys(WORD.findall(query.lower())))
        return [row[0] for row in database.execute(select, (asked,))] if asked else []

    return search


def reciprocal(search: Search, items: Sequence[Item]) -> np.ndarray:
    """1 / rank of each item's page among ten; 0: not there."""
    found = ((list(search(query)), number) for query, number in items)
    return np.array([1 / (ranks.index(number) + 1) if number in ranks else 0.0 for ranks, number in found])


def timed(searches: dict[str, Search], items: Sequence[Item]) -> dict[str, dict[str, float]]:
    """Milliseconds of each search, and how many results it has; they take turns, and a first query does not count."""
    spent: dict[str, list[float]] = {name: [] for name in searches}
    results = dict.fromkeys(searches, 0)
    for query, _ in items:
        for name, search in searches.items():
            began = time.process_time()
            found = search(query)
            spent[name].append((time.process_time() - began) * 1e3)
            results[name] += len(found)
    return {
        name: {
            "mean_ms": float(np.mean(each[1:])),
            "p50_ms": float(np.median(each[1:])),
            "results": results[name] / len(items),
        }
        for name, each in spent.items()
    }


def measured(searches: dict[str, Search], items: dict[str, list[Item]], seed: int) -> list[dict[str, Any]]:
    """Recall and mean reciprocal rank of each search on each kind, the first paired with every other."""
    rows = []
    for kind, group in items.items():
        ranks = {name: reciprocal(search, group) for name, search in searches.items()}
        ours = next(iter(ranks.values())) > 0
        for name, theirs in ranks.items():
            paired = paired_difference(ours.astype(float), (theirs > 0).astype(float), seed=seed)
            row = {
                "kind": kind,
                "search": name,
                "n": len(group),
                "recall": float((theirs > 0).mean()),
                "mrr": float(theirs.mean()),
            }
            row |= {"only_ours": int((ours & (theirs == 0)).sum()), "only_there": int((~ours & (theirs > 0)).sum())}
            rows.append(row | {"ours_more": paired.difference, "interval": list(paired.interval), "p": paired.p_value})
    return rows


def main() -> None:
    """Build, ask, and write what was found."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--work", type=Path, required=True, help="the world lies here, and is made where it is absent")
    parser.add_argument("--queries", type=int, default=700, help="of each kind")
    parser.add_argument("--timed", type=int, default=200, help="of each kind")
    parser.add_argument("--seed", type=int, default=11)
    parser.add_argument("--embedder", default="", help="also dense and hybrid search, by its vectors")
    given = parser.parse_args()
    if not given.work.exists():
        build_world(given.work, Gathering(open_sources([str(given.folder)]), 1), name="pages", source="pages")
    world = open_world(given.work)
    pages = list(world.all_pages())
    numbers = {page.url: number for number, page in enumerate(pages)}
    items = known_items(pages, given.queries, given.seed)
    searches: dict[str, Search] = {"Sanderling": lambda query: [number for number, _ in world.lexical.rank(query, K)]}
    searches |= {"FTS5, all words": fts5(pages, " AND "), "FTS5, any word": fts5(pages, " OR ")}
    if given.embedder:
        embedder = open_embedder(given.embedder)
        embed_world(given.work, world, embedder, settings_for(embedder), spec=given.embedder)
        for mode in (SearchMode.DENSE, SearchMode.HYBRID):
            ranked = ranked_world(given.work, world, mode)
            searches[mode.value] = lambda query, ranked=ranked: [
                numbers[hit.url] for hit in answered(ranked.search(query, limit=K)).hits
            ]
    rows = measured(searches, items, given.seed)
    whole: dict[str, Search] = {
        "Sanderling": lambda query: [numbers[hit.url] for hit in answered(world.search(query, limit=K)).hits],
        "FTS5, all words": fts5(pages, " AND ", snippets=True),
        "FTS5, any word": fts5(pages, " OR ", snippets=True),
    }
    times = [
        {"kind": kind, "search": name, **figures}
        for kind, group in items.items()
        for name, figures in timed(whole, group[: given.timed + 1]).items()
    ]
    record = {
        "command": "OMP_NUM_THREADS=1 python benchmarks/world_pages.py FOLDER --work WORLD"
        + (f" --embedder {given.embedder}" if given.embedder else ""),
        "version": sanderling.__version__,
        "machine": machine(),
        "date": date.today().isoformat(),
        "packages": packages(given.folder),
        "pages": len(pages),
        "mean_characters": float(np.mean([len(page.text) for page in pages])),
        "found": rows,
        "with_snippets": times,
    }
    replace_file(RESULT, json.dumps(record, indent=1) + "\n")
    print(json.dumps(record, indent=1))


if __name__ == "__main__":
    main()
