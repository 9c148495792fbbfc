import math
from collections import defaultdict

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sanderling.train.contract import TurnTable
from sanderling.train.credit_config import (
    Assignment,
    Discount,
    DrGrpoConfig,
    GrpoConfig,
    IgpoConfig,
    IgpoMode,
    LeaveOneOutConfig,
)
from sanderling.train.estimators import ESTIMATORS, build_estimator

CONFIGS = [
    GrpoConfig(),
    DrGrpoConfig(),
    LeaveOneOutConfig(),
    IgpoConfig(),
    IgpoConfig(discount=Discount.PER_SEGMENT),
    IgpoConfig(assignment=Assignment.OWN_TURN, mode=IgpoMode.SEPARATE),
    IgpoConfig(mode=IgpoMode.JOINT),
]


def table_of(trajectories: list[dict]) -> TurnTable:
    """``{"group", "outcome" (None: unscored), "gains": [float | None, ...], "penalties"}`` each."""
    rows = [
        (number, t["group"], turn, t["outcome"] or 0.0, t["outcome"] is not None, gain or 0.0, gain is not None, penalty)
        for number, t in enumerate(trajectories)
        for turn, (gain, penalty) in enumerate(zip(t["gains"], t["penalties"], strict=True))
    ]
    columns = list(zip(*rows, strict=True))
    return TurnTable(
        trajectory=np.array(columns[0], dtype=np.int64),
        group=np.array(columns[1], dtype=np.int64),
        turn=np.array(columns[2], dtype=np.int64),
        tokens=np.ones(len(rows), dtype=np.int64),
        tool=np.array(["visit"] * len(rows)),
        outcome=np.array(columns[3], dtype=np.float64),
        scored=np.array(columns[4], dtype=np.bool_),
        gain=np.array(columns[5], dtype=np.float64),
        gain_scored=np.array(columns[6], dtype=np.bool_),
        penalty=np.array(columns[7], dtype=np.float64),
        trained=np.ones(len(rows), dtype=np.bool_),
        capped=np.zeros(len(rows), dtype=np.bool_),
    )


grid = st.integers(-8, 8).map(lambda n: n / 8)


@st.composite
def batches(draw):
    found = []
    for _ in range(draw(st.integers(1, 7))):
        turns = draw(st.integers(1, 6))
        found.append(
            {
                "group": draw(st.integers(0, 2)),
                "outcome": draw(st.none() | st.sampled_from([0.0, 0.25, 1.0])),
                "gains": draw(st.lists(st.none() | grid, min_size=turns, max_size=turns)),
                "penalties": draw(st.lists(st.sampled_from([0.0, -1.0]), min_size=turns, max_size=turns)),
            }
        )
    return found


# ---------------------------------------------------------------- slow, independent references, plain Python


def spread(values):
    mean = sum(values) / len(values)
    return mean, math.sqrt(sum((v - mean) ** 2 for v in values) / len(values))


def slow_z(values):
    mean, sd = spread(values)
    return [0.0 if sd < 1e-9 else (v - mean) / (sd + 1e-6) for v in values]


def slow_outcomes(batch, kind):
    credit = {}
    for group in {t["group"] for t in batch}:
        members = [i for i, t in enumerate(batch) if t["group"] == group and t["outcome"] is not None]
        values = [batch[i]["outcome"] for i in members]
        for place, i in enumerate(members):
            others = values[:place] + values[place + 1 :]
            if kind == "grpo":
                credit[i] = slow_z(values)[place]
            elif kind == "dr_grpo":
                credit[i] = values[place] - sum(values) / len(values)
            else:
                credit[i] = values[place] - sum(others) / len(others) if others else 0.0
    return credit


