"""Fidelity of worlds built from recorded trajectories, every trajectory held out once (cross-validation), as figures only.

    python benchmarks/fidelity.py --against DIRECTORY --out benchmarks/results/fidelity.json

For each of FOLDS parts of the questions (or of the single trajectories) a world is built in memory from the others and the part
is put to it; the rows of all parts are pooled. Last, the upper bound: one world of all trajectories, put to all of them. Holds
neither recorded text nor addresses.
"""

import argparse
import json
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

import numpy as np

import sanderling
from sanderling.core.record import Trajectory
from sanderling.data.importing import import_all
from sanderling.evaluate.fidelity.measure import BUILT_IN, Figure, Part, by_question, figure_rows, part
from sanderling.evaluate.statistics import mean_interval
from sanderling.runs.files import replace_file
from sanderling.runs.provenance import machine
from sanderling.world.addresses import canonical_url
from sanderling.world.fidelity import Row, Settings, compare_searches, compare_visits, recorded_calls
from sanderling.world.local import LocalWorld
from sanderling.world.recorded import Unit, built_from, key_of, pages_from_trajectories, place_of, was_asked

FOLDS = 5
SEED = 0
SETTINGS = Settings()


@dataclass
class Pool:
    """Rows of several comparisons."""

    queries: list[Row] = field(default_factory=list)
    visits: list[Row] = field(default_factory=list)
    asked: set[str] = field(default_factory=set)
    dropped: int = 0
    """Lists left out, as the build knew their very query."""

    def figures(self, label: str, remark: str, trajectories: int) -> Part:
        """The figures of all rows."""
        counts = {"trajectories": trajectories, "distinct_queries": len(self.asked), "asked_before": self.dropped}
        return part(label, remark, self.queries, self.visits, **counts, seed=SEED)


def put(pool: Pool, built: Sequence[Trajectory], asked: Sequence[Trajectory], *, drop: bool) -> None:
    """Add the rows of some trajectories put to a world of others. ``drop``: leave out queries that the build knew."""
    pages, _ = pages_from_trajectories(built)
    world = LocalWorld.in_memory(pages, name="recorded")
    known, calls = built_from(built, asked, 1 / FOLDS, SEED), recorded_calls(asked)
    kept = [search for search in calls.searches if not (drop and was_asked(search, known))]

    def holds(url: str) -> bool:
        return world.page(url) is not None

    pool.queries += compare_searches(kept, world, holds, SETTINGS)
    pool.visits += compare_visits(calls.visits, world, holds, SETTINGS)
    pool.asked |= {search.query for search in kept}
    pool.dropped += len(calls.searches) - len(kept)


def held_out(trajectories: Sequence[Trajectory], unit: Unit) -> Part:
    """Every trajectory against a world that was built without its fold."""
    folds = [min(FOLDS - 1, int(FOLDS * place_of(key_of(t, unit), SEED))) for t in trajectories]
    pool = Pool()
    for fold in sorted(set(folds)):
        built = [t for t, mine in zip(trajectories, folds, strict=True) if mine != fold]
        asked = [t for t, mine in zip(trajectories, folds, strict=True) if mine == fold]
        put(pool, built, asked, drop=True)
    remark = f"{FOLDS} folds by {unit.value}: each trajectory is put to a world built from the other folds."
    return pool.figures(f"held out by {unit.value}", remark, len(trajectories))


def other_attempts(trajectories: Sequence[Trajectory]) -> Figure:
    """Share of a query's recorded URLs that other attempts at its question met, where there are other attempts."""
    met = {t.id: {canonical_url(hit.url) for s in recorded_calls([t]).searches for hit in s.hits} for t in trajectories}
    groups: list[str] = []
    shares: list[float] = []
    for t in trajectories:
        others = [met[o.id] for o in trajectories if o.id != t.id and o.question.id == t.question.id]
        known = set[str]().union(*others)
        for search in recorded_calls([t]).searches if others else ():
            urls = {canonical_url(hit.url) for hit in search.hits}
            if urls:
                groups.append(t.question.id)
                shares.append(len(urls & known) / len(urls))
    values = np.array(shares)
    return Figure(
        name="met_by_other_attempts",
        meaning="Recorded URLs of a query that other attempts at its question met too",
        n=len(shares),
        value=float(values.mean()),
        interval=mean_interval(values, seed=SEED),
        interval_by_question=by_question(groups, values, seed=SEED),
    )


def main() -> None:
    """Measure, and write the figures."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--against", type=Path, required=True, help="recorded trajectories")
    options.add_argument("--out", type=Path, required=True, help="JSON file")
    given = options.parse_args()
    started = time.perf_counter()
    trajectories = import_all(given.against).trajectories
    parts = [held_out(trajectories, unit) for unit in Unit]
    everything = Pool()
    put(everything, trajectories, trajectories, drop=False)
    remark = "One world of all trajectories, put to all of them: an upper bound, no measure of fidelity."
    parts.append(everything.figures(BUILT_IN, remark, len(trajectories)))
    attempts = other_attempts(trajectories)
    data = {
        "command": f"python benchmarks/fidelity.py --against DIRECTORY --out benchmarks/results/{given.out.name}",
        "version": sanderling.__version__,
        "machine": machine(),
        "seconds": round(time.perf_counter() - started, 1),
        "seed": SEED,
        "folds": FOLDS,
        "settings": asdict(SETTINGS),
        "parts": [found.model_dump(mode="json") for found in parts],
        "other_attempts": attempts.model_dump(mode="json"),
    }
    replace_file(given.out, json.dumps(data, indent=1) + "\n")
    print(attempts)
    for found in parts:
        print(f"\n{found.label}: {found.searches} lists, {found.questions} questions, {found.asked_before} dropped")
        for name, n, value, over_queries, over_questions in figure_rows(found):
            print(f"  {name:24} n={n:<5} {value:>10}   {over_queries:24} {over_questions}")


if __name__ == "__main__":
    main()
