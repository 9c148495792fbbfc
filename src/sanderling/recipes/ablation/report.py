"""What the ablation found, as Markdown and as curves: a table for each setting, differences, rollouts to the target.

Made of the units that are there, however few: the report of a run under way says how many are missing. Computes no figure.
"""

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from markupsafe import Markup

from sanderling.evaluate.statistics import Interval
from sanderling.recipes.ablation.figures import Cells, Estimate, cells_of, difference, estimate, mean_curve, rollouts_to
from sanderling.recipes.ablation.layout import Layout
from sanderling.report.charts import Line, curves, figure, legend
from sanderling.report.numbers import MISSING, percent, points, span
from sanderling.report.page import render
from sanderling.runs.files import replace_file
from sanderling.runs.provenance import machine

_SUMMARY = (
    "Right answers on the validation world as rollouts are made; held-out questions meet the checkpoint that is best here."
)
Units = Mapping[str, Sequence[Mapping[str, Any]]]
"""By arm."""


def write_ablation(layout: Layout, command: str) -> Path:
    """Write ``report.md``, ``curves.html`` and ``figures.json`` from the units that are there; returns the first."""
    text = [f"# {layout.config.title}", "", f"`{command}`", "", _made_with(layout), ""]
    plots, told = [], {}
    for setting in layout.config.settings:
        units = _units(layout, setting)
        if any(units.values()):
            found, lines = _setting(layout, setting, units)
            told[setting] = found
            text += [*lines, ""]
            plots.append(_plot(layout, setting, units))
    report = layout.root / "report.md"
    replace_file(
        layout.root / "curves.html",
        render("curves.html", layout.config.title, summary=_SUMMARY, command=command, machine=machine(), plots=plots),
    )
    replace_file(layout.root / "figures.json", json.dumps(told, indent=1) + "\n")
    replace_file(report, "\n".join(text).rstrip() + "\n")
    return report


def _units(layout: Layout, setting: str) -> dict[str, list[dict[str, Any]]]:
    """What finished units of a setting have left."""
    found: dict[str, list[dict[str, Any]]] = {arm: [] for arm in layout.config.arms}
    for arm, seed in ((arm, seed) for arm in layout.config.arms for seed in layout.config.seeds):
        file = layout.root / "units" / f"{setting}.{arm}.seed-{seed}.json"
        if file.is_file():
            found[arm].append(json.loads(file.read_text(encoding="utf-8")))
    return found


def _made_with(layout: Layout) -> str:
    config = layout.config
    done = len(list((layout.root / "units").glob("*.json")))
    wanted = len(config.seeds) * len(config.arms) * len(config.settings)
    rl, trials = config.rl, len(layout.trials()) // max(1, len(layout.trained) * len(config.settings))
    compared = sum(map(len, config.criterion.compared.values())) * len(config.settings)
    rollouts = rl.get("steps", 0) * rl.get("questions_per_step", 0) * rl.get("group_size", 0)
    return (
        f"{done} of {wanted} units: {len(config.arms)} arms, {len(config.settings)} settings, {len(config.seeds)} seeds. "
        f"{rollouts:,} rollouts and {trials} trials for each trained arm in each setting. Held-out worlds of "
        f"seed {config.worlds.held_out_seed}, {config.questions.held_out} questions, {config.measuring.attempts} attempts; "
        f"{100 * config.criterion.level:.0f}% intervals over seeds and questions, each by itself: of {compared} comparisons "
        f"some would exclude 0 by chance, and resampled from {len(config.seeds)} seeds intervals are a little "
        f"narrow. On {machine()}."
    )


