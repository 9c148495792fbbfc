"""``sanderling show``: one recorded episode, readable. All logic is in `data.show`."""

from pathlib import Path
from typing import Annotated

import typer

from sanderling.data.show import show_file


def show(
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE", help="A store (.jsonl), a .parquet file, a run's directory, or a recorded file of another system."
        ),
    ],
    id: Annotated[str | None, typer.Option("--id", help="Print the trajectory with this id.")] = None,
    index: Annotated[
        int | None, typer.Option("--index", min=0, help="Print the trajectory at this place, from 0; without it, the first.")
    ] = None,
    full: Annotated[bool, typer.Option("--full", help="Print reasoning and observations whole.")] = False,
    credit: Annotated[
        Path | None, typer.Option("--credit", help="OUT/credit/STEP.jsonl of train rl: tell each turn's gain and credit.")
    ] = None,
) -> None:
    """Print a trajectory: question, turns, observations in short, answer, ending, usage."""
    show_file(file, id=id, index=index, full=full, credit=credit)
