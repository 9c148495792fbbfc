"""Figures of the ablation from units' counts: pass@1 and pass@4, differences, rollouts to a target. Pure numpy.

Two things vary and both are drawn with replacement: seeds (a training run each) and questions; the same draws for all arms of a
setting, whose difference is then one of pairs. Legend: S seeds, Q questions, R resamples.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sanderling.evaluate.of_k import any_right
from sanderling.evaluate.statistics import FloatArray, Interval


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


def cells_of(units: Sequence[Mapping[str, Any]], k: int) -> Cells:
    """The values of an arm's units, in the order of their seeds. Raises ValueError where they were not asked the same."""
    ordered = sorted(units, key=lambda unit: unit["seed"])
    names = list(ordered[0]["counts"])
    if any(list(unit["counts"]) != names for unit in ordered):
        raise ValueError("units of one setting were asked different questions")
    right = np.array([[unit["counts"][name][0] for name in names] for unit in ordered], dtype=np.int64)
    scored = np.array([[unit["counts"][name][1] for name in names] for unit in ordered], dtype=np.int64)
    shares = np.divide(right, scored, out=np.full(right.shape, np.nan), where=scored > 0)
    any_of_k = np.stack([any_right(row_scored, row, k)[:, -1] for row_scored, row in zip(scored, right, strict=True)])
    return Cells(tuple(int(unit["seed"]) for unit in ordered), shares, any_of_k)


def two_way(values: FloatArray, *, seed: int, resamples: int) -> FloatArray:
    """Means [R] of values [S, Q] over drawn seeds and, independently, drawn questions. The same seed: the same draws."""
    rng = np.random.default_rng(seed)
    rows, columns = values.shape
    known = np.isfinite(values)
    filled = np.where(known, values, 0.0)
    found = np.empty(resamples)
    for at in range(resamples):
        of_seeds = np.bincount(rng.integers(0, rows, rows), minlength=rows)
        of_questions = np.bincount(rng.integers(0, columns, columns), minlength=columns)
        weight = of_seeds @ known @ of_questions
        found[at] = (of_seeds @ filled @ of_questions) / weight if weight else np.nan
    return found


def estimate(values: FloatArray, *, level: float, seed: int, resamples: int) -> Estimate:
    """The mean of values [S, Q], and its percentile interval over seeds and questions."""
    known = values[np.isfinite(values)]
    return _summed(float(known.mean()) if known.size else float("nan"), two_way(values, seed=seed, resamples=resamples), level)


def difference(ours: Cells, theirs: Cells, *, level: float, seed: int, resamples: int) -> Estimate:
    """pass@1 of one arm less another's, over the seeds that both have: a pair for each seed and question."""
    common = [name for name in ours.seeds if name in theirs.seeds]
    if not common:
        return Estimate(float("nan"), None)
    a, b = ([cells.seeds.index(name) for name in common] for cells in (ours, theirs))
    return estimate(ours.pass_1[a] - theirs.pass_1[b], level=level, seed=seed, resamples=resamples)


def rollouts_to(curve: Sequence[Sequence[float]], target: float) -> int | None:
    """Rollouts made when a learning curve was first measured at the target or above; None: never."""
    return next((int(rollouts) for rollouts, value in curve if value >= target), None)


def mean_curve(curves: Sequence[Sequence[Sequence[float]]]) -> tuple[list[float], list[float]]:
    """Rollouts and the mean over seeds of what was measured there, where all were measured."""
    places = sorted(set.intersection(*({int(point[0]) for point in curve} for curve in curves))) if curves else []
    by_place = [{int(rollouts): value for rollouts, value in curve} for curve in curves]
    return [float(place) for place in places], [float(np.mean([curve[place] for curve in by_place])) for place in places]


def _summed(value: float, draws: FloatArray, level: float) -> Estimate:
    kept, tail = draws[np.isfinite(draws)], (1.0 - level) / 2.0
    if not kept.size or np.isclose(kept.min(), kept.max()):
        return Estimate(value, None)
    return Estimate(value, Interval(*map(float, np.quantile(kept, [tail, 1.0 - tail]))))
