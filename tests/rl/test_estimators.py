"""What holds for every estimator, and IGPO's traps in the released code; the values are pinned by the golden area `train`."""

import itertools
from pathlib import Path
from statistics import fmean, pstdev

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from turn_tables import batches, grid, table_of, trajectory

from sanderling.rl import credit

CONFIGS = [
    credit.GrpoConfig(),
    credit.GrpoConfig(deviation=credit.Deviation.SAMPLE),
    credit.GrpoConfig(deviation=credit.Deviation.NONE, penalty_weight=0.5),
    credit.LeaveOneOutConfig(),
    credit.LeaveOneOutConfig(right_above=0.5, scale=2.0),
    *(credit.IgpoConfig(mode=mode) for mode in credit.IgpoMode),
    credit.IgpoConfig(discount=credit.Discount.PER_SEGMENT, gamma=0.3),
    credit.IgpoConfig(assignment=credit.Assignment.OWN_TURN, mode=credit.IgpoMode.SEPARATE),
    credit.IgpoConfig(penalty_form=credit.PenaltyForm.AS_RELEASED),
    credit.IgpoConfig(mode=credit.IgpoMode.STATE, assignment=credit.Assignment.OWN_TURN),
    credit.IgpoConfig(mode=credit.IgpoMode.SCALED_SEPARATE, penalty_form=credit.PenaltyForm.AS_RELEASED, scale_over_flat=True),
]
SCALED_OVER_THE_BATCH = (credit.IgpoMode.RETURNS, credit.IgpoMode.STATE, credit.IgpoMode.SCALED_SEPARATE)
"""Modes whose gains have one scale over all groups."""


def test_every_estimator_is_tested_here_and_stands_on_its_page():
    assert {config.kind for config in CONFIGS} == {*credit.ESTIMATORS}
    page = (Path(__file__).parents[2] / "docs" / "rl.md").read_text(encoding="utf-8")
    assert [name for name in credit.ESTIMATORS if f"`{name}`" not in page] == []


@pytest.mark.parametrize("config", CONFIGS, ids=repr)
@settings(max_examples=12)
@given(batch=batches(), gains=st.lists(grid, min_size=1, max_size=4))
def test_unscored_trajectories_change_nobodys_advantage_and_get_none(config, batch, gains):
    """An outage of a tool, a judge or a model is no zero, and in nobody's baseline."""
    estimate, lost = credit.build_estimator(config), trajectory(None, gains, penalties=[-1.0] * len(gains))
    with_lost = estimate(table_of([*batch, lost]))
    np.testing.assert_array_equal(with_lost[: -len(gains)], estimate(table_of(batch)))
    assert not with_lost[-len(gains) :].any()


@pytest.mark.parametrize("config", CONFIGS, ids=repr)
@settings(max_examples=12)
@given(batch=batches(), other=batches(3))
def test_groups_know_each_other_only_by_the_scale_of_gains(config, batch, other):
    estimate = credit.build_estimator(config)
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
    estimate = credit.build_estimator(config)
    free = [{**t, "trained": True, "capped": [False] * len(t["gains"])} for t in batch]
    plain = estimate(table_of(free))
    capped = estimate(table_of([{**t, "capped": [True] * len(t["gains"])} for t in free]))
    np.testing.assert_array_equal(capped, np.minimum(plain, 0.0))
    table = table_of([{**t, "trained": i > 0} for i, t in enumerate(free)])
    own = table.trajectory == 0
    np.testing.assert_array_equal(estimate(table), np.where(own, 0.0, plain))


@pytest.mark.parametrize(
    "config", [c for c in CONFIGS if getattr(c, "penalty_form", None) is not credit.PenaltyForm.AS_RELEASED], ids=repr
)
def test_a_penalty_reaches_its_own_turn_only(config):
    base = [trajectory(1.0, [None, 0.5, None]), trajectory(0.0, [None, 0.1, None])]
    slipped = [{**base[0], "penalties": [0.0, -1.0, 0.0]}, base[1]]
    estimate = credit.build_estimator(config)
    difference = estimate(table_of(slipped)) - estimate(table_of(base))
    np.testing.assert_allclose(difference, [0, -config.penalty_weight, 0, 0, 0, 0], atol=1e-12)


