"""IGPO against a slow reference written from the papers' formulas, and the traps of the released code."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from turn_tables import batches, by_trajectory, due, table_of, trajectory

from sanderling.rl.credit import IgpoConfig, build_estimator
from sanderling.rl.credit.igpo import Assignment, Discount, IgpoMode, PenaltyForm

# ---------------------------------------------------------------- slow, independent reference: recursions, plain Python


def spread(values):
    mean = sum(values) / len(values)
    return math.sqrt(sum((v - mean) ** 2 for v in values) / len(values))


def slow_z(values):
    sd = spread(values) if values else 0.0
    return [0.0 if sd < 1e-9 else (v - sum(values) / len(values)) / (sd + 1e-6) for v in values]


def slow_rewards(batch, config):
    """Outcome by trajectory; gain, or penalty in its place, by (trajectory, turn)."""
    outcome = {i: t["outcome"] for i, t in enumerate(batch) if t["outcome"] is not None}
    gain = {(i, k): g for i in outcome for k, g in enumerate(batch[i]["gains"]) if g is not None}
    if config.penalty_form is PenaltyForm.AS_RELEASED:
        for i in outcome:
            for k, penalty in enumerate(batch[i]["penalties"]):
                if penalty < 0 and k == len(batch[i]["gains"]) - 1:
                    outcome[i] = penalty
                elif penalty < 0:
                    gain[i, k] = penalty
    return outcome, gain


def slow_flow(one, rewarded, last, config):
    """Advantages of one trajectory's turns: ``rewarded`` by turn, ``last`` at its end, discounted on the way back."""
    size = len(one["gains"])
    segment_ends = [k for k in range(size) if k in rewarded or k == size - 1]
    end_of = [next(end for end in segment_ends if end >= k) for k in range(size)]
    per_turn = config.discount is Discount.PER_TURN
    gamma = config.gamma
    if config.mode is IgpoMode.RAW:
        gamma = 0.0
    elif config.adaptive_gamma is not None and (size if per_turn else len(segment_ends)) > 1:
        gamma = config.adaptive_gamma ** (1 / (size if per_turn else len(segment_ends)))
    if config.assignment is Assignment.CODE:
        found = []
        for k in range(size):
            value = rewarded.get(end_of[k], 0.0)
            for j in segment_ends:
                if j > end_of[k]:
                    steps = j - k if per_turn else segment_ends.index(j) - segment_ends.index(end_of[k])
                    value += gamma**steps * rewarded.get(j, 0.0)
            found.append(value)
    else:
        own = [rewarded.get(k, 0.0) for k in range(size)]
        for end in rewarded:
            back = range(max((e for e in rewarded if e < end), default=-1) + 1, end)
            searches = [k for k in back if one["tools"][k] == "search"]
            if config.assignment is Assignment.PREVIOUS_SEARCH:
                searches = searches[-1:]
            for k in searches if config.assignment is not Assignment.OWN_TURN else []:
                own[k] += rewarded[end]
        found = [0.0] * size
        for k in reversed(range(size)):
            step = gamma if per_turn or k in segment_ends else 1.0
            found[k] = own[k] + (step * found[k + 1] if k + 1 < size else 0.0)
    flowing, value = [0.0] * size, last
    for k in reversed(range(size)):
        if k + 1 < size and (per_turn or k in segment_ends):
            value *= gamma
        flowing[k] = value
    whole = config.mode in (IgpoMode.RAW, IgpoMode.RETURNS)
    return found, [last] * size if whole else flowing


