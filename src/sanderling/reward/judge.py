"""Judges: who says whether a trajectory's answer is right. The protocol, and the judge that goes by rule.

A judge that cannot tell says *unscored*, never "wrong". Only the agent's own answer is read, never text from a tool.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from sanderling.reward.outcome import Outcome, score_trajectory
from sanderling.trajectory.record import Trajectory


class Ruling(StrEnum):
    """What a judge says."""

    CORRECT = "correct"
    INCORRECT = "incorrect"
    UNSCORED = "unscored"


@dataclass(frozen=True)
class Verdict:
    """A judge's word on one trajectory."""

    ruling: Ruling
    score: float | None
    """In [0, 1]; None when unscored."""
    reason: str
    """One sentence or code, for people."""


class Judge(Protocol):
    """Says whether a trajectory's answer is right."""

    @property
    def name(self) -> str: ...

    async def __call__(self, trajectory: Trajectory) -> Verdict:
        """Judge one trajectory; never raises for an outage of its own, which is a verdict of UNSCORED."""
        ...


@dataclass(frozen=True)
class RuleJudge:
    """Judges by a rule such as exact match; deterministic and free."""

    name: str
    outcome: Outcome
    threshold: float = 1.0
    """Least score that counts as correct."""

    async def __call__(self, trajectory: Trajectory) -> Verdict:
        """Raises UserError for a question without accepted answers."""
        score = score_trajectory(trajectory, self.outcome)
        if score is None:
            return Verdict(Ruling.UNSCORED, None, f"ended in {trajectory.ending or 'an unknown way'}")
        if trajectory.answer is None:
            return Verdict(Ruling.INCORRECT, score, "no answer")
        ruling = Ruling.CORRECT if score >= self.threshold else Ruling.INCORRECT
        return Verdict(ruling, score, f"{self.name} score {score:.2f}")
