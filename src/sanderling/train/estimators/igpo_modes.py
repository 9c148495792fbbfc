"""IGPO's modes: what makes outcomes and gains comparable within a group, and whether before or after gains are summed.

- ``returns`` sums first: R_k = sum_j w_kj g_j of the gains as they were measured. Each turn's R then loses the mean R of all
  turns of the group's *other* trajectories, is divided by those turns' standard deviation, and scaled. The outcome's z is added
  whole.
- ``joint``, ``separate`` and ``scaled_separate`` z-score each gain over the group, and sum then. The outcome's z is the last
  turn's, and discounted on its way back.
- ``raw`` divides each gain by the group's standard deviation, and sums nothing. The outcome's z is added whole.

Subtracting a mean from each gain before they are summed takes it off once for every turn that follows: a policy that controls
when it stops is then paid, or punished, for turns that bring nothing. And where a trajectory's own turns are in the mean or
the deviation, its number of turns moves both.

The scale (``returns``, ``scaled_separate``) is one number for the batch: ``min(max(mean|z_O|, floor) / (mean|z_IG| + eps),
max)``.
A gain of zero is a value like any other. Where a group's gains are all equal (one alone included) they say nothing relative to
each other, and are left out of that mean, which they would otherwise drive to its limit.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from sanderling.train.contract import BoolArray, FloatArray, IntArray
from sanderling.train.credit_config import IgpoConfig, IgpoMode
from sanderling.train.estimators.assignment import gain_weights, outcome_weights
from sanderling.train.estimators.groups import EPS, Outcomes, differ, z_scores

GAIN, PENALTY = 0, 1
"""The columns of ``parts``."""
LEAST_SPREAD = 0.5
"""The others' deviation counts at least as this share of the whole group's: one trajectory that stands out is not blown up."""


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
    return outcome, _flowed(rewards, parts * normal[:, None], config, gamma=0.0 if raw else None)


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


def _flowed(rewards: Rewards, parts: FloatArray, config: IgpoConfig, gamma: float | None = None) -> FloatArray:
    """What each turn has of its trajectory's ``parts`` [K, 2]."""
    flowed = np.zeros_like(parts)
    for trajectory, turns in enumerate(rewards.trajectories()):
        if rewards.found.scored[trajectory]:
            flowed[turns] = gain_weights(rewards.scored[turns], rewards.tool[turns], config, gamma) @ parts[turns]
    return flowed