def test_plain_advantages_of_ones_own_estimator_are_fined_for_format_as_any(tmp_path: Path):
    (tmp_path / "mine.py").write_text("def plain(table):\n    return table.outcome - 0.5\n")
    table = table_of([trajectory(1.0, [None] * 3, penalties=[0.0, -1.0, 0.0]), trajectory(0.0, [None] * 2)])
    ours, built_in = (
        credit.build_estimator(kind(kind=name, penalty_weight=2.0)).components(table)
        for kind, name in ((credit.Estimating, f"{tmp_path / 'mine.py'}:plain"), (credit.GrpoConfig, "grpo"))
    )
    np.testing.assert_array_equal(ours.penalty, built_in.penalty)
    np.testing.assert_array_equal(ours.total, [0.5, -1.5, 0.5, -0.5, -0.5])


def pair(gains=((None, 2.0, None), (None, 0.0, None)), **more) -> list[dict]:
    return [trajectory(outcome, list(own), **more) for outcome, own in zip((1.0, 0.0), gains, strict=True)]


SCALED = credit.IgpoConfig(mode=credit.IgpoMode.SCALED_SEPARATE)


def values_of(config, batch) -> np.ndarray:
    return credit.build_estimator(config)(table_of(batch))


def test_one_lone_gain_does_not_drive_the_scale_of_the_others():
    """Trap 6: a group with one gain has z = 0; counted, such groups drove the scale to its limit of 10."""
    twin = pair(((0.5, None), (-0.5, None)))
    lone = [trajectory(0.5, [0.7, None], group=g) for g in (1, 2, 3, 4)]
    even = [trajectory(1.0, [None, None], group=g) for g in (1, 2, 3, 4)]
    np.testing.assert_allclose(values_of(SCALED, [*twin, *lone, *even])[:4], values_of(SCALED, twin), atol=1e-5)
    equal = [trajectory(o, [0.25, None], group=1) for o in (1.0, 0.0)]
    np.testing.assert_allclose(values_of(SCALED, [*twin, *equal])[:4], values_of(SCALED, twin), atol=1e-5)
    # Gains-to-go differ where the gain is one turn's of two; they count, and are of a size with the others.
    for more in (equal, lone, [*lone, *even]):
        factor = values_of(credit.IgpoConfig(), [*twin, *more])[:4] / values_of(credit.IgpoConfig(), twin)
        assert factor.max() < 1.5, "their scale is not driven up"


def test_against_those_who_stood_before_the_same_a_gain_counts_what_the_turn_did_and_not_where_it_stood():
    """The second turn brings more to everybody; only who went elsewhere there is told apart."""
    went = [("a", "b", 0.25), ("a", "b", 0.25), ("a", "c", 0.75), ("d", "b", 0.5)]
    batch = [
        trajectory(float(second == "c"), [0.0, gain, None], calls=[first, second, "answer"]) for first, second, gain in went
    ]
    config = credit.IgpoConfig(mode=credit.IgpoMode.STATE, assignment=credit.Assignment.OWN_TURN, max_scale=1.0)
    gains = credit.build_estimator(config).components(table_of(batch)).gain.reshape(4, 3)
    np.testing.assert_allclose(gains[:, 1], [-0.25, -0.25, 0.5, 0.0])
    assert not gains[:, [0, 2]].any()
    free = config.model_copy(update={"max_scale": 10.0})
    sizes = [credit.build_estimator(free).components(table_of(batch)).gain[7]]
    near = [trajectory(float(n), [n * 1e-4, None], group=g, calls=["a", "b"]) for g in (1, 2, 3, 4) for n in (0, 1)]
    sizes.append(credit.build_estimator(free).components(table_of([*batch, *near])).gain[7])
    assert sizes[1] < 1.5 * sizes[0], "groups whose gains nearly agree do not drive up the others' scale"
    with pytest.raises(ValueError, match="others would be paid for a penalty"):
        credit.IgpoConfig(mode=credit.IgpoMode.STATE, penalty_form=credit.PenaltyForm.AS_RELEASED)


