"""What the three systems' settings credit each turn with, by hand, held against the lines that a run writes."""

from collections.abc import Sequence
from itertools import chain
from typing import Any

import numpy as np
import pytest

Steps = Sequence[Sequence[Sequence[Any]]]
"""Lines by step and group."""


def check_venus_credit(steps: Steps) -> None:
    """By hand: z-scores of outcomes and of gains, brought to one size; a segment shares them, and each is 0.95 of the next."""
    for groups in steps:
        outcomes = [z_scores([one.outcome for one in group]) for group in groups]
        gains = [iter(z_scores([gain for one in group for gain in one.gains if gain is not None])) for group in groups]
        own = [[[next(left) for gain in one.gains if gain is not None] for one in group]
               for group, left in zip(groups, gains, strict=True)]  # fmt: skip
        sizes = [np.mean(np.abs(np.concatenate(values))) for values in (outcomes, [*chain(*own)])]
        assert 0.3 < sizes[0] < 10 * sizes[1], "neither floor nor limit"
        for line, z, found in zip(chain(*groups), np.concatenate(outcomes), chain(*own), strict=True):
            assert [gain is not None for gain in line.gains] == [tool == "visit" for tool in line.tools]
            after = [sum(tool == "visit" for tool in line.tools[turn:]) for turn in range(len(line.tools))]
            to_go = [sum(0.95**far * one for far, one in enumerate(found[len(found) - left :])) for left in after]
            assert line.credit.outcome == pytest.approx([0.95**left * z for left in after], abs=1e-4)
            assert line.credit.gain == pytest.approx([sizes[0] / sizes[1] * value for value in to_go], abs=1e-3)
            assert line.credit.penalty == [-1.0 if malformed else 0.0 for malformed in line.malformed]


def check_lite_credit(steps: Steps) -> None:
    """By hand: z of the outcomes with the sample's deviation, for every turn; nothing is fined, and nothing left out."""
    for group in (group for groups in steps for group in groups):
        for line, z in zip(group, z_scores([one.outcome for one in group], ddof=1), strict=True):
            assert line.left_out is None
            assert line.credit.outcome == pytest.approx([z] * len(line.tools), abs=1e-4)
            assert not any(line.credit.gain) and not any(line.credit.penalty)


def check_agentcpm_credit(steps: Steps) -> None:
    """By hand: twice what an outcome is above the mean of the others, filtered ones too; bad and repeated turns win nothing."""
    for group in (group for groups in steps for group in groups):
        total = sum(one.outcome for one in group)
        for line in (one for one in group if one.left_out is None):
            credit = 2 * (line.outcome - (total - line.outcome) / (len(group) - 1))
            assert credit > 0 if line.outcome == 1 else credit < 0
            assert line.credit.outcome == pytest.approx([min(0.0, credit) if no else credit for no in line.capped], abs=1e-5)
            assert all(line.capped[turn] for turn, malformed in enumerate(line.malformed) if malformed)
            assert not any(line.credit.gain) and not any(line.credit.penalty)


def z_scores(values: Sequence[float | None], ddof: int = 0) -> np.ndarray:
    found = np.array(values, dtype=float)
    return (found - found.mean()) / (found.std(ddof=ddof) + 1e-6)
