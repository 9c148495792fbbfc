"""What a sweep varies, and which of its points is the best. Pure.

The best point has the highest mean over skills of pass@1, each skill weighing the same; of equal ones, the nearest to the
middle of the swept values, and of two as near, the smaller.
"""

from collections.abc import Mapping, Sequence
from enum import StrEnum

import numpy as np
from pydantic import ValidationError

from sanderling.core.errors import UserError
from sanderling.evaluate.statistics import RESAMPLES, FloatArray, Interval
from sanderling.merge.settings import MergeSettings, Method


class Axis(StrEnum):
    """The coefficient that is swept."""

    WEIGHT = "weight"
    """The second model's share; the first one's is 1 less it. For slerp, t."""
    SCALE = "scale"
    """λ of the methods with a base."""
    DENSITY = "density"


RULE = "highest mean over skills of pass@1; of equal points the one nearest to the middle"


def check_axis(settings: MergeSettings, axis: Axis, values: Sequence[float]) -> None:
    """Raise UserError for a sweep that is none."""
    if axis is Axis.WEIGHT and len(settings.models) != 2:
        raise UserError(f"A sweep over weight lies between two models, and {len(settings.models)} were given: sweep scale.")
    if axis is Axis.WEIGHT and settings.weights:
        raise UserError("A sweep over weight sets the weights: leave --weight out.")
    if axis is not Axis.WEIGHT and not settings.traits.base:
        raise UserError(f"{settings.method} has no {axis}: sweep weight.")
    if axis is Axis.DENSITY and not settings.traits.density:
        raise UserError(f"{settings.method} has no density: sweep scale or weight.")
    if not values or len({label(value) for value in values}) != len(values):
        raise UserError("A sweep needs different values: write for example 0,0.25,0.5,0.75,1.")
    for value in values:
        at(settings, axis, value)


def label(value: float) -> str:
    """A point's name."""
    return f"{value:g}"


def at(settings: MergeSettings, axis: Axis, value: float) -> MergeSettings:
    """The merge at one point. Raises UserError for a value that cannot be one."""
    if axis is Axis.SCALE:
        changed: dict[str, object] = {"scale": value}
    elif axis is Axis.DENSITY:
        changed = {"density": value}
    elif settings.method is Method.SLERP:
        changed = {"t": value}
    else:
        changed = {"weights": (1.0 - value, value)}
    try:
        return MergeSettings.model_validate({**settings.model_dump(exclude_unset=True), **changed})
    except ValidationError as error:
        told = error.errors()[0]["msg"].removeprefix("Value error, ")
        raise UserError(f"There is no merge at {axis} {value:g} ({told}): choose other values.") from error


def best(means: Mapping[float, float | None]) -> float | None:
    """The value of the best point, by :data:`RULE`; None when no point has a mean."""
    middle = (min(means) + max(means)) / 2 if means else 0.0
    told = {value: mean for value, mean in means.items() if mean is not None}
    return min(told, key=lambda value: (-told[value], abs(value - middle), value), default=None)


def mean_over_skills(skills: Sequence[FloatArray], seed: int = 0) -> tuple[float, Interval]:
    """The mean of the skills' means with its 95% interval: questions are resampled within each skill.

    ``skills``: for each skill, one figure for each of its questions; none may be empty.
    """
    rng = np.random.default_rng(seed)
    drawn = np.mean([_means(values, rng) for values in skills], axis=0)
    low, high = np.quantile(drawn, [0.025, 0.975])
    return float(np.mean([values.mean() for values in skills])), Interval(float(low), float(high))


def _means(values: FloatArray, rng: np.random.Generator) -> FloatArray:
    """The means of resamples."""
    counts = rng.multinomial(len(values), np.full(len(values), 1 / len(values)), size=RESAMPLES)
    return counts @ values / len(values)
