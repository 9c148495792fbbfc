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
    """The whole branch."""
    cuts: Sequence[int]
    """Boundary b is the context ``ids[:cuts[b]]``."""
    continuations: Sequence[Sequence[int]]
    """What is teacher-forced after each boundary (prefix, answer, suffix); one per cut."""
    answer_spans: Sequence[tuple[int, int]]
    """Half-open span of the answer's tokens within each continuation."""


class Scorer(Protocol):
    """Teacher-forced log-probabilities under one policy version."""

    def score_many(self, requests: Sequence[ScoreRequest]) -> list[list[FloatArray]]:
        """For each request and boundary, the log-probabilities of the answer span's tokens."""
        ...
