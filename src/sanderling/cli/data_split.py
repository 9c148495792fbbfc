"""``sanderling data split``: parts that share no question. All logic is in `data.dedupe`."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from rich import box
from rich.console import Console
from rich.table import Table

from sanderling.data.similar import LEAST_THRESHOLD, THRESHOLD


class By(StrEnum):
    """What is never in two parts."""

    QUESTION = "question"


def split(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Trajectories: a store (.jsonl), Parquet or a recorded file.")],
    out: Annotated[Path, typer.Option("--out", help="Directory of the parts, NAME.jsonl each.")],
    share: Annotated[str, typer.Option("--share", help="Names and shares of questions.")] = "train=0.95,validation=0.05",
    by: Annotated[By, typer.Option("--by", help="What is never in two parts, its near-duplicates included.")] = By.QUESTION,
    seed: Annotated[int, typer.Option("--seed", help="Of the hash that decides.")] = 0,
    threshold: Annotated[
        float, typer.Option("--threshold", min=LEAST_THRESHOLD, max=1.0, help="Least similarity of a near-duplicate.")
    ] = THRESHOLD,
    by_answers: Annotated[
        bool,
        typer.Option(
            "--by-answers/--by-text", help="Whether near-duplicates with different answers may be apart: for templates."
        ),
    ] = False,
) -> None:
    """Share out trajectories so that no question stands in two parts; adding rows later moves no other."""
    from sanderling.data.dedupe import Shares, split_file

    done = split_file(file, out, Shares.read(share), seed=seed, threshold=threshold, by_answers=by_answers)
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for head in ("part", "trajectories", "share", "questions", "share"):
        table.add_column(head, justify="left" if head == "part" else "right", no_wrap=True)
    rows, asked = sum(part.trajectories for part in done), sum(part.questions for part in done)
    for name, count, questions in done:
        table.add_row(name, f"{count:,}", _share(count, rows), f"{questions:,}", _share(questions, asked))
    Console().print(table)


def _share(part: int, whole: int) -> str:
    return f"{part / whole:.1%}" if whole else "–"
