"""What is measured of worlds, stage by stage: indexing, building, searching, engines side by side. Each returns plain data.

Every world and index lies in one work directory and is made once; every search and visit is measured in a fresh process.
"""

import itertools
import shutil
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import world_corpus
from engines import ENGINES, OWN
from world_child import anonymous_mb
from world_fresh import measure, together

from sanderling.world.contract import Page
from sanderling.world.disk.building import Stage, build_world
from sanderling.world.disk.index import IndexBuilder, indexed_text

FEW, MANY = 0, 5
"""Common words in a query beside five rarer ones."""
_AT_ONCE = 100_000
"""Pages held in memory while they are indexed, so that making them is not measured."""


@dataclass(frozen=True)
class Plan:
    """How much is measured."""

    sizes: tuple[int, ...]
    engine_pages: int
    searches: int
    engine_searches: int
    throughput_searches: int
    entities: int
    cases: int
    seed: int


@dataclass(frozen=True)
class Place:
    """The work directory."""

    root: Path

    def index(self, pages: int) -> Path:
        return self.root / f"index-{pages}"

    def world(self, pages: int) -> Path:
        return self.root / f"world-{pages}"

    def engine(self, name: str, pages: int) -> Path:
        return self.root / f"{name}-{pages}"


Log = Callable[[str], None]
Rows = list[dict[str, Any]]


def disk_mb(directory: Path) -> float:
    """Size of a directory's files."""
    return round(sum(path.stat().st_size for path in directory.rglob("*") if path.is_file()) / 1e6, 1)


def index_stage(plan: Plan, place: Place, log: Log) -> Rows:
    """Indexing alone: terms and index of pages that are already in memory, up to the last merge."""
    return [_indexed(size, place, plan.seed, log) for size in plan.sizes]


def _indexed(size: int, place: Place, seed: int, log: Log) -> dict[str, Any]:
    directory = place.index(size)
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    pages = world_corpus.pages(size, seed)
    numbers = itertools.count()
    seconds, builder = 0.0, IndexBuilder(directory)
    while held := list(itertools.islice(pages, _AT_ONCE)):
        began = time.perf_counter()
        for page in held:
            builder.add(next(numbers), page.title, page.text)
        seconds += time.perf_counter() - began
        log(f"indexed {held[-1].url.rpartition('-')[2]} of {size:,}")
    began = time.perf_counter()
    builder.finish()
    seconds += time.perf_counter() - began
    return {"pages": size, "seconds": seconds, "pages_per_s": size / seconds, "disk_mb": disk_mb(directory)}


def build_stage(plan: Plan, place: Place, log: Log) -> Rows:
    """The whole build of a world: pages stored and counted, links judged, near-duplicates known, index."""
    return [_built(size, place, plan.seed, log) for size in plan.sizes]


def _built(size: int, place: Place, seed: int, log: Log) -> dict[str, Any]:
    directory = place.world(size)
    shutil.rmtree(directory, ignore_errors=True)
    next(world_corpus.pages(1, seed))  # the vocabulary is made before anything is timed
    making = _seconds_of_making(min(size, 5_000), seed) * size
    began, before, most = time.perf_counter(), anonymous_mb() or 0.0, 0.0
    ends: dict[str, float] = {}

    def progress(stage: Stage, done: int, total: int | None) -> None:
        nonlocal most
        most = max(most, (anonymous_mb() or 0.0) - before)
        ends[stage.value] = time.perf_counter() - began
        if done % 50_000 == 0:
            log(f"{stage.value}: {done:,} of {total or size:,}")

    build_world(directory, world_corpus.pages(size, seed), name="corpus", source="benchmark", seed=seed, progress=progress)
    seconds = time.perf_counter() - began - making
    return {
        "pages": size,
        "seconds": seconds,
        "pages_per_s": size / seconds,
        "stage_ends_s": ends,
        "making_s": making,
        "anonymous_mb_more": most,
        "disk_mb": disk_mb(directory),
    }


def _seconds_of_making(count: int, seed: int) -> float:
    """Seconds a page takes to be made, which are no part of the build."""
    began = time.perf_counter()
    for _ in world_corpus.pages(count, seed):
        pass
    return (time.perf_counter() - began) / count


def search_stage(plan: Plan, place: Place, log: Log) -> Rows:
    """Opening, searching and visiting worlds of each size."""
    rows = []
    for size in plan.sizes:
        world = place.world(size)
        common = {"world": world, "pages": size, "seed": plan.seed}
        row: dict[str, Any] = {"pages": size, "open": measure("open", **common)}
        for name, words in (("five", FEW), ("ten", MANY)):
            log(f"searching {size:,} pages: {name} terms")
            row[name] = measure("search", **common, common=words, n=plan.searches)
            each = {"world": world, "common": words, "n": plan.throughput_searches}
            row[name]["per_s"] = {
                "1 process": together(1, 1, **each),
                "2 processes": together(2, 1, **each),
                "2 threads": together(1, 2, **each),
            }
        log(f"visiting {size:,} pages")
        row["visit"] = measure("visit", **common, n=plan.searches, max_words=2_000)
        row["visit_part"] = measure("visit", **common, n=plan.searches, max_words=100)
        rows.append(row)
    return rows


def engine_stage(plan: Plan, place: Place, log: Log) -> dict[str, Any]:
    """Every engine over the same pages, behind the same call."""
    size, skipped, rows = plan.engine_pages, {}, []
    if not place.world(size).is_dir():
        raise SystemExit(f"The world of {size:,} pages is missing: run the stage `build` first.")
    alone = _indexed(size, place, plan.seed, log)
    exact: list[list[int]] = []
    for name in (OWN, *ENGINES):
        if name != OWN and (reason := ENGINES[name].missing()):
            skipped[name] = reason
            log(f"{name} is skipped: {reason}")
            continue
        given = {"world": place.world(size), "engine": name, "engine_directory": place.engine(name, size), "seed": plan.seed}
        log(f"{name}: indexing {size:,} pages")
        row = _own_index(alone) if name == OWN else _engine_index(given, size)
        log(f"{name}: searching")
        count = plan.searches if name == OWN else plan.engine_searches
        found = {kind: measure("search", **given, n=count, common=words) for kind, words in (("five", FEW), ("ten", MANY))}
        lists = measure("lists", **given, n=10, common=[FEW, MANY])["lists"]
        exact = exact or lists
        rows.append({"engine": name, **row, **found, "shared": _shared(exact, lists)})
    return {"pages": size, "rows": rows, "skipped": skipped}


def _own_index(alone: dict[str, Any]) -> dict[str, Any]:
    note = "its time of indexing includes making the terms, which the others are given"
    return {"note": note, "index_s": alone["seconds"], "disk_mb": alone["disk_mb"]}


def _engine_index(given: dict[str, Any], size: int) -> dict[str, Any]:
    directory: Path = given["engine_directory"]
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir()
    seconds = measure("build_engine", **given, pages=size)["seconds"]
    return {"note": ENGINES[given["engine"]].note, "index_s": seconds, "disk_mb": disk_mb(directory)}


def _shared(ours: Iterable[list[int]], theirs: Iterable[list[int]]) -> float:
    shares = [len(set(a) & set(b)) / len(a) for a, b in zip(ours, theirs, strict=True) if a]
    return sum(shares) / len(shares)


def documents(pages: Iterable[Page]) -> Iterator[str]:
    """What every engine indexes of pages."""
    return (indexed_text(page.title, page.text) for page in pages)