def slow_igpo(batch, config):
    outcome, gain = slow_rewards(batch, config)
    z_outcome, z_gain, told = {}, {}, []
    groups = {t["group"] for t in batch}
    to_go = {i: slow_flow(batch[i], {k: g for (j, k), g in gain.items() if j == i}, 0.0, config)[0] for i in outcome}
    for group in groups:
        members = [i for i in outcome if batch[i]["group"] == group]
        keys = [key for key in gain if key[0] in members]
        values = [gain[key] for key in keys]
        z_outcome |= dict(zip(members, slow_z([outcome[i] for i in members]), strict=True))
        if config.mode is IgpoMode.JOINT:
            both = slow_z([outcome[i] for i in members] + values)
            z_outcome |= dict(zip(members, both, strict=False))
            z_gain |= dict(zip(keys, both[len(members) :], strict=True))
        elif config.mode is IgpoMode.RAW:
            sd = spread(values) if values else 0.0
            z_gain |= {key: gain[key] / (sd + 1e-6 if sd > 1e-9 else 1.0) for key in keys}
        elif config.mode is IgpoMode.RETURNS:
            keys = [(i, k) for i in members for k in range(len(to_go[i]))]
            everything = [to_go[i][k] for i, k in keys]
            for i, k in keys:
                others = [v for j in members if j != i for v in to_go[j]]
                if not others or max(everything) - min(everything) < 1e-9:
                    z_gain[i, k] = 0.0
                    continue
                sd = max(spread(others), 0.5 * spread(everything))
                z_gain[i, k] = (to_go[i][k] - sum(others) / len(others)) / (sd + 1e-6)
            values = everything if len(members) > 1 else []
        else:
            z_gain |= dict(zip(keys, slow_z(values), strict=True))
        if values and max(values) - min(values) > 1e-9:
            told += keys
    if config.mode in (IgpoMode.SCALED_SEPARATE, IgpoMode.RETURNS) and told:
        size = sum(abs(z) for z in z_outcome.values()) / len(z_outcome)
        mean = sum(abs(z_gain[key]) for key in told) / len(told)
        scale = min(max(size, config.outcome_floor) / (mean + 1e-6), config.max_scale)
        z_gain = {key: z * scale for key, z in z_gain.items()}
    credit = {}
    for i in outcome:
        own = {k: config.gain_weight * z for (j, k), z in z_gain.items() if j == i}
        flowed, flowing = slow_flow(batch[i], own, z_outcome[i], config)
        if config.mode is IgpoMode.RETURNS:
            flowed, flowing = [own[k] for k in range(len(flowed))], [z_outcome[i]] * len(flowed)
        credit |= {(i, k): a + b for k, (a, b) in enumerate(zip(flowed, flowing, strict=True))}
    return credit


@pytest.mark.parametrize("form", PenaltyForm)
@pytest.mark.parametrize("discount", Discount)
@pytest.mark.parametrize("assignment", Assignment)
@pytest.mark.parametrize("mode", IgpoMode)
@pytest.mark.parametrize("adaptive", [None, 0.3])
@settings(max_examples=8)
@given(batch=batches())
def test_agrees_with_the_slow_reference(mode, assignment, discount, form, adaptive, batch):
    config = IgpoConfig(
        mode=mode,
        assignment=assignment,
        discount=discount,
        penalty_form=form,
        adaptive_gamma=adaptive,
        gamma=0.9,
        gain_weight=0.7,
    )
    slow, expected = slow_igpo(batch, config), []
    for i, t in enumerate(batch):
        for k, penalty in enumerate(t["penalties"]):
            added = penalty if form is PenaltyForm.OWN_TURN else 0.0
            expected.append(due(t, k, slow[i, k] + added) if t["outcome"] is not None else 0.0)
    np.testing.assert_allclose(build_estimator(config)(table_of(batch)), expected, atol=1e-8)


def pair(gains=((None, 2.0, None), (None, 0.0, None)), **more) -> list[dict]:
    return [trajectory(outcome, list(own), **more) for outcome, own in zip((1.0, 0.0), gains, strict=True)]


SCALED = IgpoConfig(mode=IgpoMode.SCALED_SEPARATE)


def values_of(config, batch) -> np.ndarray:
    return build_estimator(config)(table_of(batch))


