"""Fidelity of worlds built from recorded trajectories, every trajectory held out once (cross-validation), as figures only.

    python benchmarks/fidelity.py --against DIRECTORY --out benchmarks/results/fidelity.json

For each of FOLDS parts of the questions (or of the single trajectories) a world is built in memory from the others and the part
is put to it; the rows of all parts are pooled. Last, the upper bound: one world of all trajectories, put to all of them. Holds
neither recorded text nor addresses.
"""

import argparse
import json
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import sanderling
from sanderling.core.record import Trajectory
from sanderling.data.importing import open_trajectories
from sanderling.evaluate.fidelity import Comparison, compare, summarise
from sanderling.runs.files import replace_file
from sanderling.runs.progress import machine
from sanderling.world.local import LocalWorld
from sanderling.world.recorded import Row, built_from, key_of, pages_from_trajectories, place_of

FOLDS = 5
SEED = 0
K = 10


def world_of(trajectories: Sequence[Trajectory]) -> LocalWorld:
    """What the trajectories met."""
    return LocalWorld.in_memory(pages_from_trajectories(trajectories)[0], name="recorded")


def held_out(trajectories: Sequence[Trajectory]) -> Comparison:
    """Every trajectory against a world that was built without its fold."""
    folds = [min(FOLDS - 1, int(FOLDS * place_of(key_of(t), SEED))) for t in trajectories]
    rows, counts = list[Row](), Counter[str]()
    for fold in sorted(set(folds)):
        built = [t for t, mine in zip(trajectories, folds, strict=True) if mine != fold]
        asked = [t for t, mine in zip(trajectories, folds, strict=True) if mine == fold]
        more, counted = compare(world_of(built), asked, built_from(built, asked, 1 / FOLDS, SEED), k=K)
        rows += more
        counts.update(counted)
    return summarise("held out by question", rows, counts, seed=SEED)


def main() -> None:
    """Measure, and write the figures."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--against", type=Path, required=True, help="recorded trajectories")
    options.add_argument("--out", type=Path, required=True, help="JSON file")
    given = options.parse_args()
    started = time.perf_counter()
    trajectories = tuple(open_trajectories(given.against))
    parts = [held_out(trajectories)]
    everything = compare(world_of(trajectories), trajectories, None, k=K)
    parts.append(summarise("built in (upper bound)", *everything, seed=SEED))
    data = {
        "command": f"python benchmarks/fidelity.py --against DIRECTORY --out benchmarks/results/{given.out.name}",
        "version": sanderling.__version__,
        "machine": machine(),
        "seconds": round(time.perf_counter() - started, 1),
        "seed": SEED,
        "folds": FOLDS,
        "k": K,
        "parts": [asdict(found) for found in parts],
    }
    replace_file(given.out, json.dumps(data, indent=1) + "\n")
    for found in parts:
        print(f"\n{found.label}: {found.searches} lists, {found.questions} questions, {found.asked_before} dropped")
        for one in found.figures:
            print(f"  {one.name:20} n={one.n:<5} {one.value} {one.interval}")


if __name__ == "__main__":
    main()
