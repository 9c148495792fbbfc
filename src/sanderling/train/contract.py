"""What the trainer and the scorer are handed: arrays, and a loss; importable without torch.

Legend: B rows of an optimizer batch, T tokens. The trainer executes rows; it does not know which algorithm wrote their
advantages.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from torch import Tensor

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]
PER_TOKEN = ("ids", "loss_mask", "advantages", "sampler_logprobs", "proximal_logprobs", "reference_logprobs")
"""The arrays of a row."""


@dataclass(frozen=True)
class Row:
    """One branch, ready to train on. All per-token arrays are parallel to ``ids`` (T)."""

    ids: IntArray
    loss_mask: BoolArray
    """True on tokens that are trained: predicting ``ids[t]`` from ``ids[:t]``."""
    advantages: FloatArray | None = None
    sampler_logprobs: FloatArray | None = None
    proximal_logprobs: FloatArray | None = None
    reference_logprobs: FloatArray | None = None
    trajectory: str = ""
    group: str = ""

    def __post_init__(self) -> None:
        size = self.ids.shape[0]
        for name in PER_TOKEN:
            values = getattr(self, name)
            if values is not None and values.shape != (size,):
                raise ValueError(f"row {self.trajectory or '?'}: {name} has shape {values.shape}, ids have {size} tokens")


@dataclass(frozen=True)
class ScoreRequest:
    """A trajectory and the continuations to score at some of its boundaries."""

    ids: Sequence[int]
    cuts: Sequence[int]
    """Boundary b is the context of the first ``cuts[b]`` ids of its branch."""
    continuations: Sequence[Sequence[int]]
    """What is teacher-forced after each boundary (prefix, answer, suffix); one per cut."""
    answer_spans: Sequence[tuple[int, int]]
    """Half-open span of the answer's tokens within each continuation."""
    others: Sequence[Sequence[int]] = ()
    """Further branches of the trajectory, whole; what branches share at their beginning is computed once."""
    on: Sequence[int] | None = None
    """Each boundary's branch: 0 is ``ids``, 1 the first of ``others``, …; None: all are on ``ids``."""


class Scorer(Protocol):
    """Teacher-forced log-probabilities under one policy version."""

    def score_many(self, requests: Sequence[ScoreRequest]) -> list[list[FloatArray]]:
        """For each request and boundary, the log-probabilities of the answer span's tokens."""
        ...


@dataclass(frozen=True)
class LossInputs:
    """The N trained tokens of a micro-batch; every tensor but ``sequence`` is float32 [N]."""

    logprobs: "Tensor"
    """Under the model being trained; the only one with a gradient."""
    weights: "Tensor"
    advantages: "Tensor | None" = None
    sampler: "Tensor | None" = None
    """Log-probabilities under the distribution the token was sampled from."""
    proximal: "Tensor | None" = None
    """Under the trainer's own weights before this batch's first update."""
    reference: "Tensor | None" = None
    sequence: "Tensor | None" = None
    """int64 [N]: which row of the micro-batch each token belongs to; rows are whole."""

    def need(self, name: str) -> "Tensor":
        """The named tensor. Raises ValueError when the rows did not bring it."""
        value = getattr(self, name)
        if value is None:
            raise ValueError(f"this loss needs {name}, and the rows have none")
        return value


Metrics = dict[str, "Tensor"]
"""Per-token values [N] by name; the trainer reports their mean over the batch."""
Loss = Callable[[LossInputs], tuple["Tensor", Metrics]]


def sft(tokens: LossInputs) -> "tuple[Tensor, Metrics]":
    """The weighted negative log-likelihood: with ``token_mean`` the mean over all trained tokens of the optimizer batch."""
    return -(tokens.weights * tokens.logprobs).sum(), {"nll": -tokens.logprobs.detach()}


def grouped(names: Sequence[str]) -> list[list[int]]:
    """Places of equal names together, in the order of first appearance; one without a name is alone."""
    found: dict[str, list[int]] = {}
    for place, name in enumerate(names):
        found.setdefault(name or f"\0{place}", []).append(place)
    return list(found.values())