@pytest.mark.parametrize(
    ("assignment", "expected"),
    [
        # searches at 0, 1 and 3, another tool at 2, a visit with gain 8 at 4; gamma 1/2, a discount per turn.
        (Assignment.CODE, [8, 8, 8, 8, 8, 0]),
        (Assignment.SINCE_LAST_VISIT, [8 + 4 + 1 + 0.5, 8 + 2 + 1, 2 + 4, 8 + 4, 8, 0]),
        (Assignment.PREVIOUS_SEARCH, [1 + 0.5, 2 + 1, 4 + 2, 8 + 4, 8, 0]),
        (Assignment.OWN_TURN, [0.5, 1, 2, 4, 8, 0]),
    ],
)
def test_who_receives_a_visits_gain(assignment, expected):
    tools = ["search", "search", "other", "search", "visit", "answer"]
    batch = [trajectory(0.0, [None, None, None, None, gain, None], tools=tools) for gain in (8.0, 0.0)]
    # Of two equal outcomes nothing is left but gains; returns are linear in them, up to a baseline that is 0 for the first.
    values = values_of(IgpoConfig(assignment=assignment, gamma=0.5), batch)[:6]
    np.testing.assert_allclose(values / values[4] * 8, expected, atol=1e-6)


# ---------------------------------------------------------------- traps of the released code, each by its number or mark


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
        factor = values_of(IgpoConfig(), [*twin, *more])[:4] / values_of(IgpoConfig(), twin)
        assert factor.max() < 1.5, "their scale is not driven up"


def test_as_released_a_penalty_is_inherited_and_by_default_it_is_not():
    """Well-formed, unscored turns before a malformed one share its segment."""
    clean, slipped = pair(), pair()
    slipped[0]["penalties"] = [0.0, 0.0, 0.0]
    slipped[0] = trajectory(1.0, [None, None, None, 2.0, None], penalties=[0.0, 0.0, -1.0, 0.0, 0.0])
    released = SCALED.model_copy(update={"penalty_form": PenaltyForm.AS_RELEASED})
    parts = build_estimator(released).components(table_of([*slipped, clean[1]]))
    assert (parts.penalty[:3] < -0.5).all() and parts.penalty[3] == 0.0
    parts = build_estimator(SCALED).components(table_of([*slipped, clean[1]]))
    assert parts.penalty.tolist() == [0, 0, -1, 0, 0, 0, 0, 0, 0, 0, 0]


def test_as_released_a_penalty_moves_the_statistics_and_a_bad_answer_overrides_a_right_one():
    released = SCALED.model_copy(update={"penalty_form": PenaltyForm.AS_RELEASED})
    clean = pair(((1.0, None, None), (0.0, None, None)))
    slipped = [clean[0], {**clean[1], "penalties": [0.0, -1.0, 0.0]}]
    for config, moved in ((released, True), (SCALED, False)):
        parts = [build_estimator(config).components(table_of(b)).gain for b in (clean, slipped)]
        assert bool(abs(parts[0][0] - parts[1][0]) > 0.01) is moved
    bad_answer = [{**clean[0], "penalties": [0.0, 0.0, -1.0]}, clean[1]]
    parts = build_estimator(released).components(table_of(bad_answer))
    assert parts.penalty[2] == pytest.approx(-1.0, abs=1e-5) and parts.outcome[2] == 0.0, (
        "the right answer is worse than a wrong one"
    )
    assert values_of(SCALED, bad_answer)[2] == pytest.approx(0.0, abs=1e-5)


def test_one_trajectory_that_stands_out_is_not_blown_up():
    """Its companions' deviation alone would make its advantage a million."""
    batch = [trajectory(0.0, [0.0, None]) for _ in range(7)] + [trajectory(0.0, [1.0, None])]
    table = table_of(batch)
    config = IgpoConfig(max_scale=1.0, outcome_floor=10.0)  # no scale
    assert by_trajectory(build_estimator(config)(table), table)[7][0] < 10.0
