"""What passes between the parts of an RL run: rollouts to make, who acts, groups that ended, and which of their rollouts count.

A *group* is one question's rollouts under one episode seed. Groups are numbered over the whole run, and a group's number alone
says which question, seed and attempts it has. Versions count weight updates; a trajectory's age is the number of the update
that trains on it less the version of its oldest token. Importable without torch.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from pydantic import Field

from sanderling.core.config import Frozen
from sanderling.core.grammar import check_final, check_turn
from sanderling.core.plugins import resolve
from sanderling.core.profiles import Profile
from sanderling.core.record import Question, Trajectory, turn_indices
from sanderling.core.types import Ending
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
        return score_trajectory(trajectory, rule)

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
    """Told when a held-out attempt has ended: the next weights make it anew, and what a journal holds of it is of no use."""


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


# -- which rollouts count --------------------------------------------------------------------------------------------------
#
# AgentCPM-Explore's three filters (arXiv 2602.06485; names and defaults are ours) over one question's rollouts. *Environment
# noise*: a rollout that met an outage of a tool or the model, or that no judge could decide, says nothing of the
# policy; it is unscored and in no statistic, never a zero, and no setting changes that. *Extreme trajectories* and *format
# errors* are as DenoiseConfig has them. Signals are removed, never corrected: no outcome is changed. And the format penalty,
# after DR-Venus (arXiv 2604.19859): one number for each turn, 0 where the turn keeps the grammar.

_FORCED = frozenset({Ending.ANSWERED_AT_BUDGET, Ending.NO_ANSWER})
_OVER_LONG = frozenset({Ending.CONTEXT_EXHAUSTED, Ending.TIME_LIMIT, Ending.TURN_LIMIT, Ending.NO_ANSWER})
SAME = 1e-9  # outcomes that differ by less differ by rounding


class Place(StrEnum):
    """What a rollout that a filter takes out still counts in; what met an outage counts in nothing."""

    OUT = "out"
    BASELINE = "baseline"
    """Its group's statistics: the outcomes that the others are compared with, and whether these differ (AgentRL)."""


class DenoiseConfig(Frozen):
    """By default outages alone are left out, and groups of which too little is left."""

    place: Place = Place.OUT
    """Where over-long and trivially short rollouts count; they are not trained on either way."""
    over_long: bool = False
    """Leave out rollouts that ran out of context, turns or time without an answer."""
    least_turns: int = Field(default=0, ge=0)
    """Leave out answers scored above 0 after at most so many turns, as trivial; 0: none."""
    cap_malformed: bool = False  # a turn that breaks the grammar keeps negative credit and gets no positive one
    cap_repeated: bool = False  # the same for a turn whose text the trajectory has said before
    drop_flat: bool = False
    """Drop groups whose outcomes do not differ and replace them (dynamic sampling, arXiv 2503.14476)."""
    least_spread: float = Field(default=0.0, ge=0, le=1)
    """A group is flat if its best and worst outcome differ by less than this (AgentCPM-Explore: 0.1) or not at all."""
    most_groups: float = Field(default=4.0, ge=1)
    """Most groups finished for a step, in multiples of ``questions_per_step``."""
    least_scored: float = Field(default=0.75, ge=0, le=1)
    """Share of a group's rollouts that must be scored. With less it is replaced by another group: who met no outage is no fair
    sample where outages are many. Of held-out rollouts, too: with less the run stops."""
    outage_wait_s: float = Field(default=5.0, ge=0)  # seconds before a rollout that met an outage is retried, doubled each time
    outage_retries: int = Field(default=2, ge=0)
    """Retries of such a rollout, which resumes where it was; then its group goes on without it."""
    judge_patience_s: float = Field(default=600.0, ge=0)
    """Seconds to wait for a judge that cannot be reached; then the run stops, and can be resumed."""


def broken_turns(trajectory: Trajectory, profile: Profile) -> list[bool]:
    """Whether each turn breaks the grammar, which costs it the format penalty; the last one after a forced hint must answer."""
    texts = [trajectory.nodes[index].text for index in turn_indices(trajectory)]
    checks = [check_turn] * len(texts)
    if trajectory.ending in _FORCED:
        checks[-1:] = [check_final]
    opened = "<think>" in profile.think_prefix
    return [bool(check(text, think_open=opened)) for check, text in zip(checks, texts, strict=True)]


class Noise(StrEnum):
    """Why a rollout is not trained on; where several hold, the first of them."""

    OUTAGE = "outage"  # it ended in an outage or was cancelled, or no judge could score it
    STALE = "stale"  # it is older than the bound on staleness
    OVER_LONG = "over_long"
    TOO_SHORT = "too_short"


def noise_of(trajectory: Trajectory, outcome: float | None, config: DenoiseConfig, *, stale: bool = False) -> Noise | None:
    """Why a rollout is left out; None: it is trained on."""
    ending = trajectory.ending
    if outcome is None or (ending is not None and not ending.scored):  # whatever number somebody gave it
        return Noise.OUTAGE
    if stale:
        return Noise.STALE
    # An answer that was given at the budget is an answer: only who gave none is over-long.
    if config.over_long and ending in _OVER_LONG:
        return Noise.OVER_LONG
    return Noise.TOO_SHORT if outcome > 0 and len(turn_indices(trajectory)) <= config.least_turns else None


def capped_turns(trajectory: Trajectory, config: DenoiseConfig, broken: Sequence[bool]) -> list[bool]:
    """The turns that get no positive credit: those that break the grammar, and those whose very text was there before."""
    texts = [trajectory.nodes[index].text.strip() for index in turn_indices(trajectory)]
    again = [config.cap_repeated and text in texts[:at] for at, text in enumerate(texts)]
    return [(config.cap_malformed and bad) or same for bad, same in zip(broken, again, strict=True)]


def is_flat(outcomes: Sequence[float], config: DenoiseConfig) -> bool:
    """Whether a group's outcomes say nothing: best and worst of those that count differ by too little, or there is but one."""
    spread = max(outcomes) - min(outcomes) if outcomes else 0.0
    return spread <= SAME or spread < config.least_spread - SAME
