"""What the comparison found: figures from units' counts, as Markdown (``report.md``), curves (``curves.html``) and data.

Three things vary and are drawn with replacement: seeds (a training run each), worlds, and questions within them; the same draws
for all arms of a task, whose difference is then one of pairs. Made of the units that are there, however few: a report of a run
under way says how many are missing. Legend: S seeds, Q questions, R resamples.
"""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from credit import Comparison, CreditConfig, Unit, share_of
from markupsafe import Markup

from sanderling.evaluate.statistics import FloatArray, Interval
from sanderling.report.charts import Line, curves, figure, legend
from sanderling.report.numbers import MISSING, percent, points, span
from sanderling.report.page import render
from sanderling.runs.files import replace_file
from sanderling.runs.progress import machine

Units = dict[str, list[dict[str, Any]]]
"""What finished units of a task have left, by arm, in the order of their seeds."""

# -- figures -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Cells:
    """An arm's shares of right attempts on a task, [S, Q]; NaN where nothing was scored."""

    seeds: tuple[int, ...]
    worlds: tuple[str, ...]  # of each question
    right: FloatArray


@dataclass(frozen=True)
class Estimate:
    """A mean with its interval, and the draws that this is of."""

    value: float
    draws: FloatArray  # [R]
    level: float

    @property
    def interval(self) -> Interval | None:
        """None where nothing varies, and resampling therefore says nothing."""
        kept, tail = self.draws[np.isfinite(self.draws)], (1.0 - self.level) / 2.0
        if not kept.size or np.isclose(kept.min(), kept.max()):
            return None
        return Interval(*map(float, np.quantile(kept, [tail, 1.0 - tail])))

    def less(self, other: "Estimate") -> "Estimate":
        """The difference of two, draw by draw."""
        return Estimate(self.value - other.value, self.draws - other.draws, self.level)

    def as_json(self) -> dict[str, Any]:
        interval = self.interval
        return {"value": None if math.isnan(self.value) else self.value, "interval": interval and list(interval)}

    def __str__(self) -> str:
        return f"{percent(None if math.isnan(self.value) else self.value)} ({span(self.interval)})"


def cells_of(units: Sequence[Mapping[str, Any]], key: str = "counts") -> Cells:
    """The values of an arm's units. Raises ValueError where they were not asked the same."""
    names = list(units[0][key])
    if any(list(unit[key]) != names for unit in units):
        raise ValueError("units of one task were asked different questions")
    right, scored = (np.array([[unit[key][name][part] for name in names] for unit in units], dtype=float) for part in (0, 1))
    shares = np.divide(right, scored, out=np.full(right.shape, np.nan), where=scored > 0)
    return Cells(tuple(int(unit["seed"]) for unit in units), tuple(units[0][key][name][2] for name in names), shares)


def estimate(values: FloatArray, worlds: Sequence[str], config: CreditConfig) -> Estimate:
    """The mean of values [S, Q] over drawn seeds, worlds and questions within these. The same shape: the same draws."""
    how = config.criterion
    rng = np.random.default_rng(how.seed)
    rows, places = values.shape[0], [np.flatnonzero(np.array(worlds) == world) for world in dict.fromkeys(worlds)]
    known, filled = np.isfinite(values), np.nan_to_num(values)
    draws = np.empty(how.resamples)
    for at in range(how.resamples):
        seeds = np.bincount(rng.integers(rows, size=rows), minlength=rows).astype(float)
        questions = np.zeros(values.shape[1])
        for world in rng.integers(len(places), size=len(places)):
            own = places[world]
            questions += np.bincount(own[rng.integers(own.size, size=own.size)], minlength=questions.size)
        weight = seeds @ known @ questions
        draws[at] = seeds @ filled @ questions / weight if weight > 0 else np.nan
    return Estimate(float(values[known].mean()) if known.any() else float("nan"), draws, how.level)


def difference(ours: Cells, theirs: Cells, config: CreditConfig) -> tuple[Estimate, int]:
    """One arm less another, over the seeds that both have: a pair for each seed and question; and how many seeds these are."""
    common = [seed for seed in ours.seeds if seed in theirs.seeds]
    if not common:
        return Estimate(float("nan"), np.full(1, np.nan), config.criterion.level), 0
    a, b = ([cells.seeds.index(seed) for seed in common] for cells in (ours, theirs))
    return estimate(ours.right[a] - theirs.right[b], ours.worlds, config), len(common)


# -- the report ----------------------------------------------------------------------------------------------------------


