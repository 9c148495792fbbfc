"""IGPO: turn-level credit from information gain and outcome (arXiv 2510.14967; browse-aware form and scale: 2604.19859).

Which turns have how much of a gain: `assignment`. What makes outcome and gains comparable, and when: `igpo_modes`. Here stand
the two forms of the format penalty, and how the parts become an advantage.
"""

from dataclasses import replace

import numpy as np

from sanderling.train.contract import BoolArray, FloatArray, TurnTable
from sanderling.train.credit_config import IgpoConfig, IgpoMode, PenaltyForm
from sanderling.train.estimators.groups import Components, outcomes, settled
from sanderling.train.estimators.igpo_modes import GAIN, PENALTY, Rewards, gain_to_go, one_by_one


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
    return settled(table, Components(outcome - of_penalty, parts[:, GAIN], parts[:, PENALTY] + of_penalty + penalty))


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
