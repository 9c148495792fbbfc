"""``sanderling recipe``: run a whole recipe. Thin: `recipes` does the work."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from sanderling.cli.options import Fresh, Set, argument, option, or_help
from sanderling.runs.progress import Report, command_line
from sanderling.runs.stages import command_in

app = typer.Typer(no_args_is_help=True)


@app.command("run")
def run(
    name: Annotated[str, argument("NAME", "tiny, or a TOML file with other settings.")] = "tiny",
    out: Annotated[Path | None, option("--out", "Directory of the run; runs/NAME by default.")] = None,
    quick: Annotated[bool, option("--quick", "All stages, far too short to learn much; in runs/NAME-quick.")] = False,
    fresh: Fresh = False,
    sets: Set = None,
) -> None:
    """Run a recipe; finished stages are skipped, and an interrupted one resumes."""
    from sanderling.recipes.tiny import find_recipe
    from sanderling.recipes.tiny_stages import run_tiny

    config = or_help(lambda others: find_recipe(name, quick=quick, overrides=others), sets)
    directory = out or Path("runs") / (Path(name).stem + ("-quick" if quick else ""))
    with command_in(directory, fresh=fresh, reads=[config.base] if config.base else []):
        run_tiny(config, directory, Report(Console()), command_line())
