"""The data pipeline on recorded trajectories: what every step does under each recipe, and how fast grouping and resampling are.

    SANDERLING_RECORDED=DIRECTORY OMP_NUM_THREADS=1 python benchmarks/data.py

It writes benchmarks/results/data.json and data.md; with ``--all`` importing and cleaning are measured, too.

Tokens are those of the tiny recipe's tokenizer, which has 2,048 pieces: lengths in another one are shorter. The questions whose
grouping is timed are drawn from invented words; trajectories that are resampled are empty but for their turns.
"""

import itertools
import json
import os
import random
import resource
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

from rich.console import Console

from sanderling.core.chat import load_tokenizer
from sanderling.core.errors import UserError
from sanderling.data.dedupe import QA, question_groups
from sanderling.data.pipeline import NUMBERS, RECIPES, DataRun, find_data_recipe, run_data
from sanderling.data.resample import Schedule, resample
from sanderling.recipes.tiny import SHIPPED_BASE
from sanderling.runs.progress import Report, machine
from sanderling.train.row_source import rows_of_file

HERE = Path(__file__).parent
OTHERS = ("data_import.py", "data_clean.py")
BUCKETS = ((3_720, 40), (4_400, 80), (1_245, 120))
"""Trajectories and their turns, solved for from DR-Venus' published counts."""


def pipeline(recorded: Path, scratch: Path) -> dict[str, list[dict]]:
    """Each recipe's steps, with its rule and with the lenient one."""
    found = {}
    for name, rule in itertools.product(RECIPES, ("exact", "contains")):
        config = find_data_recipe(name, [f"tokenizer='{SHIPPED_BASE}'", f"judge.judges=['{rule}']"])
        out = scratch / name / rule
        run = DataRun((recorded,), out, config)
        with suppress(UserError):  # that nothing is left to train on, as the numbers show
            run_data(run, Report(Console(quiet=True)), "benchmarks/data.py", write_rows=rows_of_file)
        numbers = json.loads((out / NUMBERS).read_text())
        found[f"{name}, judged by {rule}"] = [
            {key: step[key] for key in ("name", "came_in", "went_out", "told", "seconds")} for step in numbers["steps"]
        ]
    return found


def tables(steps: dict[str, list[dict]]) -> str:
    """The steps of each recipe, as Markdown."""
    lines: list[str] = []
    for name, found in steps.items():
        lines += [f"**{name}**", "", "| step | in | out | what happened |", "| --- | ---: | ---: | --- |"]
        lines += [f"| {step['name']} | {step['came_in']:,} | {step['went_out']:,} | {step['told']} |" for step in found]
        lines.append("")
    return "\n".join(lines)


def speeds() -> dict[str, float]:
    """Rows a second of what holds an index of all rows."""
    rng = random.Random(0)
    words = [f"w{number}" for number in range(20_000)]
    asked = [QA(" ".join(rng.choices(words, k=25)), (str(number),)) for number in range(50_000)]
    template = [QA(f"Who is the mayor of the home town of the potter {rng.choice(words)}?", (str(n),)) for n in range(20_000)]
    found = {}
    for name, questions, by_answers in (("questions", asked, False), ("one template, with answers", template, True)):
        begin = time.perf_counter()
        question_groups(questions, by_answers=by_answers)
        found[f"{name}, grouped a second"] = round(len(questions) / (time.perf_counter() - begin))
    turns = [turns for count, turns in BUCKETS for _ in range(count)] * 20
    begin = time.perf_counter()
    resample([str(number) for number in range(len(turns))], turns, Schedule())
    found["trajectories, put in order a second"] = round(len(turns) / (time.perf_counter() - begin))
    return found


def main() -> None:
    """Run the pipeline and the measurements, and write them down."""
    recorded = os.environ.get("SANDERLING_RECORDED", "")
    if not Path(recorded).is_dir() or not recorded:
        sys.exit("SANDERLING_RECORDED names no directory of recorded trajectories.")
    turns = [turns for count, turns in BUCKETS for _ in range(count)]
    published = resample([str(number) for number in range(len(turns))], turns, Schedule())
    with tempfile.TemporaryDirectory() as scratch:
        steps = pipeline(Path(recorded), Path(scratch))
    result = {
        "command": "SANDERLING_RECORDED=DIRECTORY OMP_NUM_THREADS=1 python benchmarks/data.py",
        "machine": machine(),
        "date": time.strftime("%Y-%m-%d"),
        "tokenizer": load_tokenizer(SHIPPED_BASE).fingerprint,
        "resampling": {"before": published.before, "after": published.after, "rows": len(published.rows)},
        "steps": steps,
        "speeds": speeds(),
        "peak_memory_mb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6),
    }
    (HERE / "results" / "data.json").write_text(json.dumps(result, indent=1, ensure_ascii=False) + "\n")
    heading = f"`{result['command']}`; {result['machine']}; {result['date']}.\n\n"
    (HERE / "results" / "data.md").write_text(heading + tables(steps), encoding="utf-8")
    print(json.dumps({key: result[key] for key in ("speeds", "resampling", "peak_memory_mb")}, indent=1))
    if "--all" in sys.argv[1:]:
        for script in OTHERS:
            subprocess.run([sys.executable, str(HERE / script)], check=True)


if __name__ == "__main__":
    main()
