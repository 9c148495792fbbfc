"""``sanderling synth``: questions from a world. Thin: each command has a file of its own."""

import typer

app = typer.Typer(no_args_is_help=True)


@app.callback()
def synth() -> None:
    """Make questions from a world."""
