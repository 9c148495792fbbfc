"""``sanderling show``: one recorded episode, readable. All logic is in `data.show`."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from sanderling.data.show import find_trajectory, render


def show(
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE", help="A store (.jsonl), a .parquet file, a run's directory, or a recorded file of another system."
        ),
    ],
    id: Annotated[str | None, typer.Option("--id", help="Print the trajectory with this id.")] = None,
    index: Annotated[int, typer.Option("--index", min=0, help="Print the trajectory at this place, from 0.")] = 0,
    full: Annotated[bool, typer.Option("--full", help="Print reasoning and observations whole.")] = False,
) -> None:
    """Print a trajectory: question, turns, observations in short, answer, ending, usage."""
    Console().print(render(find_trajectory(file, id=id, index=index), full=full))
