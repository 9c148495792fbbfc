"""``sanderling data resample``: long trajectories more often. All logic is in `data.resample`."""

from pathlib import Path
from typing import Annotated

import typer
from rich import box
from rich.console import Console
from rich.table import Table

from sanderling.core.errors import UserError


def resample(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Trajectories: a store (.jsonl), Parquet or a recorded file.")],
    out: Annotated[Path, typer.Option("--out", help="Where to write: .jsonl or .parquet.")],
    thresholds: Annotated[
        str, typer.Option("--thresholds", help="Turns at which a bucket ends, ascending; so many are still in it.")
    ] = "50,100",
    weights: Annotated[str, typer.Option("--weights", help="Copies in each bucket, one more than thresholds.")] = "1,2,5",
    seed: Annotated[int, typer.Option("--seed", help="Of the order.")] = 0,
) -> None:
    """Repeat trajectories by their turns, shuffled, copies of one never side by side where that is possible."""
    from sanderling.data.resample import Schedule, resample_file
    from sanderling.runs.files import check_places

    check_places([file], [out])
    schedule = Schedule(_numbers(thresholds, "--thresholds"), _numbers(weights, "--weights"))
    result = resample_file(file, out, schedule, seed)
    came_in, written = sum(result.before), len(result.rows)
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for head in ("turns", "copies", "before", "share", "after", "share"):
        table.add_column(head, justify="left" if head == "turns" else "right", no_wrap=True)
    for name, weight, before, after in zip(schedule.names(), schedule.weights, result.before, result.after, strict=True):
        table.add_row(name, str(weight), f"{before:,}", _share(before, came_in), f"{after:,}", _share(after, written))
    table.add_section()
    table.add_row("all", "", f"{came_in:,}", "", f"{written:,}", "")
    console = Console()
    console.print(table)
    if result.like_copies:
        console.print(
            f"{result.like_copies:,} ids end as those of copies do: if this file was resampled before, "
            "resample the one it was made from instead."
        )
    if result.neighbours:
        console.print(f"{result.neighbours} copies stand side by side: too few other trajectories to keep them apart.")


def _numbers(text: str, option: str) -> tuple[int, ...]:
    try:
        return tuple(int(part) for part in text.split(",") if part.strip())
    except ValueError as error:
        raise UserError(f"{option} is {text!r}: give whole numbers with commas between them, such as 50,100.") from error


def _share(part: int, whole: int) -> str:
    return f"{part / whole:.1%}" if whole else "–"
