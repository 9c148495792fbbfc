"""What reward asks of a model: teacher-forced log-probabilities. Implemented in `train`; endpoints need not have it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]


@dataclass(frozen=True)
class ScoreRequest:
    """A trajectory and the continuations to score at some of its boundaries."""

    ids: Sequence[int]
    """The whole main branch."""
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
    temperature: float | None = None
    """What logits are divided by; None: the temperature that the scorer was made with, at which the policy samples."""
    family: str = ""
    """Requests of one family begin alike (the rollouts of a question), so that a scorer may compute once what they share; it
    changes no number. Empty: the request has none."""


class Scorer(Protocol):
    """Teacher-forced log-probabilities under one policy version."""

    def score_many(self, requests: Sequence[ScoreRequest]) -> list[list[FloatArray]]:
        """For each request and boundary, the log-probabilities of the answer span's tokens."""
        ...
