"""What the ablation found: figures from units' counts, as Markdown (``report.md``), curves (``curves.html``) and data.

    python experiments/ablation_report.py [benchmarks/results/ablation/units]     # every arm beside its learning rate

Two things vary and both are drawn with replacement: seeds (a training run each) and questions; the same draws for all arms of a
setting, whose difference is then one of pairs. Made of the units that are there, however few: a report of a run under way says
how many are missing. Legend: S seeds, Q questions, R resamples.

The command is no part of what was decided beforehand: learning rates were chosen by short trials and differ between arms, and
whoever compares two arms compares these too.
"""

import json
import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from ablation import SETTINGS, Ablation, AblationConfig
from markupsafe import Markup

from sanderling.core.config import read_config
from sanderling.evaluate.statistics import FloatArray, Interval, any_right
from sanderling.report.charts import Line, curves, figure, legend
from sanderling.report.numbers import MISSING, percent, points, span
from sanderling.report.page import render
from sanderling.runs.files import replace_file
from sanderling.runs.progress import machine

UNITS = Path(__file__).parents[1] / "benchmarks" / "results" / "ablation" / "units"
AGAINST = "grpo"
_SUMMARY = (
    "Right answers on the validation world as rollouts are made; held-out questions meet the checkpoint that is best here."
)


# -- figures -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Cells:
    """An arm's values in a setting, [S, Q]; NaN where nothing was scored."""

    seeds: tuple[int, ...]
    pass_1: FloatArray
    pass_k: FloatArray


@dataclass(frozen=True)
class Estimate:
    """A mean with its interval."""

    value: float
    """NaN: nothing was scored."""
    interval: Interval | None
    """None where nothing varies, and resampling therefore says nothing."""

    def as_json(self) -> dict[str, Any]:
        return {
            "value": None if math.isnan(self.value) else self.value,
            "interval": None if self.interval is None else list(self.interval),
        }

    def __str__(self) -> str:
        return f"{percent(None if math.isnan(self.value) else self.value)} ({span(self.interval)})"


def cells_of(units: Sequence[Mapping[str, Any]], k: int) -> Cells:
    """The values of an arm's units, in the order of their seeds. Raises ValueError where they were not asked the same."""
    ordered = sorted(units, key=lambda unit: unit["seed"])
    names = list(ordered[0]["counts"])
    if any(list(unit["counts"]) != names for unit in ordered):
        raise ValueError("units of one setting were asked different questions")
    right, scored = (
        np.array([[unit["counts"][name][part] for name in names] for unit in ordered], dtype=np.int64) for part in (0, 1)
    )
    shares = np.divide(right, scored, out=np.full(right.shape, np.nan), where=scored > 0)
    any_of_k = np.stack([any_right(row_scored, row, k)[:, -1] for row_scored, row in zip(scored, right, strict=True)])
    return Cells(tuple(int(unit["seed"]) for unit in ordered), shares, any_of_k)


def two_way(values: FloatArray, *, seed: int, resamples: int) -> FloatArray:
    """Means [R] of values [S, Q] over drawn seeds and, independently, drawn questions. The same seed: the same draws."""
    rng = np.random.default_rng(seed)
    rows, columns = values.shape
    known = np.isfinite(values)
    drawn = rng.integers(0, np.tile(np.repeat([rows, columns], [rows, columns]), (resamples, 1)))
    of_seeds, of_questions = (
        np.bincount((part + size * np.arange(resamples)[:, None]).ravel(), minlength=size * resamples).reshape(-1, size) * 1.0
        for part, size in ((drawn[:, :rows], rows), (drawn[:, rows:], columns))
    )
    total, weight = ((of_seeds @ one * of_questions).sum(-1) for one in (np.where(known, values, 0.0), known))
    return np.divide(total, weight, out=np.full(resamples, np.nan), where=weight > 0)


