"""``sanderling merge``: several models into one. Thin: each command has a file of its own."""

import typer

from sanderling.cli.merge_run import run
from sanderling.cli.merge_sweep import sweep

app = typer.Typer(no_args_is_help=True)


@app.callback()
def merge() -> None:
    """Merge models in the space of their parameters, and see which coefficients keep which skill."""


app.command()(run)
app.command()(sweep)
