"""IGPO: turn-level credit from information gain and outcome (arXiv 2510.14967; browse-aware form and scale: 2604.19859).

The modes say what makes outcomes and gains comparable within a group, and whether before or after gains are summed.

- ``returns`` sums first: R_k = sum_j w_kj g_j of the gains as they were measured. Each turn's R then loses the mean R of all
  turns of the group's *other* trajectories, is divided by those turns' standard deviation, and scaled. The outcome's z is added
  whole.
- ``joint``, ``separate`` and ``scaled_separate`` z-score each gain over the group, and sum then. The outcome's z is the last
  turn's, and discounted on its way back.
- ``raw`` divides each gain by the group's standard deviation, and sums nothing. The outcome's z is added whole.

Subtracting a mean from each gain before they are summed takes it off once for every turn that follows: a policy that controls
when it stops is then paid, or punished, for turns that bring nothing (docs/rl-credit.md).

How a trajectory's gains and outcome reach its turns is written as weights, since every assignment and discount is linear in
them. Legend: T turns of one trajectory, in order. A *segment* ends at a scored turn; what follows the last of those is the
tail, which ends at the last turn. A turn's *place* is its number, or its segment's, by the kind of discount.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

import numpy as np
from pydantic import Field, model_validator

from sanderling.rl.credit.table import EPS, Components, Estimating, Outcomes, TurnTable, TurnTool, differ, outcomes, z_scores
from sanderling.train.contract import BoolArray, FloatArray, IntArray

GAIN, PENALTY = 0, 1
"""The columns of ``parts``."""
LEAST_SPREAD = 0.5
"""The others' deviation counts at least as this share of the whole group's: one trajectory that stands out is not blown up."""


class IgpoMode(StrEnum):
    """How outcome and information gain are brought to one scale, and what is summed."""

    RETURNS = "returns"
    """Each turn's discounted gain-to-go, centred once per turn on the turns of the group's other trajectories; the outcome's
    z-score undiscounted. The one mode in which mere extra turns are neither paid nor punished (docs/rl-credit.md); with a gamma
    below 1, turns with gains of their own are charged for putting off a later gain, and paid for putting off a loss."""
    SCALED_SEPARATE = "scaled_separate"
    """Outcomes and gains z-scored each on its own, gains then scaled to the outcomes' size over the whole batch (DR-Venus)."""
    SEPARATE = "separate"
    JOINT = "joint"
    """z-scored together."""
    RAW = "raw"
    """Gains over their spread, no mean taken off, each for its own turns only (gamma is 0, whatever is set); the outcome's
    z-score undiscounted (DR-Venus' ``raw_ig``)."""


class Assignment(StrEnum):
    """Which turns receive a scored turn's gain."""

    CODE = "code"
    """The scored turn and all turns since the scored turn before it share one value, in which the gain counts once (DR-Venus as
    released): with gains scored on visits, the searches that led there."""
    SINCE_LAST_VISIT = "since_last_visit"
    """The scored turn and *each* search since the scored turn before it receive the gain in full (the paper, first reading)."""
    PREVIOUS_SEARCH = "previous_search"
    """The scored turn and the last search since the scored turn before it (second reading)."""
    OWN_TURN = "own_turn"


class Discount(StrEnum):
    """What a step of discounting is."""

    PER_TURN = "per_turn"
    PER_SEGMENT = "per_segment"
    """A scored turn and the unscored ones before it are one step (DR-Venus as released)."""


class PenaltyForm(StrEnum):
    """How a turn's format penalty enters."""

    OWN_TURN = "own_turn"
    """Added to that turn's advantage after everything else: in no statistic, and no other turn has it."""
    AS_RELEASED = "as_released"
    """It replaces the turn's gain, enters the gains' statistics and ends a segment, so that unscored turns before inherit it;
    on the last turn it replaces the outcome (DR-Venus as released)."""


class IgpoConfig(Estimating):
    """Information gain and outcome in the group, discounted backwards over turns (arXiv 2510.14967, 2604.19859)."""

    kind: str = "igpo"
    mode: IgpoMode = IgpoMode.RETURNS
    assignment: Assignment = Assignment.CODE
    discount: Discount = Discount.PER_TURN
    gamma: float = Field(default=1.0, ge=0, le=1)
    """1 by default in ``returns``, where less is a preference for early gains and late losses; else 0.95, as published."""
    adaptive_gamma: float | None = Field(default=None, gt=0, le=1)
    """w: a trajectory of n > 1 turns (or segments) is discounted by ``w ** (1 / n)`` instead of ``gamma``."""
    gain_weight: float = Field(default=1.0, ge=0)
    outcome_floor: float = Field(default=0.3, ge=0)
    """Scale of the gains where outcomes say little: the least mean |z| of outcomes that gains are scaled to."""
    max_scale: float = Field(default=10.0, gt=0)
    penalty_form: PenaltyForm = PenaltyForm.OWN_TURN

    @model_validator(mode="before")
    @classmethod
    def _discounted_as_published(cls, given: Any) -> Any:
        if isinstance(given, dict) and "gamma" not in given and given.get("mode", IgpoMode.RETURNS) != IgpoMode.RETURNS:
            return {**given, "gamma": 0.95}
        return given

    @property
    def needs_gain(self) -> bool:
        return True

    @property
    def least_group(self) -> int:
        """Where gains are not held against those of other rollouts, those of one rollout's turns differ, too."""
        return 2 if self.mode is IgpoMode.RETURNS else 1


