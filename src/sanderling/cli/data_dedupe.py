"""``sanderling data dedupe``: one trajectory for each question. All logic is in `data.dedupe`."""

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.text import Text

from sanderling.core.text import visible
from sanderling.data.dedupe import Prefer
from sanderling.data.similar import LEAST_THRESHOLD, THRESHOLD
from sanderling.runs.files import replace_file

_SHOWN = 5
_LONGEST = 300


def dedupe(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Trajectories: a store (.jsonl), Parquet or a recorded file.")],
    out: Annotated[Path, typer.Option("--out", help="Where to write what is kept: .jsonl or .parquet.")],
    keep: Annotated[int, typer.Option("--keep", min=1, help="Most trajectories of one question.")] = 1,
    prefer: Annotated[Prefer, typer.Option("--prefer", help="Which of those that are equally right.")] = Prefer.SHORTEST,
    threshold: Annotated[
        float, typer.Option("--threshold", min=LEAST_THRESHOLD, max=1.0, help="Least similarity of a near-duplicate.")
    ] = THRESHOLD,
    by_answers: Annotated[
        bool, typer.Option("--by-answers/--by-text", help="Whether questions whose known answers differ are different ones.")
    ] = True,
    report: Annotated[
        Path | None, typer.Option("--report", help="Write everything left out, with its stand-in, as JSON.")
    ] = None,
) -> None:
    """Keep the best trajectory of each question and of its near-duplicates: judged right, answered, then by length."""
    from sanderling.data.dedupe import dedupe_file
    from sanderling.runs.files import check_places

    check_places([file], [place for place in (out, report) if place is not None])
    done, left_out = dedupe_file(file, out, threshold=threshold, by_answers=by_answers, keep=keep, prefer=prefer)
    console = Console()
    console.print(
        f"{len(done.kept) + len(left_out):,} trajectories of {done.questions:,} questions: {len(done.kept):,} kept, "
        f"{len(left_out):,} left out; at most {done.largest:,} of one question.",
        highlight=False,
    )
    for one in [one for one in left_out if one["question"] != one["kept_question"]][:_SHOWN]:
        console.print(Text(f"  {visible(one['id'])} asks {visible(one['question'][:_LONGEST])!r}"))
        console.print(Text(f"    as {visible(one['kept'])}: {visible(one['kept_question'][:_LONGEST])!r}", style="dim"))
    if report is not None:
        replace_file(report, json.dumps(left_out, indent=1) + "\n")
