"""Estimators of outcomes against references, and what holds for every estimator; IGPO's own are in test_estimators_igpo."""

import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from turn_tables import batches, due, grid, table_of, trajectory

from sanderling.rl.credit import DrGrpoConfig, GrpoConfig, IgpoConfig, LeaveOneOutConfig, build_estimator
from sanderling.rl.credit.grpo import Deviation
from sanderling.rl.credit.igpo import Assignment, Discount, IgpoMode, PenaltyForm
from sanderling.rl.credit.table import Estimating

OUTCOME_ONLY = [
    GrpoConfig(),
    GrpoConfig(deviation=Deviation.SAMPLE),
    DrGrpoConfig(penalty_weight=0.5),
    LeaveOneOutConfig(),
    LeaveOneOutConfig(right_above=0.5, scale=2.0),
]
CONFIGS = [
    *OUTCOME_ONLY,
    *(IgpoConfig(mode=mode) for mode in IgpoMode),
    IgpoConfig(discount=Discount.PER_SEGMENT, adaptive_gamma=0.3),
    IgpoConfig(assignment=Assignment.OWN_TURN, mode=IgpoMode.SEPARATE),
    IgpoConfig(assignment=Assignment.SINCE_LAST_VISIT, penalty_form=PenaltyForm.AS_RELEASED),
    IgpoConfig(mode=IgpoMode.SCALED_SEPARATE, penalty_form=PenaltyForm.AS_RELEASED),
]
SCALED_OVER_THE_BATCH = (IgpoMode.RETURNS, IgpoMode.SCALED_SEPARATE)
"""Modes whose gains have one scale over all groups."""
OVER_THE_WHOLE_BATCH: frozenset[str] = frozenset()
"""Kinds of estimators with other statistics over the batch, such as a global baseline: their page says which."""


def slow_outcomes(batch, config) -> dict[int, float]:
    """Advantages from outcomes, by trajectory, in plain Python."""
    credit = {}
    for group in {t["group"] for t in batch}:
        members = [i for i, t in enumerate(batch) if t["group"] == group and t["outcome"] is not None]
        values = [batch[i]["outcome"] for i in members]
        for place, i in enumerate(members):
            others = values[:place] + values[place + 1 :]
            mean = sum(values) / len(values)
            if isinstance(config, GrpoConfig):
                squares = sum((v - mean) ** 2 for v in values)
                divisor = len(values) - (config.deviation is Deviation.SAMPLE)
                credit[i] = (values[place] - mean) / (math.sqrt(squares / divisor) + 1e-6) if squares > 1e-18 else 0.0
            elif isinstance(config, DrGrpoConfig):
                credit[i] = values[place] - mean
            elif isinstance(config, LeaveOneOutConfig):
                credit[i] = values[place] - sum(others) / len(others) if others else 0.0
                if config.right_above is not None:
                    credit[i] = max(credit[i], 0.0) if values[place] > config.right_above else min(credit[i], 0.0)
                credit[i] *= config.scale
            else:
                raise TypeError(f"write the formula of {type(config).__name__} here, slowly")
    return credit


@pytest.mark.parametrize("config", OUTCOME_ONLY, ids=repr)
@settings(max_examples=25)
@given(batch=batches())
def test_estimators_of_outcomes_agree_with_the_slow_reference(config, batch):
    slow, expected = slow_outcomes(batch, config), []
    for i, t in enumerate(batch):
        expected += [due(t, k, slow.get(i, 0.0) + config.penalty_weight * p) for k, p in enumerate(t["penalties"])]
    np.testing.assert_allclose(build_estimator(config)(table_of(batch)), expected, atol=1e-9)


@pytest.mark.parametrize("config", CONFIGS, ids=repr)
@settings(max_examples=12)
@given(batch=batches(), gains=st.lists(grid, min_size=1, max_size=4))
def test_unscored_trajectories_change_nobodys_advantage_and_get_none(config, batch, gains):
    """An outage of a tool, a judge or a model is no zero, and in nobody's baseline."""
    estimate, lost = build_estimator(config), trajectory(None, gains, penalties=[-1.0] * len(gains))
    with_lost = estimate(table_of([*batch, lost]))
    np.testing.assert_array_equal(with_lost[: -len(gains)], estimate(table_of(batch)))
    assert not with_lost[-len(gains) :].any()