def state_by_hand(batch: list[dict], gamma: float) -> list[float]:
    """The mode `state` turn by turn, as its docstring has it, with a turn's own gains and a weight of 1."""
    turns, sizes = [], []
    for t in batch:
        for k in range(len(t["gains"])):
            to_go = sum(gamma ** (j - k) * (gain or 0.0) for j, gain in enumerate(t["gains"]) if j >= k)
            turns.append((t["outcome"] is not None, (t["group"], *t["calls"][:k]), to_go))
    credit_of = []
    for place, (scored, state, to_go) in enumerate(turns):
        others = [turn[2] for i, turn in enumerate(turns) if i != place and turn[:2] == (True, state)]
        credit_of.append(to_go - fmean(others) if scored and others else 0.0)
    for group in {t["group"] for t in batch}:
        outcomes = [t["outcome"] for t in batch if t["group"] == group and t["outcome"] is not None]
        spread = pstdev(outcomes) if outcomes else 0.0
        sizes += [abs(one - fmean(outcomes)) / spread if spread else 0.0 for one in outcomes]
    whole = sum(map(abs, credit_of))
    by_size = sum(one * one for one in credit_of) / whole if whole else 1.0
    return [one * min(max(fmean(sizes or [0.0]), 0.3) / by_size, 10.0) for one in credit_of]


@pytest.mark.parametrize("gamma", [0.0, 0.5])
@settings(max_examples=25)
@given(batch=batches())
def test_the_mode_state_is_what_its_words_say(gamma, batch):
    free = [{**t, "trained": True, "capped": [False] * len(t["gains"])} for t in batch]
    mode, own = credit.IgpoMode.STATE, credit.Assignment.OWN_TURN
    estimate = credit.build_estimator(credit.IgpoConfig(mode=mode, assignment=own, gamma=gamma, gain_weight=3.0))
    expected = 3.0 * np.array(state_by_hand(free, gamma))
    np.testing.assert_allclose(estimate.components(table_of(free)).gain, expected, rtol=1e-3, atol=1e-9)  # sizes have EPS


def test_as_released_groups_whose_gains_do_not_differ_are_in_the_scale():
    """By hand: the gains of two of three groups are z = 0, so the mean |z| is a third and the scale thrice the size."""
    twin = pair(((0.5, None), (-0.5, None)))
    batch = [*twin, *([trajectory(o, [0.25, None], group=g) for g in (1, 2) for o in (1.0, 0.0)])]
    released = SCALED.model_copy(update={"scale_over_flat": True})
    plain, over_all = (credit.build_estimator(config).components(table_of(batch)).gain for config in (SCALED, released))
    np.testing.assert_allclose(over_all, 3.0 * plain, rtol=1e-5)
    assert plain[0] == pytest.approx(1.0, abs=1e-5)


def test_as_released_a_penalty_is_inherited_and_by_default_it_is_not():
    """Well-formed, unscored turns before a malformed one share its segment."""
    clean, slipped = pair(), pair()
    slipped[0]["penalties"] = [0.0, 0.0, 0.0]
    slipped[0] = trajectory(1.0, [None, None, None, 2.0, None], penalties=[0.0, 0.0, -1.0, 0.0, 0.0])
    released = SCALED.model_copy(update={"penalty_form": credit.PenaltyForm.AS_RELEASED})
    parts = credit.build_estimator(released).components(table_of([*slipped, clean[1]]))
    assert (parts.penalty[:3] < -0.5).all() and parts.penalty[3] == 0.0
    parts = credit.build_estimator(SCALED).components(table_of([*slipped, clean[1]]))
    assert parts.penalty.tolist() == [0, 0, -1, 0, 0, 0, 0, 0, 0, 0, 0]