def write_report(run: Comparison, command: str) -> Path:
    """Write ``report.md``, ``curves.html`` and ``figures.json`` from the units that are there; returns the first."""
    config = run.config
    text = [f"# {config.title}", "", f"`{command}`", "", _made_with(run), "", *_gate(run), *_trials(run)]
    plots, figures, found = list[tuple[str, str, Markup]](), dict[str, Any](), dict[str, dict[str, Estimate]]()
    for task in config.tasks:
        units = units_of(run, task)
        if units:
            figures[task], found[task], lines = _task(config, task, units)
            text += [*lines, ""]
            plots.append(_plot(config, task, units))
    text += _interactions(config, found)
    summary = "Right rollouts in training, as rollouts are made; means over seeds."
    page = render("curves.html", config.title, summary=summary, command=command, machine=machine(), plots=plots)
    replace_file(run.root / "curves.html", page)
    replace_file(run.root / "figures.json", json.dumps(figures, indent=1) + "\n")
    replace_file(run.root / "report.md", "\n".join(text).rstrip() + "\n")
    return run.root / "report.md"


def units_of(run: Comparison, task: str) -> Units:
    """A task's units that are there."""
    found: Units = {}
    for unit in _wanted(run):
        if unit.task == task and (file := run.result(unit)).is_file():
            found.setdefault(unit.arm, []).append(json.loads(file.read_text(encoding="utf-8")))
    return found


def _wanted(run: Comparison) -> list[Unit]:
    return run.units({task: {} for task in run.config.tasks})  # learning rates are in the names of trials only


def _made_with(run: Comparison) -> str:
    config = run.config
    units = _wanted(run)
    done, arms = sum(run.result(unit).is_file() for unit in units), {(unit.task, unit.arm) for unit in units}
    pairs = [(one, other) for one, others in config.criterion.compared.items() for other in others]
    pairs += config.criterion.halved.items()
    compared = sum({(task, one), (task, other)} <= arms for task in config.tasks for one, other in pairs)
    rollouts = config.rl["steps"] * config.rl["questions_per_step"] * config.rl["group_size"]
    return (
        f"{done} of {len(units)} units (a task, an arm and a seed each); {rollouts:,} rollouts for each trained one. "
        f"{100 * config.criterion.level:.0f}% intervals over held-out worlds, seeds and questions, each by itself: of "
        f"{compared} comparisons some would exclude 0 by chance. "
        f"On {machine()}."
    )


def _gate(run: Comparison) -> list[str]:
    """The gate's figures, where it was met."""
    file = run.root / "gate.json"
    if not file.is_file():
        return []
    lines = ["## The gate", ""]
    lines.append(
        "| task | pass@1 | pass@8 | gains and credit of | AUC, answer's visit | AUC, visits before | R² added | passes |"
    )
    lines.append("|---|---:|---:|---|---:|---:|---:|---|")
    for task, told in json.loads(file.read_text(encoding="utf-8")).items():
        fails = "**no**: " + "; ".join(told["fails"]) if told["fails"] else "yes"
        for at, arm in enumerate(run.config.tasks[task].gate_arms):
            seen = [told[arm][name] for name in ("auc_final", "auc_before", "added_r2")]
            shown = [MISSING if one is None else f"{one[0]:.3f}" for one in seen]
            row = (task, percent(told["pass_1"]), percent(told["pass_8"]), arm, *shown, "" if at else fails)
            lines.append(f"| {' | '.join(row)} |")
    return [*lines, ""]


def _trials(run: Comparison) -> list[str]:
    """What rates had on the validation world, where all of their trials are there."""
    found: dict[tuple[str, str], dict[float, list[float]]] = {}
    for unit in run.trials():
        if (file := run.result(unit)).is_file():
            share = share_of(json.loads(file.read_text(encoding="utf-8"))["counts"])
            found.setdefault((unit.task, unit.arm), {}).setdefault(unit.lr, []).append(share)
    if not found:
        return []
    lrs, seeds = run.config.tuning.lrs, len(run.config.tuning.seeds)
    lines = ["## Learning rates", "", f"Right on the validation world, means over {seeds} seeds, or as many as are said.", ""]
    lines += [f"| task | arm | {' | '.join(f'{lr:g}' for lr in lrs)} |", f"|---|---|{'---:|' * len(lrs)}"]
    for (task, arm), by_lr in found.items():
        made = [by_lr.get(lr, []) for lr in lrs]
        means = [percent(float(np.mean(ended))) if ended else MISSING for ended in made]
        means = [mean + (f" ({len(ended)})" if 0 < len(ended) < seeds else "") for mean, ended in zip(means, made, strict=True)]
        lines.append(f"| {task} | {run.config.arms[arm].label} | {' | '.join(means)} |")
    return [*lines, ""]


