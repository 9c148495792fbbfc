"""What masks and dynamics cost a call: medians over one world, in milliseconds; and how fast near-duplicates are found.

    OMP_NUM_THREADS=1 python benchmarks/dynamics.py [--out benchmarks/results/dynamics.json]

The world is the generated encyclopedia (size 500, seed 1), in memory. Each of CALLS queries is the first ten words of a page,
each visit one of those pages with that goal; every call is another occurrence, so that faults and delays are drawn anew. A call
that meets a fault is cheaper than one that does not, and counts.
"""

import argparse
import json
import statistics
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path

import sanderling
from sanderling.runs.files import replace_file
from sanderling.runs.progress import machine
from sanderling.world.contract import Occasion, Page, World, answered
from sanderling.world.disk.duplicates import near_duplicates, signature
from sanderling.world.encyclopedia import generate_pages
from sanderling.world.faults import PROFILES, FaultyWorld
from sanderling.world.filters import MaskedWorld
from sanderling.world.local import LocalWorld

SIZE, SEED, CALLS, WARM_UP = 500, 1, 300, 100
MASKED = 3
"""Pages hidden at every call of a masked world."""


def main() -> None:
    """Measure, print, and keep the figures if a file is named."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    pages = list(generate_pages(SIZE, SEED))
    world = LocalWorld.in_memory(pages, name="encyclopedia")
    began = time.perf_counter()
    signed = [(number, found) for number, page in enumerate(pages) if (found := signature(page.text)) is not None]
    groups = [[pages[number].url for number in group] for group in near_duplicates(signed)]
    duplicates_s = time.perf_counter() - began
    masked = MaskedWorld(world, groups)
    hidden = frozenset(page.url for page in pages[:MASKED])
    rows = {
        "the world alone": measure(world, pages, frozenset()),
        "with masks": measure(masked, pages, hidden),
        "with masks and `web`": measure(FaultyWorld(masked, PROFILES["web"], 0), pages, hidden),
        "with masks and `hostile`": measure(FaultyWorld(masked, PROFILES["hostile"], 0), pages, hidden),
    }
    print(f"{world.page_count:,} pages; medians of {CALLS} calls in ms\n\n| | search | visit |\n|---|---|---|")
    for name, (search, visit) in rows.items():
        print(f"| {name} | {search:.2f} | {visit:.2f} |")
    words = sum(len(page.text.split()) for page in pages)
    print(f"\nnear-duplicates: {len(pages) / duplicates_s:,.0f} pages a second, of {words / len(pages):.0f} words each")
    if options.out is None:
        return
    data = {
        "command": f"python benchmarks/dynamics.py --out benchmarks/results/{options.out.name}",
        "version": sanderling.__version__,
        "machine": machine(),
        "date": datetime.now(UTC).date().isoformat(),
        "settings": {"size": SIZE, "seed": SEED, "calls": CALLS, "warm_up": WARM_UP, "masked": MASKED},
        "pages": world.page_count,
        "median_ms": {name: {"search": round(s, 4), "visit": round(v, 4)} for name, (s, v) in rows.items()},
        "near_duplicates": {"pages_per_s": round(len(pages) / duplicates_s), "words_per_page": round(words / len(pages), 1)},
    }
    replace_file(options.out, json.dumps(data, indent=1) + "\n")


def measure(world: World, pages: Sequence[Page], masked: frozenset[str]) -> tuple[float, float]:
    """Median milliseconds of a search and of a visit."""
    asked = [(" ".join(page.text.split()[:10]), page.url) for page in pages]

    def search(number: int) -> object:
        return answered(world.search(asked[number % len(asked)][0], occasion=Occasion(masked, 0, number)))

    def visit(number: int) -> object:
        query, url = asked[number % len(asked)]
        return answered(world.visit(url, query, occasion=Occasion(masked, 0, number)))

    return median_ms(search), median_ms(visit)


def median_ms(call: Callable[[int], object]) -> float:
    """Median over CALLS calls, after WARM_UP others."""
    seconds = []
    for number in range(WARM_UP + CALLS):
        began = time.perf_counter()
        call(number)
        seconds.append(time.perf_counter() - began)
    return 1_000 * statistics.median(seconds[WARM_UP:])


if __name__ == "__main__":
    main()
