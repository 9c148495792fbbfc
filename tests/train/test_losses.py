import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from sanderling.train.credit_config import CispoConfig, PpoConfig, RatioTo
from sanderling.train.losses import build_loss
from sanderling.train.losses.contract import LossInputs

logps = st.floats(-4, -0.01, allow_nan=False)
tokens = st.lists(st.tuples(logps, logps, logps, logps, st.floats(-2, 2), st.floats(0, 1)), min_size=1, max_size=8)


def inputs(rows, **changes) -> LossInputs:
    new, sampler, proximal, reference, advantages, weights = torch.tensor(rows, dtype=torch.float64).T
    fields = {
        "logprobs": new.clone().requires_grad_(),
        "sampler": sampler,
        "proximal": proximal,
        "reference": reference,
        "advantages": advantages,
        "weights": weights,
    }
    return LossInputs(**{**fields, **changes})


def slow_ppo(rows, config: PpoConfig) -> float:
    total = 0.0
    for new, sampler, proximal, reference, advantage, weight in rows:
        ratio = math.exp(new - (sampler if config.ratio_to is RatioTo.SAMPLER else proximal))
        clipped = min(max(ratio, 1 - config.clip_low), 1 + config.clip_high)
        loss = -min(ratio * advantage, clipped * advantage)
        if config.dual_clip is not None and advantage < 0:
            loss = min(loss, -config.dual_clip * advantage)
        if config.ratio_to is RatioTo.PROXIMAL and config.importance_cap is not None:
            loss *= min(math.exp(proximal - sampler), config.importance_cap)
        gap = reference - new
        total += weight * (loss + config.kl_coef * (math.exp(gap) - gap - 1))
    return total


@pytest.mark.parametrize(
    "config",
    [
        PpoConfig(),
        PpoConfig(dual_clip=3.0, kl_coef=0.1),
        PpoConfig(ratio_to=RatioTo.PROXIMAL),
        PpoConfig(ratio_to=RatioTo.PROXIMAL, importance_cap=None, dual_clip=1.5),
    ],
    ids=repr,
)
@given(rows=tokens)
def test_ppo_agrees_with_the_slow_reference(config, rows):
    value, metrics = build_loss(config)(inputs(rows))
    assert value.item() == pytest.approx(slow_ppo(rows, config), abs=1e-9)
    assert all(len(seen) == len(rows) for seen in metrics.values())


def test_the_clip_stops_gradients_only_in_the_direction_of_more():
    rows = [(-0.1, -1.0, 0, 0, 1.0, 1.0), (-0.1, -1.0, 0, 0, -1.0, 1.0), (-2.0, -1.0, 0, 0, -1.0, 1.0)]
    given_ = inputs(rows)
    build_loss(PpoConfig())(given_)[0].backward()
    assert given_.logprobs.grad[0] == 0 and given_.logprobs.grad[1] > 0 and given_.logprobs.grad[2] == 0


def test_without_proximal_logprobs_the_ratio_is_one_but_has_a_gradient():
    rows = [(-0.5, -0.5, 0, 0, 2.0, 1.0)]
    given_ = inputs(rows, proximal=None)
    value, metrics = build_loss(PpoConfig(ratio_to=RatioTo.PROXIMAL))(given_)
    value.backward()
    assert metrics["ratio"].item() == 1.0 and given_.logprobs.grad.item() == pytest.approx(-2.0)


def test_cispo_keeps_every_gradient_but_caps_its_weight():
    rows = [(-0.1, -3.0, 0, 0, 1.0, 1.0), (-1.0, -1.0, 0, 0, -0.5, 1.0)]
    given_ = inputs(rows)
    _, metrics = build_loss(CispoConfig(cap=2.0))(given_)
    build_loss(CispoConfig(cap=2.0))(given_)[0].backward()
    assert given_.logprobs.grad.tolist() == pytest.approx([-2.0, 0.5])
    assert metrics["clipped"].tolist() == [1.0, 0.0]


def test_equal_policies_have_no_gap():
    _, metrics = build_loss(PpoConfig())(inputs([(-0.3, -0.3, 0, 0, 1.0, 1.0)]))
    assert metrics["kl_sampler"].item() == 0 and metrics["sampler_gap"].item() == 0


def test_what_a_loss_needs_and_lacks_is_named():
    for missing, config in (("advantages", PpoConfig()), ("sampler", CispoConfig()), ("reference", PpoConfig(kl_coef=0.1))):
        with pytest.raises(ValueError, match=missing):
            build_loss(config)(inputs([(-1.0, -1.0, 0, 0, 1.0, 1.0)], **{missing: None}))