def slow_igpo(batch, config):
    z_outcome, z_gain = slow_outcomes(batch, "grpo"), {}
    for group in {t["group"] for t in batch}:
        keys = [
            (i, k)
            for i, t in enumerate(batch)
            if t["group"] == group and t["outcome"] is not None
            for k, gain in enumerate(t["gains"])
            if gain is not None
        ]
        members = [i for i in z_outcome if batch[i]["group"] == group]
        gains = [batch[i]["gains"][k] for i, k in keys]
        if config.mode is IgpoMode.JOINT and members:
            both = slow_z([batch[i]["outcome"] for i in members] + gains)
            z_outcome.update(zip(members, both, strict=False))
            z_gain.update(zip(keys, both[len(members) :], strict=True))
        elif keys:
            z_gain.update(zip(keys, slow_z(gains), strict=True))
    if config.mode is IgpoMode.SCALED_SEPARATE:
        told = [abs(z) for z in z_gain.values() if z != 0.0]
        if told:
            size = sum(abs(z) for z in z_outcome.values()) / len(z_outcome)
            scale = min(max(size, 0.3) / (sum(told) / len(told) + 1e-6), 10.0)
            z_gain = {key: z * scale for key, z in z_gain.items()}
    credit = {}
    for i in z_outcome:
        last = len(batch[i]["gains"]) - 1
        segment = []
        number = 0
        for k in range(last + 1):
            segment.append(number)
            if config.assignment is Assignment.OWN_TURN or (i, k) in z_gain:
                number += 1
        ends = {s: max(k for k in range(last + 1) if segment[k] == s) for s in segment}
        place = (lambda k: k) if config.discount is Discount.PER_TURN else (lambda k, segment=segment: segment[k])
        for k in range(last + 1):
            value = z_outcome[i] * config.gamma ** (place(last) - place(k))
            for s, end in ends.items():
                if s < segment[k] or (i, end) not in z_gain:
                    continue
                distance = 0 if s == segment[k] else place(end) - place(k)
                value += z_gain[i, end] * config.gamma**distance
            credit[i, k] = value
    return credit


@pytest.mark.parametrize("config", CONFIGS, ids=repr)
@settings(max_examples=40)
@given(batch=batches())
def test_agrees_with_the_slow_reference(config, batch):
    got = build_estimator(config)(table_of(batch))
    slow = slow_igpo(batch, config) if isinstance(config, IgpoConfig) else slow_outcomes(batch, config.kind)
    expected = []
    for i, t in enumerate(batch):
        for k, penalty in enumerate(t["penalties"]):
            key = (i, k) if isinstance(config, IgpoConfig) else i
            expected.append(slow[key] + penalty if t["outcome"] is not None else 0.0)
    np.testing.assert_allclose(got, expected, atol=1e-9)


@pytest.mark.parametrize("config", CONFIGS, ids=repr)
@settings(max_examples=25)
@given(batch=batches(), data=st.data())
def test_order_of_trajectories_and_names_of_groups_do_not_matter(config, batch, data):
    estimate = build_estimator(config)
    order = data.draw(st.permutations(range(len(batch))))
    plain, shuffled = defaultdict(list), defaultdict(list)
    table = table_of(batch)
    for number, value in zip(table.trajectory, estimate(table), strict=True):
        plain[int(number)].append(value)
    table = table_of([{**batch[i], "group": 7 - batch[i]["group"]} for i in order])
    for number, value in zip(table.trajectory, estimate(table), strict=True):
        shuffled[order[int(number)]].append(value)
    for number, values in plain.items():
        np.testing.assert_allclose(values, shuffled[number], atol=1e-9)


@pytest.mark.parametrize("config", [c for c in CONFIGS if getattr(c, "mode", None) is not IgpoMode.JOINT], ids=repr)
@settings(max_examples=25)
@given(batch=batches(), shift=grid)
def test_a_constant_added_to_all_outcomes_changes_nothing(config, batch, shift):
    moved = [{**t, "outcome": None if t["outcome"] is None else t["outcome"] + shift} for t in batch]
    estimate = build_estimator(config)
    np.testing.assert_allclose(estimate(table_of(batch)), estimate(table_of(moved)), atol=1e-6)


