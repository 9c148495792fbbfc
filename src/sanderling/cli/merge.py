"""``sanderling merge``: several models into one, and which coefficients keep which skill. `sanderling.merge` does the work."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from sanderling.cli.options import ConfigFile, Judges, ProfileName, Set, Worlds, argument, option, settings, show
from sanderling.core.errors import UserError
from sanderling.merge.run import RECORD, read_merge
from sanderling.merge.run import merge as merge_models
from sanderling.merge.settings import MergeSettings, Method
from sanderling.merge.sweep import REPORT, Axis, SweepConfig, run_sweep
from sanderling.runs.progress import Report, command_line

app = typer.Typer(no_args_is_help=True, help="Merge models of one base, and see which coefficients keep which skill.")
MethodName = Annotated[Method, argument("METHOD", f"One of {', '.join(Method)}.")]
Models = Annotated[list[Path], argument("MODEL...", "Local Hugging Face directories.")]
Base = Annotated[Path | None, option("--base", "What the models were trained from; not for linear and slerp.")]
Weights = Annotated[list[float] | None, option("--weight", "One for each model; equal shares by default.")]
Skills = Annotated[list[str], option("--skill", "A file of questions; repeatable.", "NAME=QUESTIONS")]


@app.command()
def run(
    method: MethodName,
    models: Models,
    out: Annotated[Path, option("--out", "Directory of the merged model.")],
    weights: Weights = None,
    base: Base = None,
    scale: Annotated[float | None, option("--scale", "λ: multiplies the sum of differences from the base.")] = None,
    t: Annotated[float | None, option("--t", "slerp: 0 is the first model, 1 the second.")] = None,
    density: Annotated[float | None, option("--density", "Share of entries kept (ties, dare).")] = None,
    config: ConfigFile = None,
    sets: Set = None,
) -> None:
    """Merge models that were trained from one base into one, tensor by tensor.

    The directory appears whole or not at all, with merge.json, which says what went into it.
    """
    given = {"method": method, "models": models, "weights": weights, "base": base, "scale": scale, "t": t, "density": density}
    chosen = settings(MergeSettings, config, sets, given)
    if (out / RECORD).is_file() and read_merge(out).settings != chosen:
        raise UserError(f"{out} holds another merge: choose another place, or remove it first.")
    with Console(stderr=True).status("Checking and merging"):
        record = merge_models(chosen, out, command_line())
    show(f"{method} of {len(models)} models in {out} ({record.dtype})")


@app.command()
def sweep(
    method: MethodName,
    models: Models,
    out: Annotated[Path, option("--out", "Directory of the sweep; the best model is its best/.")],
    skills: Skills,
    over: Annotated[Axis | None, option("--over", "What is swept; weight by default.")] = None,
    base: Base = None,
    worlds: Worlds = None,
    profile: ProfileName = None,
    judges: Judges = None,
    config: ConfigFile = None,
    sets: Set = None,
) -> None:
    """Measure merges along an axis on several skills, and keep the best merged model.

    The inputs are measured, too. If interrupted, run the same command again to resume; other values are
    added to those that are there.
    """
    if "help" in (sets or ()):  # for which arguments may be missing
        settings(SweepConfig, config, sets)
    given = {"merge.method": method, "merge.models": models, "merge.base": base, "over": over, "skills": _skills(skills)}
    given |= {"agent.worlds": worlds or None, "agent.profile": profile, "judge.judges": judges or None}
    report = run_sweep(settings(SweepConfig, config, sets, given), out.resolve(), command_line(), Report(Console(stderr=True)))
    show(report.table())
    if report.best is None:
        show("No point could be measured: too many attempts ended in outages.")
    else:
        show(f"The best merge is {out / 'best'}; measure it on questions that did not choose it before a claim.")
        first = max(report.inputs, key=lambda one: one.mean or 0.0)
        if report.chosen is not None and (first.mean or 0.0) >= (report.chosen.mean or 0.0):
            show(f"No merge has more than {first.name}, which went into it.")
    show(f"The figures are in {out / REPORT}.")


def _skills(specs: Sequence[str]) -> dict[str, Path]:
    """The files of questions by skill. Raises UserError."""
    pairs = [spec.partition("=") for spec in specs]
    found = {name: Path(file) for name, _, file in pairs if file and re.fullmatch(r"[\w-]+", name)}
    if len(found) < len(specs):
        raise UserError("--skill is NAME=QUESTIONS: give each a name of its own in letters, digits and dashes, and a file.")
    return found