@dataclass(frozen=True)
class Rewards:
    """What a batch's turns brought."""

    found: Outcomes
    tool: np.ndarray
    scored: BoolArray
    """[K] turns that end a segment: with a gain, or with a penalty in its place."""
    parts: FloatArray
    """[K, 2] gains, and penalties in their place; 0 where there is none."""

    def trajectories(self) -> list[IntArray]:
        """Each trajectory's turns, in order: a table is sorted."""
        begins = np.flatnonzero(np.diff(self.found.of_turn, prepend=-1))
        return np.split(np.arange(len(self.scored)), begins[1:]) if begins.size else []

    def groups(self) -> Iterator[tuple[IntArray, IntArray]]:
        """The scored trajectories of each group that has any, and all their turns."""
        for members in self.found.groups():
            yield members, np.flatnonzero(np.isin(self.found.of_turn, members))


def igpo(table: TurnTable, config: IgpoConfig) -> Components:
    """Advantages [K] in parts. As released, a penalty's part is what flows from the turns it replaced, to them and earlier."""
    found = outcomes(table)
    scored = table.gain_scored & table.scored
    rewards = Rewards(found, table.tool, scored, np.stack([np.where(scored, table.gain, 0.0), np.zeros(len(table))], axis=1))
    penalty, replaced = config.penalty_weight * table.penalty, np.zeros(len(found.outcome), dtype=np.bool_)
    if config.penalty_form is PenaltyForm.AS_RELEASED:
        rewards, replaced = _as_released(rewards, np.where(table.scored, penalty, 0.0))
        penalty = np.zeros(len(table))
    outcome, parts = (gain_to_go if config.mode is IgpoMode.RETURNS else one_by_one)(rewards, config)
    parts = config.gain_weight * parts
    of_penalty = np.where(replaced[found.of_turn], outcome, 0.0)
    return Components(outcome - of_penalty, parts[:, GAIN], parts[:, PENALTY] + of_penalty + penalty)


def _as_released(rewards: Rewards, penalty: FloatArray) -> tuple[Rewards, BoolArray]:
    """Penalties [K] in the place of their turns' gains and, on last turns, outcomes; which outcomes [N] they replaced."""
    found = rewards.found
    bad, last = penalty < 0, np.zeros(len(penalty), dtype=np.bool_)
    last[[turns[-1] for turns in rewards.trajectories()]] = True
    outcome, replaced = found.outcome.copy(), np.zeros(len(found.outcome), dtype=np.bool_)
    final = found.of_turn[bad & last]
    outcome[final], replaced[final] = penalty[bad & last], True
    inner = bad & ~last
    parts = np.where(inner[:, None], np.stack([np.zeros(len(penalty)), penalty], axis=1), rewards.parts)
    return replace(rewards, found=replace(found, outcome=outcome), scored=rewards.scored | inner, parts=parts), replaced


def one_by_one(rewards: Rewards, config: IgpoConfig) -> tuple[FloatArray, FloatArray]:
    """The modes that normalise each gain: of every turn the outcome's share [K] and the gains' [K, 2]."""
    found, raw = rewards.found, config.mode is IgpoMode.RAW
    values, normal = rewards.parts.sum(axis=1), np.zeros(len(rewards.scored))
    outcome_z, told = np.zeros(len(found.outcome)), np.zeros(len(normal), dtype=np.bool_)
    for members, turns in rewards.groups():
        turns = turns[rewards.scored[turns]]
        outcomes, gains = found.outcome[members], values[turns]
        outcome_z[members] = z_scores(outcomes)
        told[turns] = differ(gains)
        if config.mode is IgpoMode.JOINT:
            both = z_scores(np.concatenate([outcomes, gains]))
            outcome_z[members], normal[turns] = both[: members.size], both[members.size :]
        elif raw:
            normal[turns] = gains / (gains.std() + EPS if differ(gains) else 1.0)
        else:
            normal[turns] = z_scores(gains)
    if config.mode is IgpoMode.SCALED_SEPARATE:
        normal *= gain_scale(outcome_z[found.scored], normal[told], config)
    parts = np.where(rewards.parts != 0.0, 1.0, 0.0)
    parts[:, GAIN] = 1.0 - parts[:, PENALTY]
    outcome = np.zeros(len(normal))
    for trajectory, turns in enumerate(rewards.trajectories()):
        outcome[turns] = outcome_z[trajectory] * (1.0 if raw else outcome_weights(rewards.scored[turns], config))
    return outcome, _flowed(rewards, parts * normal[:, None], config)