def estimate(values: FloatArray, *, level: float, seed: int, resamples: int) -> Estimate:
    """The mean of values [S, Q], and its percentile interval over seeds and questions."""
    known = values[np.isfinite(values)]
    value = float(known.mean()) if known.size else float("nan")
    draws = two_way(values, seed=seed, resamples=resamples)
    kept, tail = draws[np.isfinite(draws)], (1.0 - level) / 2.0
    if not kept.size or np.isclose(kept.min(), kept.max()):
        return Estimate(value, None)
    return Estimate(value, Interval(*map(float, np.quantile(kept, [tail, 1.0 - tail]))))


def difference(ours: Cells, theirs: Cells, *, level: float, seed: int, resamples: int) -> Estimate:
    """pass@1 of one arm less another's, over the seeds that both have: a pair for each seed and question."""
    common = [name for name in ours.seeds if name in theirs.seeds]
    if not common:
        return Estimate(float("nan"), None)
    a, b = ([cells.seeds.index(name) for name in common] for cells in (ours, theirs))
    return estimate(ours.pass_1[a] - theirs.pass_1[b], level=level, seed=seed, resamples=resamples)


def mean_curve(found: Sequence[Sequence[Sequence[float]]]) -> tuple[list[float], list[float]]:
    """Rollouts and the mean over seeds of what was measured there, where all were measured."""
    places = sorted(set.intersection(*({int(point[0]) for point in curve} for curve in found))) if found else []
    by_place = [{int(rollouts): value for rollouts, value in curve} for curve in found]
    return [float(place) for place in places], [float(np.mean([curve[place] for curve in by_place])) for place in places]


def _drawn(config: AblationConfig) -> dict[str, Any]:
    """How intervals are drawn."""
    return config.criterion.model_dump(include={"level", "seed", "resamples"})


# -- the report ----------------------------------------------------------------------------------------------------------


def write_report(run: Ablation, command: str) -> Path:
    """Write ``report.md``, ``curves.html`` and ``figures.json`` from the units that are there; returns the first."""
    text = [f"# {run.config.title}", "", f"`{command}`", "", _made_with(run), ""]
    plots, figures = [], {}
    for setting in run.config.settings:
        units = units_of(run.root / "units", setting, run.config.seeds)
        if units:
            figures[setting], lines = _setting(run.config, setting, units)
            text += [*lines, ""]
            plots.append(_plot(run.config, setting, units))
    page = render("curves.html", run.config.title, summary=_SUMMARY, command=command, machine=machine(), plots=plots)
    replace_file(run.root / "curves.html", page)
    replace_file(run.root / "figures.json", json.dumps(figures, indent=1) + "\n")
    replace_file(run.root / "report.md", "\n".join(text).rstrip() + "\n")
    return run.root / "report.md"


def units_of(directory: Path, setting: str, seeds: Sequence[int]) -> dict[str, list[dict[str, Any]]]:
    """What finished units of a setting have left, by arm."""
    found: dict[str, list[dict[str, Any]]] = {}
    for file in (file for seed in seeds for file in sorted(directory.glob(f"{setting}.*.seed-{seed}.json"))):
        found.setdefault(file.name.split(".")[1], []).append(json.loads(file.read_text(encoding="utf-8")))
    return found


def _made_with(run: Ablation) -> str:
    config, rl = run.config, run.config.rl
    done, wanted = len(list((run.root / "units").glob("*.json"))), len(config.seeds) * len(config.arms) * len(config.settings)
    trials = len(run.trials()) // max(1, len(run.trained) * len(config.settings))
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


