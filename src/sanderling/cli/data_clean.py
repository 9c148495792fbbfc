"""``sanderling data clean``: what may be imitated, step by step, with a report. All logic is in `data.cleaning`."""

import difflib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

from sanderling.cli import exits
from sanderling.core.config import load_config, read_config, to_toml
from sanderling.core.errors import UserError
from sanderling.core.profiles import get_profile
from sanderling.core.record import Trajectory
from sanderling.core.text import visible
from sanderling.data.cleaning import CleaningRecipe, CleanReport, Reason, get_recipe
from sanderling.data.cleaning.explain import explain
from sanderling.data.cleaning.files import Advance, CleanedFile, clean_file
from sanderling.data.importing import open_trajectories

_SHOWN = 110


def clean(
    file: Annotated[
        Path,
        typer.Argument(metavar="FILE", help="Trajectories: a store (.jsonl), Parquet, or recorded files or a folder of them."),
    ],
    out: Annotated[Path | None, typer.Option("--out", help="Where kept ones go: .jsonl or .parquet.")] = None,
    recipe: Annotated[
        str, typer.Option("--recipe", help="dr-venus, literesearcher, agentcpm, minimal, or a TOML file.")
    ] = "dr-venus",
    profile: Annotated[str, typer.Option("--profile", help="The agent to clean for; the recipe's own by default.")] = "",
    settings: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Another setting, such as repeats.with_goal=true.")
    ] = None,
    explained: Annotated[
        str | None, typer.Option("--explain", metavar="ID", help="Show one trajectory step by step, and write nothing.")
    ] = None,
    workers: Annotated[
        int,
        typer.Option(
            "--workers", min=1, help="Processes that clean, beside the one that reads; more than free cores gain nothing."
        ),
    ] = 1,
    examples: Annotated[bool, typer.Option("--examples", help="Print an example of everything that was done.")] = False,
) -> None:
    """Clean trajectories by a recipe; every dropped one is kept beside them with its reason."""
    chosen = _recipe(recipe, settings or [])
    target = get_profile(profile or chosen.profile)
    if explained is not None:
        Console().print(explain(_find(file, explained), chosen, target))
        return
    if out is None:
        raise UserError("Name the file that kept trajectories go to with --out, or one trajectory with --explain.")
    with _progress() as advance:
        done = clean_file(open_trajectories(file), out, chosen, target, origin=file, workers=workers, advance=advance)
    _print(done, examples)


def _recipe(name: str, overrides: list[str]) -> CleaningRecipe:
    """A named recipe or one in a file, with other settings laid over it."""
    if name.endswith(".toml"):
        return read_config(CleaningRecipe, Path(name), overrides)
    return load_config(CleaningRecipe, to_toml(get_recipe(name)), f"the recipe {name}", overrides)


def _find(file: Path, id: str) -> Trajectory:
    ids: list[str] = []
    for trajectory in open_trajectories(file):
        if trajectory.id == id:
            return trajectory
        ids.append(trajectory.id)
    near = difflib.get_close_matches(id, ids, n=1, cutoff=0.0)
    hint = f"did you mean {near[0]!r}?" if near else "it holds none at all."
    raise UserError(f"{file} holds no trajectory {id!r}: {hint}")


@contextmanager
def _progress() -> Iterator[Advance]:
    """A count that moves on the terminal."""
    columns = (SpinnerColumn(), TextColumn("cleaning"), TextColumn("{task.completed:,.0f} trajectories"), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("cleaning", total=None)
        try:
            yield lambda done: bar.update(task, advance=done)
        except KeyboardInterrupt:
            bar.console.print("Interrupted: nothing was written.")
            raise typer.Exit(exits.INTERRUPTED) from None


def _print(done: CleanedFile, examples: bool) -> None:
    console, report = Console(), done.report
    console.print(_steps(report))
    if examples:
        console.print(_examples(report))
    left = f", {report.dropped:,} dropped ({_plain(str(done.dropped))})" if report.dropped else ", none dropped"
    console.print(
        f"{report.came_in:,} came in, {report.kept:,} kept ({_plain(str(done.out))}; {report.changed:,} changed){left}. "
        f"Report: {_plain(str(done.report_file))}",
        highlight=False,
    )
    silent = report.reasons.get(Reason.NO_REASONING.value, 0)
    if silent:
        console.print(
            f"{silent:,} were dropped because their turns show no reasoning, which the profile's agents are trained to write: "
            "use a teacher that shows it, or keep them as they are with --recipe minimal.",
            highlight=False,
        )


def _steps(report: CleanReport) -> Table:
    table = Table("step", "in", "out", "changed", "what was done")
    for column in table.columns[1:4]:
        column.justify = "right"
    for step in report.steps:
        dropped = (f"[red]dropped {count.number:,} {code}[/red]" for code, count in step.dropped.items())
        done = (f"{count.number:,} {code} in {count.trajectories:,}" for code, count in step.notes.items())
        told = "\n".join((*dropped, *done))
        table.add_row(step.step, f"{step.came_in:,}", f"{step.went_out:,}", f"{step.changed:,}", told)
    return table


def _examples(report: CleanReport) -> Table:
    table = Table("step", "code", "trajectory", "before", "after", show_lines=True)
    for step in report.steps:
        for code, count in (*step.dropped.items(), *step.notes.items()):
            one = count.example
            if one is not None and (one["before"] or one["after"]):
                shown = (one["trajectory"], one["before"][:_SHOWN], one["after"][:_SHOWN])
                table.add_row(step.step, code, *(_plain(text) for text in shown))
    return table


def _plain(text: str) -> str:
    return escape(visible(text))
