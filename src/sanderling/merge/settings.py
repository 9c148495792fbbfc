"""What a merge is, as data: its method, its models and its coefficients. Importable without torch; opens no model.

The methods are mergekit's. With θ0 the base, τi = θi − θ0 and wi the weights:

- ``linear``: Σ wi θi, over Σ wi where weights are normalized (the default)
- ``slerp``: between two models along the arc of each tensor, at ``t``; straight where the two are nearly parallel
- ``task-arithmetic`` (arXiv 2212.04089): θ0 + λ Σ wi τi
- ``ties`` (arXiv 2306.01708): of each τi the ``density`` largest entries; at each place the sign of Σ wi τi is elected, and the
  weighted mean taken of the τi that have it (the sum, where weights are not normalized)
- ``dare-linear``, ``dare-ties`` (arXiv 2311.03099): entries of τi are kept by chance with probability ``density``. mergekit
  rescales what is left to the old sum of absolute values, where the paper divides by the density; on average that is the same
- ``della``, ``della-linear`` (arXiv 2406.11617): as DARE, but the chance of an entry rises with its rank by magnitude in its
  row, from ``density − epsilon`` to ``density + epsilon``
"""

from collections.abc import Iterator
from enum import StrEnum
from math import isfinite
from pathlib import Path
from typing import NamedTuple, Self

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
    DELLA = "della"
    DELLA_LINEAR = "della-linear"


class Dtype(StrEnum):
    """What the merged weights are stored in; the arithmetic is float32 in any case."""

    FLOAT32 = "float32"
    BFLOAT16 = "bfloat16"
    FLOAT16 = "float16"


class Traits(NamedTuple):
    """What a method takes."""

    base: bool
    """Whether it works on differences from a base."""
    density: bool = False
    epsilon: bool = False
    normalizes: bool | None = False
    """Whether weights are divided by their sum unless told otherwise; None: it has no weights."""


TRAITS: dict[Method, Traits] = {
    Method.LINEAR: Traits(base=False, normalizes=True),
    Method.SLERP: Traits(base=False, normalizes=None),
    Method.TASK_ARITHMETIC: Traits(base=True),
    Method.TIES: Traits(base=True, density=True, normalizes=True),
    Method.DARE_LINEAR: Traits(base=True, density=True),
    Method.DARE_TIES: Traits(base=True, density=True),
    Method.DELLA: Traits(base=True, density=True, epsilon=True, normalizes=True),
    Method.DELLA_LINEAR: Traits(base=True, density=True, epsilon=True),
}
"""Each method, with mergekit's defaults."""
_FAR = 2.0
"""A sum of weights times scale above this goes more than twice as far from the base as one model did: most likely a slip."""


class MergeSettings(Frozen):
    """One merge, resolved."""

    method: Method
    models: tuple[Path, ...]
    weights: tuple[float, ...] = ()
    """One for each model; none: equal ones that sum to 1. Not for slerp."""
    base: Path | None = None
    scale: float = Field(default=1.0, allow_inf_nan=False)
    """λ: what the sum of differences from the base is multiplied by."""
    t: float = Field(default=0.5, ge=0, le=1)
    """Slerp: 0 is the first model, 1 the second."""
    density: float = Field(default=0.5, gt=0, le=1)
    """Share of entries of each difference that are kept."""
    epsilon: float = Field(default=0.1, ge=0, lt=1)
    """DELLA: how far the chance of an entry strays from the density."""
    normalize: bool | None = None
    """Whether weights are divided by their sum; None: as is usual for the method."""
    seed: int = Field(default=0, ge=0, lt=2**32)
    """Of DARE and DELLA: equal seeds give equal models."""
    dtype: Dtype | None = None
    """None: as the base, or the first model, is stored."""
    tokenizer: Path | None = None
    """The model whose tokenizer and generation settings are copied; None: the base, or the first model."""

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

    @property
    def normalized(self) -> bool:
        """Whether weights are divided by their sum."""
        return bool(self.traits.normalizes) if self.normalize is None else self.normalize

    @model_validator(mode="after")
    def _goes_together(self) -> Self:
        for problem in self._problems():
            raise ValueError(problem)
        return self

    def _problems(self) -> Iterator[str]:
        """Why the settings do not go together, each as a clause for a sentence that names where they come from."""
        method, traits, count = self.method, self.traits, len(self.models)
        if method is Method.SLERP and count != 2:
            yield f"slerp lies between two models and {count} were given: give two, or take linear"
        if count < (1 if traits.base else 2):
            yield f"{method} needs {'one model and a base' if traits.base else 'two models'} at least: give their directories"
        if traits.base and self.base is None:
            yield f"{method} works on differences from a base: give the model that the others were trained from"
        if not traits.base and self.base is not None:
            yield f"{method} knows no base: leave it out, or give it as one of the models"
        if traits.normalizes is None and self.weights:
            yield f"{method} takes t and no weights: 0 is the first model, 1 the second"
        if self.weights and len(self.weights) != count:
            yield f"{len(self.weights)} weights were given for {count} models: give one for each"
        places = [path.resolve() for path in self.directories]
        twice = next((path for path in places if places.count(path) > 1), None)
        if twice is not None:
            yield f"{twice} is given twice: give each model once, with the sum of its weights"
        if not all(isfinite(weight) for weight in self.weights):
            yield "every weight must be a finite number"
        if self.normalized and abs(sum(self.shares)) < 1e-9:
            yield "the weights sum to 0 and would be divided by that: give others, or do not normalize"
        low, high = self.density - self.epsilon, self.density + self.epsilon
        if traits.epsilon and self.density < 1 and not (low > 0 and high < 1):
            yield f"chances from {low:g} to {high:g} are none: density less and plus epsilon must lie between 0 and 1"

    def idle(self) -> list[str]:
        """Settings that were given though the method has no use for them."""
        traits = self.traits
        useless = {
            "scale": not traits.base,
            "t": self.method is not Method.SLERP,
            "density": not traits.density,
            "epsilon": not traits.epsilon,
            "normalize": traits.normalizes is None,
        }
        return [name for name, is_idle in useless.items() if is_idle and name in self.model_fields_set]

    def doubts(self) -> list[str]:
        """What is allowed and most likely not meant, a sentence each."""
        total = sum(self.shares)
        if self.method is Method.LINEAR and abs(total - 1) > 1e-6:
            if self.normalized:
                return [f"The weights sum to {total:g}: each is divided by that."]
            return [f"The weights sum to {total:g} and are not normalized: the merged model is scaled as a whole."]
        if self.traits.base and not self.normalized and not 0 < total * self.scale <= _FAR and self.scale:
            return [
                f"Weights and scale come to {total * self.scale:g}: the usual is above 0 and at most {_FAR:g}, where 1 goes as "
                "far from the base as one model did."
            ]
        return []
