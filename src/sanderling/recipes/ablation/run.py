"""The ablation from end to end: worlds, the model that all begin with, trials of tuning, units, the report after each of them.

Units and trials are files of their own: killed at any moment, the same command goes on, and what is done so far is in
``report.md``. Nothing is decided here that the settings do not say.
"""

import json
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from sanderling.policy.model_directory import check_model
from sanderling.recipes.ablation.config import AblationConfig
from sanderling.recipes.ablation.layout import Layout, Unit
from sanderling.recipes.ablation.report import write_ablation
from sanderling.recipes.ablation.start import begin_with
from sanderling.recipes.ablation.units import run_unit
from sanderling.recipes.tiny.data import build_worlds
from sanderling.runs.progress import Report
from sanderling.runs.stages import Stage, is_done, read_record, run_stages
from sanderling.train.parallel.workers import Task, run_tasks

_HOW = frozenset({"workers", "keep_rollouts", "title"})
"""Settings that only say how the work is done."""


def run_ablation(config: AblationConfig, directory: Path, report: Report, command: str) -> None:
    """Run what is not done yet and write the report.

    Raises UserError when the directory holds a run with other settings, and when ``start`` is no model.
    """
    layout = Layout(directory.resolve(), config)
    if config.start is not None and not is_done(layout.root, "start"):
        check_model(config.start)  # before worlds are built for it
    stages = [
        Stage("worlds", "Worlds and questions of each setting", lambda: _worlds(layout, report)),
        Stage("start", "The model that every arm begins with", lambda: begin_with(layout, command, report), config.workers),
        Stage("tune", "Trials of each arm", lambda: _tuned(layout, report), config.workers),
        Stage("units", "Arms over seeds", lambda: _run_all(layout, command, report), config.workers),
    ]

    run_stages(stages, layout.root, config.model_dump(mode="json", exclude=set(_HOW)), report)
    page = write_ablation(layout, command)
    report.console.print(page.read_text(encoding="utf-8"), markup=False, highlight=False, soft_wrap=True)
    report.say(f"The report is {page}; what it is made of: {layout.root / 'units'}.")


def _worlds(layout: Layout, report: Report) -> dict[str, Any]:
    return {setting: build_worlds(layout.worlds(setting), report) for setting in layout.config.settings}


def _tuned(layout: Layout, report: Report) -> dict[str, Any]:
    """Each arm's learning rate in each setting: of its trials the one that ended best on the validation world."""
    trials, first = layout.trials(), layout.config.tuning.lrs[0]
    if not trials:
        return {"lrs": {setting: dict.fromkeys(layout.trained, first) for setting in layout.config.settings}, "trials": {}}
    _run_units(layout, trials, "Trials", report, lambda: None)
    found: dict[str, dict[str, float]] = {setting: {} for setting in layout.config.settings}
    ended = {unit: json.loads(layout.result(unit).read_text(encoding="utf-8"))["curve"][-1][1] for unit in trials}
    for setting in layout.config.settings:
        for arm in layout.trained:
            own = [unit for unit in trials if (unit.setting, unit.arm) == (setting, arm)]
            found[setting][arm] = max(own, key=lambda unit: (ended[unit], -unit.lr)).lr
    return {"lrs": found, "trials": {unit.name: value for unit, value in ended.items()}}


def _run_all(layout: Layout, command: str, report: Report) -> dict[str, Any]:
    units = layout.units(read_record(layout.root, "tune").figures["lrs"])
    _run_units(layout, units, "Units", report, lambda: write_ablation(layout, command))
    return {"units": len(units)}


def _run_units(layout: Layout, units: Sequence[Unit], title: str, report: Report, done: Callable[[], object]) -> None:
    """Run units at the same time, a process each; ``done`` is called when another one has come to its end."""
    start = Path(read_record(layout.root, "start").figures["model"])
    count = partial(_finished, layout, units)
    seen = count()
    with report.task(title, len(units), start=seen) as advance:

        def poll() -> None:
            nonlocal seen
            now = count()
            if now != seen:
                advance(now - seen)
                seen = now
                done()

        tasks = [Task(run_unit, (layout, unit, start)) for unit in units if not layout.result(unit).is_file()]
        if tasks:
            run_tasks(tasks, layout.config.workers, poll, fewer="with --set workers=1")
        poll()


def _finished(layout: Layout, units: Sequence[Unit]) -> int:
    return sum(layout.result(unit).is_file() for unit in units)
