"""How fast questions are made from an encyclopedia's facts: 10,000 of 1 to 6 hops, each unique over all facts of its world.

    OMP_NUM_THREADS=1 python benchmarks/synth.py [--out benchmarks/results/synth.json]

One process, and the processor's seconds that it takes, as other work on the machine would count otherwise: generating the
encyclopedia, its graph and index, and the questions; writing a file is left out. Each question's uniqueness is checked over all
facts while it is made; nothing is checked again here.
"""

import argparse
import json
import time
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path

import sanderling
from sanderling.runs.files import replace_file
from sanderling.runs.progress import machine
from sanderling.synth.capabilities import Range
from sanderling.synth.graph import encyclopedia_graph
from sanderling.synth.making import GraphSettings, make
from sanderling.world.encyclopedia import generate_encyclopedia

COUNT, HOPS, SIZES, SEED = 10_000, Range(1, 6), Range(5, 7), 0
WORLDS = (500, 2_000, 10_000)


def main() -> None:
    """Measure, print, and keep the figures if a file is named."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    rows = [measure(size) for size in WORLDS]
    print("| things | facts | graph and index | questions | a second | hops |\n|---|---|---|---|---|---|")
    for row in rows:
        a_second = row["questions"] / row["asking_s"]
        hops = ", ".join(f"{number:,} of {size}" for size, number in row["hops"].items())
        print(
            f"| {row['things']:,} | {row['facts']:,} | {row['reading_s']:.1f} s "
            f"| {row['questions']:,} in {row['asking_s']:.1f} s "
            f"| {a_second:,.0f} | {hops} |"
        )
    if options.out is None:
        return
    data = {
        "command": f"python benchmarks/synth.py --out benchmarks/results/{options.out.name}",
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
        "package": sanderling.__version__,
        "machine": machine(),
        "worlds": rows,
    }
    replace_file(options.out, json.dumps(data, indent=2) + "\n")


def measure(size: int) -> dict:
    """One world: seconds, and what came of the draws."""
    began = time.process_time()
    graph = encyclopedia_graph(generate_encyclopedia(size, SEED))
    ready = time.process_time()
    made = make(graph, GraphSettings(count=COUNT, size=SIZES, hops=HOPS, seed=SEED))
    done = time.process_time()
    return {
        "things": len(graph.entities),
        "facts": len(graph.facts),
        "reading_s": round(ready - began, 2),
        "asking_s": round(done - ready, 2),
        "questions": len(made.drafts),
        "drawn": len(made.drafts) + made.dropped.total(),
        "capabilities": {str(name): number for name, number in made.kept.items()},
        "hops": dict(sorted(Counter(draft.hops for draft in made.drafts).items())),
        "proven": len(made.drafts) if graph.complete else 0,
    }


if __name__ == "__main__":
    main()
