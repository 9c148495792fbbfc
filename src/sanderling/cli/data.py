"""``sanderling data``: trajectories from raw files to supervision. Thin: each command has a file of its own."""

import typer

app = typer.Typer(no_args_is_help=True)


@app.callback()
def data() -> None:
    """Turn raw trajectories into supervision."""
