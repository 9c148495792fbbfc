"""What passes between the parts of an RL run: rollouts to make, groups that ended, and who acts. Importable without torch.

A *group* is one question's rollouts under one episode seed. Groups are numbered over the whole run, and a group's number alone
says which question, seed and attempts it has. Versions count weight updates; a trajectory's age is the number of the update
that trains on it less the version of its oldest token.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from enum import StrEnum

from sanderling.core.errors import UserError
from sanderling.core.plugins import resolve
from sanderling.core.record import Question, Trajectory
from sanderling.judge.rules import OUTCOMES, score_trajectory
from sanderling.policy.contract import WeightSync


@dataclass(frozen=True)
class Ask:
    """One rollout to make."""

    question: Question
    seed: int  # the episode seed, shared by the group
    attempt: int  # over the whole run, no two rollouts have the same
    finish_early: asyncio.Event = field(default_factory=asyncio.Event, compare=False)
    """Once set, the agent is asked for its answer at its next turn."""


class ScorerAwayError(Exception):
    """Who scores was not reached; says why.

    A rollout without an outcome for that alone waits, and is never left out: a rule before a model that is away has told the
    right answers by then, and nobody the wrong ones.
    """


Rollout = Callable[[Ask], Awaitable[Trajectory]]
Score = Callable[[Trajectory], Awaitable[float | None]]
"""A trajectory's outcome in [0, 1]; None: unscored. Raises ScorerAwayError."""


def rule_score(name: str) -> Score:
    """The outcome by a rule alone, by its name or as ``file.py:name``. Raises UserError where there is none."""
    rule = resolve(name, OUTCOMES, "outcome")

    async def score(trajectory: Trajectory) -> float | None:
        found = score_trajectory(trajectory, rule)
        if found is not None and not 0.0 <= found <= 1.0:
            raise UserError(f"The outcome {name} gave {found!r} to {trajectory.id}: it has to be from 0 to 1.")
        return found

    return score


@dataclass(frozen=True)
class Actor:
    """Who samples: rollouts, and how they get the weights of each update."""

    rollout: Rollout
    sync: WeightSync
    stored: Callable[[Trajectory], None] = lambda _: None
    """Told when a trajectory is on disk for good: an episode journal can then forget it."""
    score: Score | None = None  # None: the rule that the configuration names
    forget: Callable[[Trajectory], None] = lambda _: None
    """Told when an outage is not tried again: what a journal holds of that episode is of no use."""


class GroupStatus(StrEnum):
    """Whether a finished group is trained on, or why it is not."""

    USED = "used"
    FLAT = "flat"  # its outcomes do not differ, and another was made in its place
    STALE = "stale"  # too few of its rollouts were young enough, and another is made in its place
    NOISY = "noisy"  # denoising left too few of its rollouts to compare
    UNSCORED = "unscored"  # too few of its rollouts have an outcome: outages


@dataclass(frozen=True)
class FinishedRollout:
    """A finished rollout, and its outcome."""

    trajectory: Trajectory
    outcome: float | None  # None: unscored


@dataclass(frozen=True)
class Group:
    """A question's rollouts, all ended, in the order of their attempts."""

    number: int
    question: Question
    rollouts: tuple[FinishedRollout, ...]

    @property
    def outcomes(self) -> list[float]:
        """Of the scored ones."""
        return [one.outcome for one in self.rollouts if one.outcome is not None]


def oldest_version(trajectory: Trajectory) -> int | None:
    """The version of its oldest sampled token; None where none was sampled."""
    versions = [min(node.versions) for node in trajectory.nodes if node.versions]
    return min(versions, default=None)
