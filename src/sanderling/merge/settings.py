"""What a merge is, as data: its method, its models and its coefficients. Importable without torch; opens no model.

The methods are mergekit's; docs/merging.md has their formulas.
"""

from collections.abc import Iterator
from enum import StrEnum
from math import isfinite
from pathlib import Path
from typing import Literal, NamedTuple, Self

from pydantic import Field, model_validator

from sanderling.core.config import Frozen


class Method(StrEnum):
    """How models become one."""

    LINEAR = "linear"
    SLERP = "slerp"
    TASK_ARITHMETIC = "task-arithmetic"
    TIES = "ties"
    DARE_LINEAR = "dare-linear"
    DARE_TIES = "dare-ties"


Dtype = Literal["float32", "bfloat16", "float16"]
"""What the merged weights are stored in; the arithmetic is float32 in any case."""


class Traits(NamedTuple):
    """What a method takes; ``normalizes``: whether weights are divided by their sum."""

    base: bool
    density: bool = False
    normalizes: bool = False


TRAITS: dict[Method, Traits] = {
    Method.LINEAR: Traits(base=False, normalizes=True),
    Method.SLERP: Traits(base=False),
    Method.TASK_ARITHMETIC: Traits(base=True),
    Method.TIES: Traits(base=True, density=True, normalizes=True),
    Method.DARE_LINEAR: Traits(base=True, density=True),
    Method.DARE_TIES: Traits(base=True, density=True),
}
"""Each method, with mergekit's defaults."""


class MergeSettings(Frozen):
    """One merge, resolved."""

    method: Method
    models: tuple[Path, ...]
    weights: tuple[float, ...] = ()  # one for each model; by default equal. Not for slerp.
    base: Path | None = None  # what the models were trained from; not for linear and slerp
    scale: float = Field(default=1.0, allow_inf_nan=False)  # factor λ of the sum of differences from the base
    t: float = Field(default=0.5, ge=0, le=1)  # for slerp: 0 is the first model, 1 the second
    density: float = Field(default=0.5, gt=0, le=1)  # share of entries of each difference that is kept
    seed: int = Field(default=0, ge=0, lt=2**32)  # random seed of DARE; equal seeds give equal models
    dtype: Dtype | None = None  # of the merged weights; by default as the base or the first model

    @property
    def traits(self) -> Traits:
        return TRAITS[self.method]

    @property
    def directories(self) -> tuple[Path, ...]:
        """Every model that is read, the one that the rest is like first."""
        return (self.base, *self.models) if self.base is not None else self.models

    @property
    def shares(self) -> tuple[float, ...]:
        """The weights, equal ones where none were given."""
        return self.weights or (1.0 / len(self.models),) * len(self.models)

    @model_validator(mode="after")
    def _goes_together(self) -> Self:
        if problem := next(self._problems(), None):
            raise ValueError(problem)
        return self

    def _problems(self) -> Iterator[str]:
        method, traits, count = self.method, self.traits, len(self.models)
        slerp = method is Method.SLERP
        used = {"scale": traits.base, "t": slerp, "weights": not slerp, "density": traits.density}
        fields = type(self).model_fields
        idle = [name for name, is_used in used.items() if not is_used and getattr(self, name) != fields[name].default]
        yield from (f"{method} has no use for {name}: leave it out" for name in idle)
        if slerp and count != 2:
            yield f"slerp lies between two models and {count} were given: give two, or take linear"
        if count < (1 if traits.base else 2):
            yield f"{method} needs {'one model and a base' if traits.base else 'two models'} at least: give their directories"
        if traits.base and self.base is None:
            yield f"{method} works on differences from a base: give the model that the others were trained from"
        if not traits.base and self.base is not None:
            yield f"{method} knows no base: leave it out, or give it as one of the models"
        if self.weights and len(self.weights) != count:
            yield f"{len(self.weights)} weights were given for {count} models: give one for each"
        places = [path.resolve() for path in self.directories]
        if len(set(places)) < len(places):
            yield "a model is given twice: give each once, with the sum of its weights"
        if not all(isfinite(weight) for weight in self.weights):
            yield "every weight must be a finite number"
        if traits.normalizes and abs(sum(self.shares)) < 1e-9:
            yield "the weights sum to 0 and would be divided by that: give others"
