"""Figures by name and key, each a value per question; their intervals are made at once, from one draw of questions. Pure.

What a figure is of is the affair of whoever adds it. Knows no attempts.
"""

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field

import numpy as np

from sanderling.evaluate.result import Estimate
from sanderling.evaluate.statistics import FloatArray, Interval, constant_interval, intervals, resampled_ratios

_NO_WIDTH = 1e-12
"""Equal values drawn again and again differ in their last bits alone."""


@dataclass
class Estimates:
    """Figures that wait for their intervals.

    Example: ``waiting.means("pass_at_k", {1: shares}); waiting.made(seed=0)["pass_at_k"][1].interval``
    """

    _keys: list[tuple[str, Hashable, bool]] = field(default_factory=list)
    _above: list[FloatArray] = field(default_factory=list)
    _below: list[FloatArray] = field(default_factory=list)
    _names: list[str] = field(default_factory=list)

    def means(self, name: str, columns: Mapping[int, FloatArray] | Mapping[str, FloatArray]) -> None:
        """Values [Q] by k or by group, of which the mean is taken; NaN: the figure does not rest on that question."""
        self._names.append(name)
        for key, values in columns.items():
            known = np.isfinite(values)
            self._add(name, key, True, np.where(known, values, 0.0), known.astype(np.float64))

    def ratios(self, name: str, columns: Mapping[str, tuple[FloatArray, FloatArray]]) -> None:
        """Sums over sums (both [Q]); a NaN above: nobody counted, and there is no figure."""
        self._names.append(name)
        for key, (above, below) in columns.items():
            known = bool(np.isfinite(above).all())
            self._add(name, key, False, above if known else np.zeros_like(above), below if known else np.zeros_like(below))

    def made(self, *, seed: int) -> dict[str, dict]:
        """All of them, by name and key."""
        above, below = np.stack(self._above, axis=1), np.stack(self._below, axis=1)
        drawn = intervals(resampled_ratios(above, below, seed=seed))
        found: dict[str, dict] = {name: {} for name in self._names}
        for (name, key, is_mean), top, bottom, interval in zip(self._keys, above.T, below.T, drawn, strict=True):
            found[name][key] = _estimate(top, bottom, interval, is_mean=is_mean)
        return found

    def _add(self, name: str, key: Hashable, is_mean: bool, above: FloatArray, below: FloatArray) -> None:
        self._keys.append((name, key, is_mean))
        self._above.append(above)
        self._below.append(below)


def _estimate(above: FloatArray, below: FloatArray, interval: Interval, *, is_mean: bool) -> Estimate:
    """A ratio rests on all questions, a mean on those that have a value."""
    in_it = below > 0 if is_mean else np.ones(below.size, dtype=np.bool_)
    questions = int(in_it.sum())
    if not below.any():
        return Estimate(value=None, interval=None, questions=0, too_few=below.size)
    certain = constant_interval(above[in_it]) if is_mean else None
    # One question drawn again and again, or many of one value, have no spread: a point would pass for certainty.
    tells = certain is not None or (questions > 1 and interval.high - interval.low > _NO_WIDTH)
    return Estimate(
        value=float(above.sum() / below.sum()),
        interval=(certain or interval) if tells else None,
        questions=questions,
        too_few=below.size - questions,
    )
