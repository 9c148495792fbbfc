"""How fast and how good the world is: indexing, building, opening, searching, visiting; growth; other engines beside it.

    OMP_NUM_THREADS=1 python benchmarks/world.py --recorded DIRECTORY        # everything, about half an hour on a quiet machine
    OMP_NUM_THREADS=1 python benchmarks/world.py --pages 2000                # the same in small, a minute
    OMP_NUM_THREADS=1 python benchmarks/world.py --stages search,report      # some stages, over the worlds that are there

Each stage's figures are kept in the work directory as soon as they are there, and `report` writes what is kept: JSON, a plot
(SVG) and tables (Markdown). Engines that are not installed are skipped with the reason. Run it alone on a machine: beside other
work it measures that work too.
"""

import argparse
import json
import os
import sys
import time
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

from world_quality import quality_stage
from world_report import markdown, plot
from world_stages import Log, Place, Plan, build_stage, engine_stage, index_stage, search_stage
from world_tries import tries_stage

import sanderling
from sanderling.runs.files import replace_file
from sanderling.runs.progress import machine

RESULTS = Path(__file__).parent / "results"
FULL = Plan((10_000, 100_000, 1_000_000), 100_000, 1_000, 30, 2_000, 10_000, 300, 0)
STAGES = ("index", "build", "search", "engines", "tries", "quality")
SECONDS_A_PAGE = {"index": 1 / 8_000, "build": 1 / 2_000}
SECONDS = {"search": 60, "engines": 420, "tries": 120, "quality": 300}
"""Rough, for 2 cores of 2026; only to say beforehand how long it takes."""


def plan_of(pages: int | None, seed: int) -> Plan:
    """All sizes, or one of them with a quarter of it."""
    if pages is None:
        return FULL
    large = pages >= 50_000
    return Plan(
        sizes=(max(pages // 4, 1), pages),
        engine_pages=min(pages, FULL.engine_pages),
        searches=FULL.searches if large else 100,
        engine_searches=FULL.engine_searches if large else 10,
        throughput_searches=FULL.throughput_searches if large else 100,
        entities=FULL.entities if large else 60,
        cases=FULL.cases if large else 20,
        seed=seed,
    )


def estimate(plan: Plan, stages: list[str]) -> float:
    """Seconds that some stages will take, roughly."""
    total = sum(plan.sizes)
    share = min(1.0, plan.engine_pages / FULL.engine_pages + 0.03)
    return sum(total * SECONDS_A_PAGE[s] if s in SECONDS_A_PAGE else SECONDS.get(s, 0) * share for s in stages)


def run(stages: list[str], plan: Plan, place: Place, recorded: Path | None, log: Log) -> None:
    """Run stages in their order and keep what each one finds."""
    work: dict[str, Callable[[], Any]] = {
        "index": lambda: index_stage(plan, place, log),
        "build": lambda: build_stage(plan, place, log),
        "search": lambda: search_stage(plan, place, log),
        "engines": lambda: engine_stage(plan, place, log),
        "tries": lambda: tries_stage(plan, place, log),
        "quality": lambda: quality_stage(plan, recorded, log),
    }
    for name in stages:
        began = time.perf_counter()
        found = work[name]()
        kept = {
            "found": found,
            "seconds": round(time.perf_counter() - began, 1),
            "plan": vars(plan),
            "load": os.getloadavg()[0],
        }
        replace_file(place.root / f"{name}.json", json.dumps(kept, indent=1))
        log(f"{name}: done")


def report(place: Place, out: Path) -> None:
    """Write JSON, plot and tables of all that is kept."""
    kept = {name: place.root / f"{name}.json" for name in STAGES}
    data: dict[str, Any] = {
        "command": "OMP_NUM_THREADS=1 python benchmarks/world.py",
        "version": sanderling.__version__,
        "machine": machine(),
        "date": date.today().isoformat(),
        "stages": {name: json.loads(path.read_text(encoding="utf-8")) for name, path in kept.items() if path.is_file()},
    }
    out.mkdir(parents=True, exist_ok=True)
    replace_file(out / "world.json", json.dumps(data, indent=1) + "\n")
    replace_file(out / "world.md", markdown(data))
    if "search" in data["stages"]:
        replace_file(out / "world.svg", plot(data["stages"]["search"]["found"]))


def main() -> None:
    """Measure what is asked for, and write it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pages", type=int, help="one size, and a quarter of it, in place of 10,000 to 1,000,000")
    parser.add_argument("--stages", default=",".join([*STAGES, "report"]), help="some of: %(default)s")
    parser.add_argument("--recorded", type=Path, help="recorded trajectories, for the ranking of recorded lists")
    parser.add_argument("--work", type=Path, default=Path("runs/world-benchmark"), help="worlds and figures lie here")
    parser.add_argument("--out", type=Path, default=RESULTS, help="where world.json, world.md and world.svg go")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    asked = given.stages.split(",")
    if wrong := sorted(set(asked) - {*STAGES, "report"}):
        parser.error(f"no stage is called {', '.join(wrong)}: choose from {', '.join([*STAGES, 'report'])}")
    if given.pages is not None and given.pages < 100:
        parser.error("--pages: at least 100")
    if given.recorded is not None and not given.recorded.is_dir():
        parser.error(f"--recorded: {given.recorded} is no directory")
    began = time.perf_counter()

    def log(line: str) -> None:
        print(f"{time.perf_counter() - began:7.0f} s  {line}", file=sys.stderr, flush=True)

    plan, place = plan_of(given.pages, given.seed), Place(given.work.absolute())
    place.root.mkdir(parents=True, exist_ok=True)
    stages = [name for name in STAGES if name in asked]
    log(f"{', '.join(f'{size:,}' for size in plan.sizes)} pages; about {estimate(plan, stages) / 60:.0f} min")
    run(stages, plan, place, given.recorded, log)
    if "report" in asked:
        report(place, given.out)
        print((given.out / "world.md").read_text(encoding="utf-8"))


if __name__ == "__main__":
    main()