def _setting(
    config: AblationConfig, setting: str, units: Mapping[str, Sequence[Mapping[str, Any]]]
) -> tuple[dict[str, Any], list[str]]:
    """Figures, and lines of Markdown."""
    k, arms = config.measuring.attempts, {name: arm for name, arm in config.arms.items() if name in units}
    cells = {name: cells_of(units[name], k) for name in arms}
    first = [unit["curve"][0][1] for name in arms for unit in units[name] if unit.get("curve")]
    target = sum(first) / len(first) + config.criterion.gain if first else None  # above the supervised model
    aim = "rollouts to the target" if target is None else f"rollouts to {percent(target)} on validation, by seed"
    lines = [f"## {setting}: {config.settings[setting].label}", ""]
    lines += [f"| arm | seeds | lr | pass@1 | pass@{k} | {aim} |", "|---|---:|---:|---:|---:|---:|"]
    figures: dict[str, Any] = {"target": target, "arms": {}, "differences": {}}
    for name, arm in arms.items():
        own, lr = units[name], f"{units[name][0]['lr']:g}" if arm.trained else MISSING
        one, many = (estimate(values, **_drawn(config)) for values in (cells[name].pass_1, cells[name].pass_k))
        reached = [
            next((int(rollouts) for rollouts, value in unit["curve"] if value >= target), None)
            for unit in own
            if "curve" in unit and target is not None
        ]
        figures["arms"][name] = {
            "seeds": list(cells[name].seeds), "lr": own[0]["lr"], "pass_1": one.as_json(), "pass_k": many.as_json(),
            "rollouts_to": reached, "seconds": sum(unit["seconds"] for unit in own),
        }  # fmt: skip
        shown = ", ".join("never" if count is None else f"{count:,}" for count in reached) or MISSING
        lines.append(f"| {arm.label} | {len(own)} | {lr} | {one} | {many} | {shown} |")
    lines.append("")
    for name, other in ((name, other) for name, others in config.criterion.compared.items() for other in others):
        if name in cells and other in cells:
            found = difference(cells[name], cells[other], **_drawn(config))
            figures["differences"][f"{name} less {other}"] = found.as_json()
            common = len(set(cells[name].seeds) & set(cells[other].seeds))
            if common:
                lines.append(f"- {arms[name].label} against {arms[other].label}: {_verdict(found, common, config)}.")
    return figures, lines


def _verdict(found: Estimate, seeds: int, config: AblationConfig) -> str:
    """What a difference's interval allows to say."""
    shown = MISSING if found.interval is None else f"{points(found.interval.low)} to {points(found.interval.high)}"
    if seeds < len(config.seeds):
        verdict = "under way, so nothing is said"
    elif found.interval is None:
        verdict = "nothing varied, so nothing is said"
    else:
        verdict = "better" if found.interval.low > 0 else "worse" if found.interval.high < 0 else "not told apart"
    return f"{points(found.value)} points ({shown}, {seeds} seed{'' if seeds == 1 else 's'}): {verdict}"


def _plot(config: AblationConfig, setting: str, units: Mapping[str, Sequence[Mapping[str, Any]]]) -> tuple[str, str, Markup]:
    """A setting, its name, and learning curves, a mean over seeds for each arm."""
    lines = []
    for name, arm in config.arms.items():
        places, values = mean_curve([unit["curve"] for unit in units.get(name, ()) if unit.get("curve")])
        if places:
            lines.append(Line(arm.label, places, values))
    label = config.settings[setting].label
    drawn = curves(lines, title=label, x_label="rollouts", y_label="right on the validation world", percent=True)
    return setting, label, figure("Means over seeds", drawn, legend([line.name for line in lines]))


def beside_rates(units: Path) -> list[str]:
    """Every trained arm against GRPO, beside its learning rate, as Markdown; highest rates last."""
    config = read_config(AblationConfig, SETTINGS)
    lines = ["| setting | arm | lr | seeds | pass@1 less GRPO's, points (95%) |", "|---|---|---:|---:|---:|"]
    for setting in config.settings:
        found = {arm: of for arm, of in units_of(units, setting, config.seeds).items() if config.arms[arm].trained}
        cells = {arm: cells_of(of, config.measuring.attempts) for arm, of in found.items()}
        for arm in sorted(cells.keys() - {AGAINST}, key=lambda arm: (found[arm][0]["lr"], list(config.arms).index(arm))):
            gap = difference(cells[arm], cells[AGAINST], **_drawn(config))
            within = "" if gap.interval is None else f" ({points(gap.interval.low)} to {points(gap.interval.high)})"
            label = config.arms[arm].label.removeprefix("+ ")
            row = (setting, label, f"{found[arm][0]['lr']:g}", str(len(found[arm])), f"{points(gap.value)}{within}")
            lines.append(f"| {' | '.join(row)} |")
    return lines


if __name__ == "__main__":
    print("\n".join(beside_rates(Path(sys.argv[1]) if len(sys.argv) > 1 else UNITS)))
