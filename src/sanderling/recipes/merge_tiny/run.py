"""The recipe on forgetting from end to end, and what it found in plain words, whichever way it went."""

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rich import box
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from sanderling import __version__
from sanderling.evaluate.result import EvalResult
from sanderling.merge.report import SweepReport
from sanderling.merge.run import require_mergekit
from sanderling.recipes.merge_tiny.config import MergeTinyConfig
from sanderling.recipes.merge_tiny.figures import Figures, cells, differences, judged, shown
from sanderling.recipes.merge_tiny.material import Material, build, teach
from sanderling.recipes.merge_tiny.models import (
    ANCESTOR,
    BOTH,
    MERGED,
    measure_model,
    model_names,
    specialist,
    sweep_models,
    train_ancestor,
    train_both,
    train_specialist,
)
from sanderling.report.numbers import percent, span
from sanderling.runs.files import replace_file
from sanderling.runs.progress import Report
from sanderling.runs.provenance import machine
from sanderling.runs.stages import Stage, run_stages
from sanderling.train.metrics import read_metrics
from sanderling.train.parallel.workers import Task, run_tasks

FIGURES = "figures.json"


def run_merge_tiny(config: MergeTinyConfig, directory: Path, report: Report, command: str) -> None:
    """Run what is not done yet, write ``figures.json`` and print it. Raises UserError as the tiny recipe does."""
    mergekit = require_mergekit()
    material = Material(directory.resolve(), config)
    material.layout.check()
    stages = [
        Stage("worlds", "Worlds, and questions of each skill", lambda: build(material, report)),
        Stage("teach", "Trajectories of a teacher", lambda: teach(material, report)),
        Stage("ancestor", "SFT on both skills, for the ancestor", lambda: _train_ancestor(material, report)),
        Stage(
            "branches",
            "SFT on one skill only from there, twice; and on both",
            lambda: _train_branches(material, report),
            config.workers,
        ),
        Stage("sweep", "Merges, measured on the validation world", lambda: _sweep(material, command, report), 1),
        Stage("measure", "Every model on the held-out world", lambda: _measure(material, command, report), config.workers),
    ]

    records = run_stages(stages, material.root, config.model_dump(mode="json"), report)
    results = {name: _results(material, name) for name in model_names(material.skills)}
    compared = differences(results)
    sweep = SweepReport.model_validate_json((material.root / "sweep" / "sweep.json").read_bytes())
    found = Figures(
        command=command,
        version=__version__,
        mergekit=mergekit,
        machine=machine(),
        date=datetime.now(UTC).isoformat(timespec="seconds"),
        settings=config.model_dump(mode="json"),
        stages={record.name: round(record.seconds, 1) for record in records},
        method=config.sweep.method.value,
        weight=sweep.best[0] if sweep.best else None,
        validation={
            point.name: {name: f"{percent(score.value)} ({span(score.interval)})" for name, score in point.skills.items()}
            for point in sweep.points
        },
        held_out=cells(results),
        differences=compared,
        verdict=judged(list(material.skills), compared),
    )
    replace_file(material.root / FIGURES, found.model_dump_json(indent=1) + "\n")
    report.console.print(_table(found))
    for difference in found.differences:
        report.say(difference.sentence)
    for sentence in found.verdict.sentences:
        report.say(sentence)
    report.say(f"The curve is {material.root / 'sweep' / 'sweep.html'}, the figures are {material.root / FIGURES}.")


def _train_ancestor(material: Material, report: Report) -> dict[str, Any]:
    (found,) = _train(material, {ANCESTOR: Task(train_ancestor, (material,))}, material.config.ancestor.max_steps or 0, report)
    return found


def _train_branches(material: Material, report: Report) -> dict[str, Any]:
    """Everything that goes on from the ancestor; the longest task first."""
    tasks = {BOTH: Task(train_both, (material,))}
    tasks |= {specialist(skill): Task(train_specialist, (material, skill)) for skill in material.skills}
    steps = (material.config.both.max_steps or 0) + 2 * (material.config.specialist.max_steps or 0)
    return dict(zip(tasks, _train(material, tasks, steps, report), strict=True))


def _train(material: Material, tasks: Mapping[str, Task], steps: int, report: Report) -> list[dict[str, Any]]:
    """Train models at the same time, a process each."""
    with report.task("SFT", steps) as advance:
        seen = 0

        def poll() -> None:
            nonlocal seen
            done = sum(len(read_metrics(material.root / name / "metrics.jsonl")) for name in tasks)
            advance(done - seen)
            seen = done

        return run_tasks(list(tasks.values()), material.config.workers, poll)


def _sweep(material: Material, command: str, report: Report) -> dict[str, Any]:
    counter = material.root / "sweep.count"
    points = len(material.config.sweep.values)
    with report.task("Sweep", points) as advance:
        seen = 0

        def poll() -> None:
            nonlocal seen
            done = len(list((material.root / "sweep" / "points").glob("*.json")))
            advance(done - seen, counter.read_text(encoding="utf-8") if counter.is_file() else None)
            seen = done

        (found,) = run_tasks([Task(sweep_models, (material, command))], 1, poll)
    chosen = found.chosen
    return {"best": found.best, "mean": chosen.mean.value if chosen is not None and chosen.mean is not None else None}


def _measure(material: Material, command: str, report: Report) -> dict[str, Any]:
    names = model_names(material.skills)
    with report.task("Measure on held-out", len(names)) as advance:
        seen = 0

        def poll() -> None:
            nonlocal seen
            done = sum(all(_file(material, name, skill).is_file() for skill in material.skills) for name in names)
            advance(done - seen)
            seen = done

        tasks = [Task(measure_model, (material, name, command)) for name in names]
        results = run_tasks(tasks, material.config.workers, poll)
    return {
        name: {skill: result.pass_at_1.value for skill, result in found.items()}
        for name, found in zip(names, results, strict=True)
    }


def _file(material: Material, name: str, skill: str) -> Path:
    return material.root / "held-out" / name / f"{skill}.json"


def _results(material: Material, name: str) -> Mapping[str, EvalResult]:
    return {skill: EvalResult.load(_file(material, name, skill)) for skill in material.skills}


def _table(found: Figures) -> Table:
    """Models by skills, on the held-out world."""
    skills = list(next(iter(found.held_out.values())))
    meaning = {
        ANCESTOR: "SFT on both",
        **{specialist(skill): f"… then on {skill} only" for skill in skills},
        MERGED: f"{found.method} merge of the two, weight {found.weight}",
        BOTH: "… then on both, as many steps as the two",
    }
    table = Table("model", "what it is", *map(escape, skills), box=box.SIMPLE_HEAD, header_style="bold")
    for name, words in meaning.items():
        table.add_row(name, words, *[Text(shown(found.held_out[name][skill])) for skill in skills])
    return table