@pytest.mark.parametrize("config", CONFIGS, ids=repr)
@settings(max_examples=25)
@given(batch=batches(), gains=st.lists(grid, min_size=1, max_size=4))
def test_unscored_trajectories_change_nobodys_advantage_and_get_none(config, batch, gains):
    estimate = build_estimator(config)
    lost = {"group": 0, "outcome": None, "gains": gains, "penalties": [-1.0] * len(gains)}
    with_lost = estimate(table_of([*batch, lost]))
    np.testing.assert_array_equal(with_lost[: -len(gains)], estimate(table_of(batch)))
    assert not with_lost[-len(gains) :].any()


@pytest.mark.parametrize("config", CONFIGS, ids=repr)
def test_a_group_of_equal_outcomes_and_no_gains_teaches_nothing(config):
    batch = [{"group": 0, "outcome": 0.1, "gains": [None, None], "penalties": [0.0, 0.0]} for _ in range(3)]
    if getattr(config, "mode", None) is IgpoMode.JOINT:
        batch = [{**t, "outcome": 0.0} for t in batch]
    assert not build_estimator(config)(table_of(batch)).any()


def test_a_penalty_reaches_its_own_turn_only():
    base = [
        {"group": 0, "outcome": 1.0, "gains": [None, 0.5, None], "penalties": [0.0, 0.0, 0.0]},
        {"group": 0, "outcome": 0.0, "gains": [None, 0.1, None], "penalties": [0.0, 0.0, 0.0]},
    ]
    slipped = [{**base[0], "penalties": [0.0, -1.0, 0.0]}, base[1]]
    for config in CONFIGS:
        estimate = build_estimator(config)
        difference = estimate(table_of(slipped)) - estimate(table_of(base))
        np.testing.assert_allclose(difference, [0, -1, 0, 0, 0, 0], atol=1e-12)


def test_igpo_by_hand():
    batch = [
        {"group": 0, "outcome": 1.0, "gains": [None, 2.0, None], "penalties": [0.0] * 3},
        {"group": 0, "outcome": 0.0, "gains": [None, 0.0, None], "penalties": [0.0] * 3},
    ]
    got = IgpoConfig(gamma=0.5)
    values = build_estimator(got)(table_of(batch))
    # z of outcome and gain are +-1, the scale is 1; the search shares the visit's gain undiscounted.
    np.testing.assert_allclose(values[:3], [1 + 0.25, 1 + 0.5, 1.0], atol=1e-5)
    np.testing.assert_allclose(values[3:], -values[:3], atol=1e-5)
    segments = build_estimator(IgpoConfig(gamma=0.5, discount=Discount.PER_SEGMENT))(table_of(batch))
    np.testing.assert_allclose(segments[:3], [1.5, 1.5, 1.0], atol=1e-5)
    own = build_estimator(IgpoConfig(gamma=0.5, assignment=Assignment.OWN_TURN))(table_of(batch))
    np.testing.assert_allclose(own[:3], [0.75, 1.5, 1.0], atol=1e-5)


def test_one_lone_gain_does_not_drive_the_scale_of_the_others():
    pair = [{"group": 0, "outcome": o, "gains": [g, None], "penalties": [0.0, 0.0]} for o, g in ((1.0, 0.5), (0.0, -0.5))]
    lone = {"group": 1, "outcome": 0.5, "gains": [0.7, None], "penalties": [0.0, 0.0]}
    other = {"group": 1, "outcome": 1.0, "gains": [None, None], "penalties": [0.0, 0.0]}
    estimate = build_estimator(IgpoConfig())
    np.testing.assert_allclose(estimate(table_of([*pair, lone, other]))[:4], estimate(table_of(pair)), atol=1e-5)


def test_the_registry_is_complete():
    assert {config.model_fields["kind"].default for config in ESTIMATORS} == {"grpo", "dr_grpo", "leave_one_out", "igpo"}