def _task(config: CreditConfig, task: str, units: Units) -> tuple[dict[str, Any], dict[str, Estimate], list[str]]:
    """Figures, the differences by name, and lines of Markdown."""
    arms = {name: arm for name, arm in config.arms.items() if name in units}
    cells = {name: cells_of(units[name]) for name in arms}
    lines = [f"## {task}: {config.tasks[task].label}", ""]
    lines.append("| arm | seeds | lr | right | after half of the rollouts | no answer, last 5 steps |")
    lines.append("|---|---:|---:|---:|---:|---:|")
    figures: dict[str, Any] = {"arms": {}, "differences": {}}
    halves = {name: cells_of(units[name], "counts_at_half") for name in arms if "counts_at_half" in units[name][0]}
    for name, arm in arms.items():
        own, one = units[name], estimate(cells[name].right, cells[name].worlds, config)
        half = estimate(halves[name].right, halves[name].worlds, config) if name in halves else None
        lr = f"{own[0]['lr']:g}" if arm.trained else MISSING
        silent = percent(float(np.mean([unit["last_steps"]["no_answer"] for unit in own]))) if arm.trained else MISSING
        lines.append(f"| {arm.label} | {len(own)} | {lr} | {one} | {half or MISSING} | {silent} |")
        seconds = sum(unit["seconds"] for unit in own)
        figures["arms"][name] = {
            "seeds": list(cells[name].seeds),
            "lr": own[0]["lr"],
            "right": one.as_json(),
            "seconds": seconds,
        }
    lines.append("")
    found: dict[str, Estimate] = {}
    pairs = [(one, other, cells) for one, others in config.criterion.compared.items() for other in others]
    pairs += [(one, other, halves) for one, other in config.criterion.halved.items()]
    for one, other, of in pairs:
        if one in of and other in cells:
            gap, seeds = difference(of[one], cells[other], config)
            how = "" if of is cells else " after half of the rollouts"
            name = f"{arms[one].label.removeprefix('+ ')}{how} less {arms[other].label.removeprefix('+ ')}"
            found[name], figures["differences"][name] = gap, gap.as_json()
            lines.append(f"- {name}: {_verdict(gap, seeds, config, halved=of is halves)}.")
    return figures, found, lines


def _verdict(found: Estimate, seeds: int, config: CreditConfig, *, halved: bool) -> str:
    """What a difference's interval allows to say."""
    interval = found.interval
    shown = MISSING if interval is None else f"{points(interval.low)} to {points(interval.high)}"
    if seeds < len(config.seeds):
        verdict = "under way, so nothing is said"
    elif interval is None:
        verdict = "nothing varied, so nothing is said"
    elif halved:
        verdict = "reached" if interval.low > -config.criterion.margin else "not shown to be reached"
    else:
        verdict = "better" if interval.low > 0 else "worse" if interval.high < 0 else "not told apart"
    return f"{points(found.value)} points ({shown}, {seeds} seed{'' if seeds == 1 else 's'}): {verdict}"


def _interactions(config: CreditConfig, found: Mapping[str, Mapping[str, Estimate]]) -> list[str]:
    """How much larger each difference is on a task than on the one that it comes after, where both are there."""
    lines = list[str]()
    for long, short in [(name, task.after) for name, task in config.tasks.items() if {name, task.after} <= found.keys()]:
        lines += [f"## {long} less {short}", ""]
        for name in [name for name in found[short] if name in found[long]]:
            gap = found[long][name].less(found[short][name])
            shown = MISSING if gap.interval is None else f"{points(gap.interval.low)} to {points(gap.interval.high)}"
            lines.append(f"- {name}: {points(gap.value)} points ({shown}).")
    return lines


def _plot(config: CreditConfig, task: str, units: Units) -> tuple[str, str, Markup]:
    """A task, its name, and learning curves, a mean over seeds for each arm."""
    lines = []
    for name, arm in config.arms.items():
        told = [dict(unit["curve"]) for unit in units.get(name, ()) if unit.get("curve")]
        places = sorted(set.intersection(*map(set, told))) if told else []
        if places:
            lines.append(Line(arm.label, places, [float(np.mean([curve[place] for curve in told])) for place in places]))
    label = config.tasks[task].label
    drawn = curves(lines, title=label, x_label="rollouts", y_label="right in training", percent=True, window=5)
    return task, label, figure("Means over seeds", drawn, legend([line.name for line in lines]))
