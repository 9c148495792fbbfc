"""What a mere extra turn is paid, exactly in small; benchmarks/turn_bias.py measures it in whole batches.

The default has to be neutral. The modes that are not are pinned as such, so that docs/rl.md stays true of them.
"""

import itertools

import numpy as np
import pytest
from turn_tables import table_of, trajectory

from sanderling.rl.credit import GrpoConfig, IgpoConfig, IgpoMode, build_estimator

UNSCALED = {"outcome_floor": 1e6, "max_scale": 1.0}
"""The scale of gains is 1: as one number for a batch it knows of every turn in it, which is felt in a batch of two."""


def exact(
    config, *, gain: float = 1.0, extra_gain: float | None = 0.0, before: bool = False, theta: float = 0.5, most: int = 3
):
    """Pay of an extra turn, over all pairs of trajectories: all, failing and succeeding ones."""
    estimate, sums, decisions = build_estimator(config), np.zeros(3), np.zeros(3)
    for extras in itertools.product(range(most + 1), repeat=2):
        for outcomes in itertools.product((0.0, 1.0), repeat=2):
            lines = [[extra_gain] * n + [gain] if before else [gain] + [extra_gain] * n for n in extras]
            batch = [trajectory(o, [*line, None]) for o, line in zip(outcomes, lines, strict=True)]
            chance = 0.25 * np.prod([theta**n * (1 - theta if n < most else 1.0) for n in extras])
            scores = []
            for n in extras:
                own = [1 - theta] * n + ([-theta] if n < most else [])
                scores += own + [0.0] * (n + 2 - len(own)) if before else [0.0] + own + [0.0] * (n + 1 - len(own))
            table = table_of(batch)
            paid = np.bincount(table.trajectory, estimate(table) * np.array(scores))
            for i, n in enumerate(extras):
                of = np.array([1.0, outcomes[i] == 0.0, outcomes[i] == 1.0])
                sums += chance * of * paid[i]
                decisions += chance * of * min(n + 1, most)
    return sums / decisions / (theta * (1 - theta))


@pytest.mark.parametrize("theta", [0.3, 0.5, 0.8])
@pytest.mark.parametrize("gain", [1.0, -1.0])
@pytest.mark.parametrize("extra_gain", [0.0, None])
def test_by_default_turns_after_which_nothing_changes_are_exactly_neutral(theta, gain, extra_gain):
    config = IgpoConfig(**UNSCALED)
    np.testing.assert_allclose(exact(config, gain=gain, extra_gain=extra_gain, theta=theta), 0.0, atol=1e-12)


@pytest.mark.parametrize("gain", [1.0, -1.0])
def test_putting_a_gain_off_costs_what_the_discount_says_and_nothing_without_one(gain):
    undiscounted = IgpoConfig(**UNSCALED)
    assert undiscounted.gamma == 1.0 and IgpoConfig(mode=IgpoMode.SCALED_SEPARATE).gamma == 0.95
    # A trajectory of k extra turns and a gain: gain-to-go is the gain at every turn but the answer's.
    np.testing.assert_allclose(exact(undiscounted, gain=gain, before=True), 0.0, atol=1e-12)
    discounted = exact(IgpoConfig(gamma=0.95, **UNSCALED), gain=gain, before=True)
    assert (np.sign(discounted) == -np.sign(gain)).all(), "a preference for early gains, and for late losses"
    assert np.abs(discounted).max() < 0.2
    unscored = exact(IgpoConfig(gamma=0.95, **UNSCALED), gain=gain, extra_gain=None, before=True)
    np.testing.assert_allclose(unscored, 0.0, atol=1e-12, err_msg="searches that lead to a visit share its gain whole")


def test_outcomes_alone_are_neutral_undiscounted_and_pay_failures_for_going_on_discounted():
    np.testing.assert_allclose(exact(GrpoConfig()), 0.0, atol=1e-12)
    everyone, failing, succeeding = exact(IgpoConfig(mode=IgpoMode.SCALED_SEPARATE), extra_gain=None)
    assert everyone == pytest.approx(0.0, abs=1e-12) and failing > 0.02 and succeeding == pytest.approx(-failing)


@pytest.mark.parametrize("mode", [IgpoMode.SCALED_SEPARATE, IgpoMode.SEPARATE, IgpoMode.JOINT])
def test_a_mean_taken_off_each_gain_is_charged_for_each_later_turn(mode):
    assert (exact(IgpoConfig(mode=mode), gain=1.0) < -0.5).all(), "punished where gains are good"
    assert (exact(IgpoConfig(mode=mode), gain=-1.0) > 0.15).all(), "paid where gains are bad"
