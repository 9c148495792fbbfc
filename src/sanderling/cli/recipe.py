"""``sanderling recipe``: run a whole recipe, or make the base model the tiny one starts from. Thin: recipes do the work."""

import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from sanderling.cli import exits
from sanderling.runs.progress import Report

app = typer.Typer(no_args_is_help=True)


@app.command("run")
def run(
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="tiny, merge-tiny, ablation-tiny, or a TOML file with other settings.")
    ],
    out: Annotated[Path | None, typer.Option("--out", help="Directory of the run; runs/NAME by default.")] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="All stages, far too short to learn much; in runs/NAME-quick.")
    ] = False,
    overrides: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="A setting, such as rl.steps=20; as often as you like."),
    ] = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="Delete what the directory holds and begin again.")] = False,
) -> None:
    """Run a recipe; stages that are done are skipped, and a stage that was killed goes on where it was."""
    from sanderling.recipes.registry import find_recipe
    from sanderling.runs.run_record import RunRecord
    from sanderling.runs.stages import STAGES, clear_run

    recipe = find_recipe(name, quick=quick, overrides=overrides or [])
    directory = out or Path("runs") / (recipe.name + ("-quick" if quick else ""))
    command = shlex.join(["sanderling", *sys.argv[1:]])
    with _goes_on("the same command without --fresh" if fresh else "the same command"):
        if fresh:
            clear_run(directory, recipe.reads)
        RunRecord(directory, STAGES).check_empty()
        recipe.run(directory, Report(Console()), command)


@app.command("base")
def base(
    out: Annotated[Path, typer.Option("--out", help="Directory of the run; the model is in its model/.")],
) -> None:
    """Train the tiny recipe's base model on generated worlds, with the settings of the shipped one."""
    from sanderling.recipes.base import BaseConfig, train_base
    from sanderling.runs.locks import locked

    config = BaseConfig()
    report = Report(Console())
    with _goes_on("the same command"), locked(out), report.task("Base model", config.steps) as advance:
        seen = 0

        def on_step(step: int, metrics: dict[str, float]) -> None:
            nonlocal seen
            advance(step - seen, f"loss {metrics['loss']:.3f}")
            seen = step

        directory = train_base(config, out, on_step)
    report.say(f"The base model is in {directory}.")


@contextmanager
def _goes_on(command: str) -> Iterator[None]:
    """After Ctrl-C, one sentence that says what to do, and exit status 130."""
    try:
        yield
    except KeyboardInterrupt:
        Console(stderr=True).print(f"Interrupted: {command} goes on where it stopped.", soft_wrap=True)
        raise typer.Exit(exits.INTERRUPTED) from None
