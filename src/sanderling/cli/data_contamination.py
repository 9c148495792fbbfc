"""``sanderling data contamination``: what benchmarks ask as well. All logic is in `data.contamination`."""

import dataclasses
import json
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.text import Text

from sanderling.core.errors import UserError
from sanderling.core.text import visible
from sanderling.data.similar import LEAST_THRESHOLD, THRESHOLD
from sanderling.runs.files import replace_file

_SHOWN = 8
_LONGEST = 300


def contamination(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="Trajectories or questions, in any layout that can be imported.")
    ],
    against: Annotated[
        list[Path], typer.Option("--against", metavar="FILE", help="A benchmark's questions; as often as you like.")
    ],
    out: Annotated[Path | None, typer.Option("--out", help="Write what was not recognised: .jsonl.")] = None,
    report: Annotated[
        Path | None, typer.Option("--report", help="Write everything recognised, with both texts, as JSON.")
    ] = None,
    read: Annotated[
        bool, typer.Option("--read", help="Look for the benchmarks' questions in what the agents read, too.")
    ] = False,
    threshold: Annotated[
        float, typer.Option("--threshold", min=LEAST_THRESHOLD, max=1.0, help="Least similarity of a near-duplicate.")
    ] = THRESHOLD,
) -> None:
    """Find questions that benchmarks ask as well: the same words, nearly, contained, or alike with the same answer."""
    from sanderling.data.contamination import check_file, kinds
    from sanderling.runs.files import check_places

    check_places([file, *against], [place for place in (out, report) if place is not None])
    if out is not None and out.suffix != ".jsonl":
        raise UserError(f"{out} is written as JSON lines: end its name in .jsonl.")
    done = check_file(file, against, threshold=threshold, read=read, out=out)
    console = Console()
    told = ", ".join(f"{count:,} {kind}" for kind, count in kinds(done.hits).items())
    console.print(
        f"{done.rows:,} checked against {done.benchmarks:,} questions: {len(done.hits):,} recognised"
        f"{f' ({told})' if told else ''}.",
        highlight=False,
    )
    for hit in done.hits[:_SHOWN]:
        alike = f" {hit.similarity:.2f}" if hit.similarity is not None else ""
        answer = {True: ", the same answer", False: ", another answer", None: ""}[hit.same_answer]
        console.print(Text(f"{hit.kind.value}{alike}{answer}", style="bold"))
        for id, text in ((hit.id, hit.question), (hit.benchmark, hit.benchmark_question)):
            console.print(Text(f"  {visible(id)}: {visible(text[:_LONGEST])}"))
    if len(done.hits) > _SHOWN:
        console.print(f"… and {len(done.hits) - _SHOWN:,} more: --report FILE writes all of them.", highlight=False)
    if report is not None:
        replace_file(report, json.dumps([dataclasses.asdict(hit) for hit in done.hits], indent=1) + "\n")