def test_as_released_a_penalty_moves_the_statistics_and_a_bad_answer_overrides_a_right_one():
    released = SCALED.model_copy(update={"penalty_form": credit.PenaltyForm.AS_RELEASED})
    clean = pair(((1.0, None, None), (0.0, None, None)))
    slipped = [clean[0], {**clean[1], "penalties": [0.0, -1.0, 0.0]}]
    for config, moved in ((released, True), (SCALED, False)):
        parts = [credit.build_estimator(config).components(table_of(b)).gain for b in (clean, slipped)]
        assert bool(abs(parts[0][0] - parts[1][0]) > 0.01) is moved
    bad_answer = [{**clean[0], "penalties": [0.0, 0.0, -1.0]}, clean[1]]
    parts = credit.build_estimator(released).components(table_of(bad_answer))
    assert parts.penalty[2] == pytest.approx(-1.0, abs=1e-5) and parts.outcome[2] == 0.0, (
        "the right answer is worse than a wrong one"
    )
    assert values_of(SCALED, bad_answer)[2] == pytest.approx(0.0, abs=1e-5)


# -- What a mere extra turn is paid, exactly in small; benchmarks/turn_bias.py measures it in whole batches ----------------
# The default has to be neutral. The modes that are not are pinned as such, so that docs/rl.md stays true of them.

UNSCALED = {"outcome_floor": 1e6, "max_scale": 1.0}
"""The scale of gains is 1: as one number for a batch it knows of every turn in it, which is felt in a batch of two."""


def exact(
    config, *, gain: float = 1.0, extra_gain: float | None = 0.0, before: bool = False, theta: float = 0.5, most: int = 3
):
    """Pay of an extra turn, over all pairs of trajectories: all, failing and succeeding ones."""
    estimate, sums, decisions = credit.build_estimator(config), np.zeros(3), np.zeros(3)
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
    config = credit.IgpoConfig(**UNSCALED)
    np.testing.assert_allclose(exact(config, gain=gain, extra_gain=extra_gain, theta=theta), 0.0, atol=1e-12)


@pytest.mark.parametrize("gain", [1.0, -1.0])
def test_putting_a_gain_off_costs_what_the_discount_says_and_nothing_without_one(gain):
    undiscounted = credit.IgpoConfig(**UNSCALED)
    assert undiscounted.gamma == 1.0 and credit.IgpoConfig(mode=credit.IgpoMode.SCALED_SEPARATE).gamma == 0.95
    # A trajectory of k extra turns and a gain: gain-to-go is the gain at every turn but the answer's.
    np.testing.assert_allclose(exact(undiscounted, gain=gain, before=True), 0.0, atol=1e-12)
    discounted = exact(credit.IgpoConfig(gamma=0.95, **UNSCALED), gain=gain, before=True)
    assert (np.sign(discounted) == -np.sign(gain)).all(), "a preference for early gains, and for late losses"
    assert np.abs(discounted).max() < 0.2
    unscored = exact(credit.IgpoConfig(gamma=0.95, **UNSCALED), gain=gain, extra_gain=None, before=True)
    np.testing.assert_allclose(unscored, 0.0, atol=1e-12, err_msg="searches that lead to a visit share its gain whole")


def test_outcomes_alone_are_neutral_undiscounted_and_pay_failures_for_going_on_discounted():
    np.testing.assert_allclose(exact(credit.GrpoConfig()), 0.0, atol=1e-12)
    everyone, failing, succeeding = exact(credit.IgpoConfig(mode=credit.IgpoMode.SCALED_SEPARATE), extra_gain=None)
    assert everyone == pytest.approx(0.0, abs=1e-12) and failing > 0.02 and succeeding == pytest.approx(-failing)


@pytest.mark.parametrize("mode", [credit.IgpoMode.SCALED_SEPARATE, credit.IgpoMode.SEPARATE, credit.IgpoMode.JOINT])
def test_a_mean_taken_off_each_gain_is_charged_for_each_later_turn(mode):
    assert (exact(credit.IgpoConfig(mode=mode), gain=1.0) < -0.5).all(), "punished where gains are good"
    assert (exact(credit.IgpoConfig(mode=mode), gain=-1.0) > 0.15).all(), "paid where gains are bad"