@pytest.mark.parametrize("config", CONFIGS, ids=repr)
@settings(max_examples=12)
@given(batch=batches(), other=batches(3))
def test_groups_know_each_other_only_by_the_scale_of_gains(config, batch, other):
    if config.kind in OVER_THE_WHOLE_BATCH:
        return
    estimate = build_estimator(config)
    table = table_of([*batch, *({**t, "group": t["group"] + 10} for t in other)])
    size = sum(len(t["gains"]) for t in batch)
    alone, beside = estimate.components(table_of(batch)), estimate.components(table)
    if not any(any(t["capped"]) for t in batch):  # a cap looks at the sum of the parts, and so at the scale
        np.testing.assert_allclose(beside.outcome[:size], alone.outcome, atol=1e-9)
    if getattr(config, "mode", None) in SCALED_OVER_THE_BATCH:
        return
    np.testing.assert_allclose(beside.total[:size], alone.total, atol=1e-9)


@pytest.mark.parametrize("config", CONFIGS, ids=repr)
@settings(max_examples=12)
@given(batch=batches())
def test_capped_turns_keep_blame_only_and_untrained_ones_are_in_the_statistics_only(config, batch):
    estimate = build_estimator(config)
    free = [{**t, "trained": True, "capped": [False] * len(t["gains"])} for t in batch]
    plain = estimate(table_of(free))
    capped = estimate(table_of([{**t, "capped": [True] * len(t["gains"])} for t in free]))
    np.testing.assert_array_equal(capped, np.minimum(plain, 0.0))
    table = table_of([{**t, "trained": i > 0} for i, t in enumerate(free)])
    own = table.trajectory == 0
    np.testing.assert_array_equal(estimate(table), np.where(own, 0.0, plain))


@pytest.mark.parametrize("config", CONFIGS, ids=repr)
def test_a_batch_without_turns_has_no_advantages(config):
    assert build_estimator(config)(table_of([])).shape == (0,)


@pytest.mark.parametrize(
    "config", [c for c in CONFIGS if getattr(c, "penalty_form", None) is not PenaltyForm.AS_RELEASED], ids=repr
)
def test_a_penalty_reaches_its_own_turn_only(config):
    base = [trajectory(1.0, [None, 0.5, None]), trajectory(0.0, [None, 0.1, None])]
    slipped = [{**base[0], "penalties": [0.0, -1.0, 0.0]}, base[1]]
    estimate = build_estimator(config)
    difference = estimate(table_of(slipped)) - estimate(table_of(base))
    np.testing.assert_allclose(difference, [0, -config.penalty_weight, 0, 0, 0, 0], atol=1e-12)


def test_the_sign_constraint_never_encourages_a_wrong_answer_nor_discourages_a_right_one():
    batch = [trajectory(value, [None]) for value in (0.5, 0.0, 0.0, 0.6, 0.9)]
    free = build_estimator(LeaveOneOutConfig())(table_of(batch))
    bound = build_estimator(LeaveOneOutConfig(right_above=0.5))(table_of(batch))
    assert free[0] > 0.0 and bound[0] == 0.0
    np.testing.assert_array_equal(bound[1:], free[1:])
    assert build_estimator(LeaveOneOutConfig(right_above=0.5))(table_of(batch[3:]))[0] == 0.0


@pytest.mark.parametrize("config", CONFIGS, ids=repr)
@settings(max_examples=12)
@given(gains=st.lists(grid, min_size=1, max_size=4), outcome=grid)
def test_fewer_rollouts_than_the_least_group_teach_nothing_but_form(config, gains, outcome):
    """RL refuses them. A mode that holds a rollout's turns against each other learns from one."""
    if getattr(config, "penalty_form", None) is not PenaltyForm.AS_RELEASED:
        alone = build_estimator(config).components(table_of([trajectory(outcome, gains)]))
        assert config.least_group == 1 or not alone.total.any()
    enough = [trajectory(1.0, [0.5, 0.1, 0.9]), trajectory(0.0, [0.2, 0.0, 0.3])][: config.least_group]
    assert build_estimator(config).components(table_of(enough)).total.any()


def test_plain_advantages_of_ones_own_estimator_are_fined_for_format_as_any(tmp_path: Path):
    (tmp_path / "mine.py").write_text("def plain(table):\n    return table.outcome - 0.5\n")
    table = table_of([trajectory(1.0, [None] * 3, penalties=[0.0, -1.0, 0.0]), trajectory(0.0, [None] * 2)])
    ours, built_in = (
        build_estimator(kind(kind=name, penalty_weight=2.0)).components(table)
        for kind, name in ((Estimating, f"{tmp_path / 'mine.py'}:plain"), (GrpoConfig, "grpo"))
    )
    np.testing.assert_array_equal(ours.penalty, built_in.penalty)
    np.testing.assert_array_equal(ours.total, [0.5, -1.5, 0.5, -0.5, -0.5])
