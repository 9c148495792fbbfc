"""``sanderling merge``: several models into one, and which coefficients keep which skill. `sanderling.merge` does the work."""

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from sanderling.cli.options import AGENT, JUDGING, PLACE, ConfigFile, Set, settings, show
from sanderling.core.errors import UserError
from sanderling.core.profiles import PROFILES
from sanderling.merge.settings import Dtype, MergeSettings, Method
from sanderling.merge.sweep import PAGE, Axis, SweepConfig, run_sweep
from sanderling.report.numbers import duration
from sanderling.runs.progress import Report
from sanderling.runs.provenance import command_line

app = typer.Typer(no_args_is_help=True)
MethodName = Annotated[Method, typer.Argument(metavar="METHOD", help=f"One of {', '.join(Method)}.")]
Models = Annotated[list[Path], typer.Argument(metavar="MODEL...", help="Local Hugging Face directories.")]
Base = Annotated[Path | None, typer.Option("--base", help="What the models were trained from; not for linear and slerp.")]
Weights = Annotated[
    list[float] | None, typer.Option("--weight", help="One for each model, in their order; equal shares by default.")
]
Scale = Annotated[float | None, typer.Option("--scale", help="λ: multiplies the sum of differences from the base.")]
Density = Annotated[float | None, typer.Option("--density", help="Share of entries kept (ties, dare, della).")]


@app.callback()
def merge() -> None:
    """Merge models in the space of their parameters, and see which coefficients keep which skill."""


@app.command()
def run(
    method: MethodName,
    models: Models,
    out: Annotated[Path, typer.Option("--out", help="Directory of the merged model.")],
    weights: Weights = None,
    base: Base = None,
    scale: Scale = None,
    t: Annotated[float | None, typer.Option("--t", help="slerp: 0 is the first model, 1 the second.")] = None,
    density: Density = None,
    dtype: Annotated[
        Dtype | None, typer.Option("--dtype", help="What weights are stored in; as the first model by default.")
    ] = None,
    config: ConfigFile = None,
    sets: Set = None,
) -> None:
    """Merge models that were trained from one base into one, tensor by tensor.

    The directory appears whole or not at all, with merge.json, which says what went into it.
    """
    from sanderling.merge.run import merge as merge_models

    given = _given(method, models, weights, base, scale, density) | {"t": t, "dtype": dtype}
    chosen = settings(MergeSettings, config, sets, given)
    _refuse_idle(chosen)
    for doubt in chosen.doubts():
        warnings.warn(doubt, stacklevel=1)
    with Console(stderr=True).status("Checking and merging"):
        record = merge_models(chosen, out, command_line())
    show(f"{method} of {len(models)} models in {out} ({record.dtype}, {duration(record.seconds)})")


@app.command()
def sweep(
    method: MethodName,
    models: Models,
    out: Annotated[Path, typer.Option("--out", help="Directory of the sweep; the best model is its best/.")],
    skills: Annotated[list[str], typer.Option("--skill", metavar="NAME=QUESTIONS", help="A file of questions; repeatable.")],
    over: Annotated[Axis | None, typer.Option("--over", help="What is swept; weight by default.")] = None,
    values: Annotated[str | None, typer.Option("--values", help="Where; 0,0.25,0.5,0.75,1 by default.")] = None,
    weights: Weights = None,
    base: Base = None,
    worlds: Annotated[
        list[Path] | None,
        typer.Option("--world", help="A world, or those that questions name in meta.world.", rich_help_panel=PLACE),
    ] = None,
    profile: Annotated[
        str | None, typer.Option("--profile", help=f"tiny by default, or of {', '.join(PROFILES)}.", rich_help_panel=AGENT)
    ] = None,
    judges: Annotated[
        list[str] | None,
        typer.Option("--judge", help="A rule or a model; repeatable; exact by default.", rich_help_panel=JUDGING),
    ] = None,
    attempts: Annotated[int | None, typer.Option("--attempts", min=1, help="At each question; 1 by default.")] = None,
    config: ConfigFile = None,
    sets: Set = None,
) -> None:
    """Measure merges along an axis on several skills, write the curve, and keep the best merged model.

    The inputs are measured, too. Killed or stopped, the same command goes on; other values are added to those that are there.
    """
    from sanderling.merge.report import sentences, terminal_table

    if "help" in (sets or ()):  # for which arguments may be missing
        settings(SweepConfig, config, sets)
    out = out.resolve()
    if not out.name:
        raise UserError(f"{out} is the root of the file system: choose another directory with --out.")
    merging = {f"merge.{name}": value for name, value in _given(method, models, weights, base, None, None).items()}
    given = merging | {
        "over": over,
        "values": None if values is None else _values(values),
        "skills": _skills(skills),
        "agent.worlds": worlds,
        "agent.profile": profile,
        "judge.judges": judges,
        "attempts": attempts,
    }
    chosen = settings(SweepConfig, config, sets, given)
    _refuse_idle(chosen.merge)
    report = run_sweep(chosen, out, command_line(), Report(Console(stderr=True)))
    show(terminal_table(report), *sentences(report))
    kept = f", the best model {out / 'best'}" if report.best else ""
    show(f"The page is {out / PAGE}{kept}.")


def _given(
    method: Method, models: Sequence[Path], weights: Any, base: Path | None, scale: float | None, density: float | None
) -> dict[str, Any]:
    """What the options say of a merge, by the key of their setting."""
    return {"method": method, "models": models, "weights": weights, "base": base, "scale": scale, "density": density}


def _refuse_idle(chosen: MergeSettings) -> None:
    for name in chosen.idle():
        raise UserError(f"{chosen.method} has no use for {name}: leave it out.")


def _values(words: str) -> list[float]:
    try:
        return [float(word) for word in words.split(",")]
    except ValueError as error:
        raise UserError(f"--values {words!r} are no numbers: write for example 0,0.25,0.5,0.75,1.") from error


def _skills(specs: Sequence[str]) -> dict[str, Path]:
    """The files of questions by skill. Raises UserError."""
    found: dict[str, Path] = {}
    for spec in specs:
        name, equals, file = spec.partition("=")
        if not (equals and file and name.replace("-", "").replace("_", "").isalnum()):
            raise UserError(f"--skill {spec!r} is none: write NAME=QUESTIONS, the name in letters, digits and dashes.")
        if name in found:
            raise UserError(f"The skill {name} is there twice: give each another name.")
        found[name] = Path(file)
    return found