def _setting(layout: Layout, setting: str, units: Units) -> tuple[dict[str, Any], list[str]]:
    """Figures, and lines of Markdown."""
    config, k = layout.config, layout.config.measuring.attempts
    cells = {arm: cells_of(own, k) for arm, own in units.items() if own}
    target = _target(layout, units)
    lines = [f"## {setting}: {config.settings[setting].label}", "", _head(layout, target), "|---|---:|---:|---:|---:|---:|"]
    told: dict[str, Any] = {"target": target, "arms": {}, "differences": {}}
    for arm, own in cells.items():
        one, many = (_estimated(layout, values) for values in (own.pass_1, own.pass_k))
        reached = [rollouts_to(unit["curve"], target) for unit in units[arm] if "curve" in unit and target is not None]
        told["arms"][arm] = {
            "seeds": list(own.seeds), "lr": units[arm][0]["lr"], "pass_1": _told(one), "pass_k": _told(many),
            "rollouts_to": reached, "seconds": sum(unit["seconds"] for unit in units[arm]),
        }  # fmt: skip
        shown = ", ".join("never" if count is None else f"{count:,}" for count in reached) or MISSING
        lr = f"{units[arm][0]['lr']:g}" if config.arms[arm].trained else MISSING
        lines.append(f"| {config.arms[arm].label} | {len(own.seeds)} | {lr} | {_shown(one)} | {_shown(many)} | {shown} |")
    lines += ["", *_differences(layout, cells, told)]
    return told, lines


def _head(layout: Layout, target: float | None) -> str:
    k = layout.config.measuring.attempts
    aim = "rollouts to the target" if target is None else f"rollouts to {percent(target)} on validation, by seed"
    return f"| arm | seeds | lr | pass@1 | pass@{k} | {aim} |"


def _differences(layout: Layout, cells: Mapping[str, Cells], told: dict[str, Any]) -> list[str]:
    """A sentence for each comparison that was decided on beforehand."""
    config, lines = layout.config, []
    for arm, others in config.criterion.compared.items():
        for other in others:
            if arm not in cells or other not in cells:
                continue
            drawn = config.criterion
            found = difference(cells[arm], cells[other], level=drawn.level, seed=drawn.seed, resamples=drawn.resamples)
            told["differences"][f"{arm} less {other}"] = _told(found)
            if math.isnan(found.value):
                continue  # no seed that both have
            names = config.arms[arm].label, config.arms[other].label
            common = len(set(cells[arm].seeds) & set(cells[other].seeds))
            said = _words(found.interval) if common == len(config.seeds) else "under way, so nothing is said"
            told_of = (
                f"{points(found.value)} points ({_points(found.interval)}, {common} seed{'' if common == 1 else 's'}): {said}"
            )
            lines.append(f"- {names[0]} against {names[1]}: {told_of}.")
    return lines


def _target(layout: Layout, units: Units) -> float | None:
    """The supervised model on the validation world (all first measurements' mean) and the gain on top; None: none is there."""
    first = [unit["curve"][0][1] for own in units.values() for unit in own if unit.get("curve")]
    return sum(first) / len(first) + layout.config.criterion.gain if first else None


def _plot(layout: Layout, setting: str, units: Units) -> tuple[str, str, Markup]:
    """A setting, its name, and learning curves, a mean over seeds for each arm."""
    lines = []
    for arm, own in units.items():
        places, values = mean_curve([unit["curve"] for unit in own if unit.get("curve")])
        if places:
            lines.append(Line(layout.config.arms[arm].label, places, values))
    label = layout.config.settings[setting].label
    drawn = curves(lines, title=label, x_label="rollouts", y_label="right on the validation world", percent=True)
    return setting, label, figure("Means over seeds", drawn, legend([line.name for line in lines]))


def _estimated(layout: Layout, values: Any) -> Estimate:
    drawn = layout.config.criterion
    return estimate(values, level=drawn.level, seed=drawn.seed, resamples=drawn.resamples)


def _told(found: Estimate) -> dict[str, Any]:
    return {
        "value": None if math.isnan(found.value) else found.value,
        "interval": None if found.interval is None else list(found.interval),
    }


def _shown(found: Estimate) -> str:
    return f"{percent(None if math.isnan(found.value) else found.value)} ({span(found.interval)})"


def _points(interval: Interval | None) -> str:
    return MISSING if interval is None else f"{points(interval.low)} to {points(interval.high)}"


def _words(interval: Interval | None) -> str:
    """What a difference's interval allows to say."""
    if interval is None:
        return "nothing varied, so nothing is said"
    return "better" if interval.low > 0 else "worse" if interval.high < 0 else "not told apart"
