"""``sanderling data run``: raw files to supervised rows in one command. Thin: `recipes.data` does the work."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from sanderling.cli import exits


def run(
    sources: Annotated[list[Path], typer.Argument(metavar="SOURCES...", help="Raw files or folders of them, in any layout.")],
    out: Annotated[Path, typer.Option("--out", help="Directory of the run.")],
    recipe: Annotated[
        str, typer.Option("--recipe", help="dr-venus, literesearcher, agentcpm, or a TOML file with other settings.")
    ] = "dr-venus",
    tokenizer: Annotated[
        Path | None, typer.Option("--tokenizer", help="A directory with tokenizer.json; without it no rows are made.")
    ] = None,
    overrides: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="A setting, such as judge.keep=all; as often as you like."),
    ] = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="Delete what the directory holds and begin again.")] = False,
) -> None:
    """Import, clean, judge, dedupe, split, resample, make rows, and report; steps that are done are skipped."""
    from sanderling.evaluate.provenance import command_line
    from sanderling.recipes.data.layout import Layout
    from sanderling.recipes.data.run import find_data_recipe, run_data
    from sanderling.recipes.progress import Report
    from sanderling.recipes.stages import clear_run

    laid_over = [*(overrides or []), *([f"tokenizer='{tokenizer.resolve()}'"] if tokenizer is not None else [])]
    layout = Layout(tuple(sources), out, find_data_recipe(recipe, laid_over))
    layout.check()
    if fresh:
        clear_run(out)
    try:
        run_data(layout, Report(Console()), command_line())
    except KeyboardInterrupt:
        Console(stderr=True).print("Interrupted: the same command goes on where it stopped.", soft_wrap=True)
        raise typer.Exit(exits.INTERRUPTED) from None
