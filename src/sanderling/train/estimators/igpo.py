"""IGPO: turn-level credit from information gain and outcome (arXiv 2510.14967; browse-aware form and scale: 2604.19859).

1. Outcomes are z-scored over a group's scored trajectories, gains over all scored turns of those. 2. Gains are scaled by one
number for the batch: ``s = min(max(mean|z_O|, floor) / (mean|z_IG| + eps), max)``. 3. A trajectory's turns form segments, each
ending at a turn with a scored gain (or every turn its own); what follows the last is
   the tail. A segment's turns share its gain at full value; later gains, and the outcome at the last turn, are discounted.
4. Format penalties are added to their own turn at the end: they are in no statistic and reach no other turn.

A gain of zero is a value like any other. Where a group's gains are all equal (one alone included) they carry no information,
and are left out of the mean in step 2, which they would otherwise drive to its limit.
"""

import numpy as np

from sanderling.train.contract import BoolArray, FloatArray, TurnTable
from sanderling.train.credit_config import Assignment, Discount, IgpoConfig, IgpoMode
from sanderling.train.estimators.groups import EPS, Outcomes, outcomes, with_penalty, z_scores


def igpo(table: TurnTable, config: IgpoConfig) -> FloatArray:
    """Advantages [K]."""
    found = outcomes(table)
    has_gain = table.gain_scored & table.scored
    outcome, gain = _normalised(table, found, has_gain, config.mode)
    if config.mode is IgpoMode.SCALED_SEPARATE:
        gain = gain * gain_scale(outcome[found.scored], gain[has_gain], config)
    gain = gain * config.gain_weight
    advantages = np.zeros(len(table))
    for trajectory in np.flatnonzero(found.scored):
        turns = np.flatnonzero(found.of_turn == trajectory)
        turns = turns[np.argsort(table.turn[turns], kind="stable")]
        advantages[turns] = _returns(gain[turns], has_gain[turns], float(outcome[trajectory]), config)
    return with_penalty(advantages, table, config.penalty_weight)


def gain_scale(outcome_z: FloatArray, gain_z: FloatArray, config: IgpoConfig) -> float:
    """The batch-wide factor of the gains; 1 where no gain carries information."""
    told = gain_z[gain_z != 0.0]
    if told.size == 0:
        return 1.0
    target = max(float(np.abs(outcome_z).mean()), config.outcome_floor)
    return min(target / (float(np.abs(told).mean()) + EPS), config.max_scale)


def _normalised(table: TurnTable, found: Outcomes, has_gain: BoolArray, mode: IgpoMode) -> tuple[FloatArray, FloatArray]:
    """Normalised outcomes [N] and gains [K]; 0 where there is none."""
    outcome, gain = np.zeros(len(found.outcome)), np.zeros(len(table))
    for members in found.groups():
        turns = np.flatnonzero(has_gain & np.isin(found.of_turn, members))
        if mode is IgpoMode.JOINT:
            both = z_scores(np.concatenate([found.outcome[members], table.gain[turns]]))
            outcome[members], gain[turns] = both[: members.size], both[members.size :]
            continue
        outcome[members] = z_scores(found.outcome[members])
        if turns.size:
            gain[turns] = z_scores(table.gain[turns])
    return outcome, gain


def _returns(gain: FloatArray, has_gain: BoolArray, outcome: float, config: IgpoConfig) -> FloatArray:
    """One trajectory's turns in order: own segment's gain, plus everything later, discounted by its distance in places."""
    size = len(gain)
    ends_here = has_gain.copy() if config.assignment is Assignment.SINCE_LAST_SCORED else np.ones(size, dtype=np.bool_)
    ends_here[-1] = True
    ends = np.flatnonzero(ends_here)
    place = np.arange(size) if config.discount is Discount.PER_TURN else np.searchsorted(ends, np.arange(size))
    advantages = np.zeros(size)
    ahead, ahead_place = outcome, place[-1]
    for segment in range(len(ends) - 1, -1, -1):
        end = ends[segment]
        members = slice(ends[segment - 1] + 1 if segment else 0, end + 1)
        own = gain[end] if has_gain[end] else 0.0
        advantages[members] = own + ahead * config.gamma ** (ahead_place - place[members])
        ahead, ahead_place = own + ahead * config.gamma ** (ahead_place - place[end]), place[end]
    return advantages