def gain_to_go(rewards: Rewards, config: IgpoConfig) -> tuple[FloatArray, FloatArray]:
    """The mode ``returns``: of every turn the outcome's share [K] and the gains' [K, 2]."""
    found, credit = rewards.found, np.zeros_like(rewards.parts)
    to_go = _flowed(rewards, rewards.parts, config)
    outcome_z, told = np.zeros(len(found.outcome)), np.zeros(len(to_go), dtype=np.bool_)
    for members, turns in rewards.groups():
        outcome_z[members] = z_scores(found.outcome[members])
        if members.size > 1 and differ(to_go[turns].sum(axis=1)):
            told[turns] = True
            credit[turns] = _against_others(to_go[turns], found.of_turn[turns])
    scale = gain_scale(outcome_z[found.scored], credit[told].sum(axis=1), config)
    return outcome_z[found.of_turn], scale * credit


def _against_others(to_go: FloatArray, owner: IntArray) -> FloatArray:
    """Each turn's parts, less the mean over the turns of other owners, over those turns' deviation; at least two owners."""
    _, owner = np.unique(owner, return_inverse=True)
    total = to_go.sum(axis=1)
    counts = len(owner) - np.bincount(owner)
    mean = np.stack([(part.sum() - np.bincount(owner, part)) / counts for part in to_go.T], axis=1)
    # Around the group's mean, so that equal values have a deviation of exactly zero.
    around = total - total.mean()
    first, second = ((x.sum() - np.bincount(owner, x)) / counts for x in (around, around**2))
    spread = np.sqrt(np.maximum(second - first**2, 0.0))
    spread = np.maximum(spread, LEAST_SPREAD * total.std()) + EPS
    return (to_go - mean[owner]) / spread[owner, None]


def gain_scale(outcome_z: FloatArray, gain_z: FloatArray, config: IgpoConfig) -> float:
    """The batch-wide factor of the gains, from those of groups whose gains differ; 1 where there are none."""
    if gain_z.size == 0:
        return 1.0
    target = max(float(np.abs(outcome_z).mean()), config.outcome_floor)
    return min(target / (float(np.abs(gain_z).mean()) + EPS), config.max_scale)


def _flowed(rewards: Rewards, parts: FloatArray, config: IgpoConfig) -> FloatArray:
    """What each turn has of its trajectory's ``parts`` [K, 2]."""
    flowed = np.zeros_like(parts)
    for trajectory, turns in enumerate(rewards.trajectories()):
        if rewards.found.scored[trajectory]:
            flowed[turns] = gain_weights(rewards.scored[turns], rewards.tool[turns], config) @ parts[turns]
    return flowed


def segments(scored: BoolArray) -> IntArray:
    """Each turn's segment [T]."""
    ends = scored.copy()
    ends[-1:] = True
    return np.searchsorted(np.flatnonzero(ends), np.arange(len(scored)))


def discounting(scored: BoolArray, config: IgpoConfig) -> tuple[IntArray, float]:
    """Each turn's place [T], and the discount of one place; of a trajectory with a single one it does not matter."""
    place = np.arange(len(scored)) if config.discount is Discount.PER_TURN else segments(scored)
    count = int(place[-1]) + 1
    return place, config.gamma if config.adaptive_gamma is None or count < 2 else config.adaptive_gamma ** (1.0 / count)


def gain_weights(scored: BoolArray, tool: np.ndarray, config: IgpoConfig) -> FloatArray:
    """[T, T]: how much of turn j's gain turn k has. Columns of turns that are not scored are 0."""
    place, gamma = discounting(scored, config)
    gamma = 0.0 if config.mode is IgpoMode.RAW else gamma
    ahead = np.maximum(place[None, :] - place[:, None], 0).astype(np.float64)
    later = np.triu(gamma**ahead)
    if config.assignment is not Assignment.CODE:
        return later @ receivers(scored, tool, config.assignment).astype(np.float64)
    own = segments(scored)
    return np.where((own[None, :] == own[:, None]) & scored[None, :], 1.0, later) * scored


def receivers(scored: BoolArray, tool: np.ndarray, assignment: Assignment) -> BoolArray:
    """[T, T]: whether turn k is handed turn j's gain, for the assignments that hand out copies."""
    found = np.diag(scored)
    searches = (tool == TurnTool.SEARCH) & ~scored
    start = 0
    for end in np.flatnonzero(scored):
        before = start + np.flatnonzero(searches[start:end])
        if assignment is Assignment.SINCE_LAST_VISIT:
            found[before, end] = True
        elif assignment is Assignment.PREVIOUS_SEARCH:
            found[before[-1:], end] = True
        start = end + 1
    return found


def outcome_weights(scored: BoolArray, config: IgpoConfig) -> FloatArray:
    """[T]: how much of the outcome each turn has, when it is discounted from the last."""
    place, gamma = discounting(scored, config)
    return gamma ** (place[-1] - place).astype(np.float64)
