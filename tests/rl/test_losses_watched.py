"""What is watched beside a loss: how ratios are distributed, which tokens it stops, and fresh tokens' gap to the sampler."""

import pytest
import torch

from sanderling.rl.health import update_figures
from sanderling.rl.losses import (
    EDGES,
    CispoConfig,
    CorrectionConfig,
    MinirlConfig,
    PpoConfig,
    RatioTo,
    Watching,
    build_loss,
    fresh_gap,
    ratio_bins,
)
from sanderling.train.loss import LossInputs


def test_ratios_fall_into_bins_that_sum_to_all():
    ratio = torch.tensor([1e-9, 0.5, 0.79, 0.8, 1.0, 1.3, 2.0, 1e8])
    bins = ratio_bins({"ratio": ratio})
    far = bins.pop("ratio_far")
    assert torch.equal(torch.stack(list(bins.values())).sum(0), torch.ones(8)) and len(bins) == len(EDGES) - 1
    assert far.tolist() == [1, 0, 0, 0, 0, 0, 0, 1]
    assert bins["ratio_0.5_0.8"].tolist() == [0, 1, 1, 0, 0, 0, 0, 0] and bins["ratio_2_inf"].tolist() == [0] * 6 + [1, 1]


def test_a_loss_that_is_watched_is_the_same_loss():
    logprobs = torch.tensor([-1.0, -2.0, -0.1], requires_grad=True)
    tokens = LossInputs(logprobs, torch.full((3,), 1 / 3), torch.tensor([1.0, -1.0, 2.0]), torch.tensor([-1.1, -0.3, -3.0]))
    value, metrics = Watching(build_loss(PpoConfig()))(tokens)
    expected, before = build_loss(PpoConfig())(tokens)
    assert value == expected and set(before) < set(metrics) and metrics["ratio_far"].tolist() == [0, 1, 1]
    assert Watching(lambda tokens: (tokens.logprobs.sum(), {}))(tokens)[1] == {}


@pytest.mark.parametrize(
    ("loss", "stopping"),
    [
        (MinirlConfig(correction=CorrectionConfig(low=0.5, high=2.0)), "masked"),
        (PpoConfig(correction=CorrectionConfig(low=0.5, high=2.0), ratio_to=RatioTo.PROXIMAL), "masked"),
        (PpoConfig(correction=CorrectionConfig(veto=0.1), ratio_to=RatioTo.PROXIMAL), "vetoed"),
        (PpoConfig(), "clipped"),
    ],
)
def test_tokens_that_nothing_is_learnt_from_are_told_whatever_the_loss_calls_it(loss, stopping: str):
    new, sampler = torch.full((3,), -4.0), torch.tensor([-4.0, -1.0, -4.0])
    tokens = LossInputs(
        new, torch.full((3,), 1 / 3), -torch.ones(3), sampler, new.clone(), sequence=torch.arange(3), age=torch.ones(3)
    )
    metrics = Watching(build_loss(loss))(tokens)[1]
    assert metrics[stopping].tolist() == metrics["stopped"].tolist() == [0, 1, 0]


def test_a_token_whose_weight_is_capped_is_learnt_from():
    new = torch.tensor([-1.0, -1.0], requires_grad=True)
    tokens = LossInputs(new, torch.full((2,), 0.5), torch.ones(2), torch.tensor([-4.0, -1.0]), sequence=torch.arange(2))
    value, metrics = Watching(build_loss(CispoConfig(cap=2.0)))(tokens)
    value.backward()
    assert metrics["weight_capped"].tolist() == [1, 0] and metrics["stopped"].tolist() == [0, 0]
    assert new.grad is not None and bool((new.grad != 0).all())


def test_the_gap_to_the_sampler_is_of_tokens_that_the_updated_weights_sampled():
    sampler = torch.tensor([-1.1, -0.3, -3.0, -1.0])
    tokens = LossInputs(
        torch.tensor([-1.0, -2.0, -0.1, -1.0]), torch.ones(4), sampler=sampler, age=torch.tensor([0.0, 1, 2, 0])
    )
    gaps = fresh_gap(tokens)
    means = {name: float(values.mean()) for name, values in gaps.items()}
    assert update_figures([means])["sampler_gap_fresh"] == pytest.approx(0.05), "not the 1.7 and 2.9 that updates made"
    assert "sampler_gap_fresh" not in update_figures([{"fresh": 0.0, "fresh_gap": 0.0, "loss": 1.0}])
    assert fresh_gap(LossInputs(tokens.logprobs, tokens.weights, sampler=sampler)) == {}


def test_a_token_after_older_ones_is_not_fresh_for_their_keys_are_of_other_weights():
    age, sequence = torch.tensor([0.0, 2, 0, 0, 0, 1, 0]), torch.tensor([1, 0, 1, 0, 2, 2, 1])
    tokens = LossInputs(torch.zeros(7), torch.ones(7), sampler=torch.ones(7), age=age, sequence=sequence)
    gaps = fresh_gap(tokens)
    assert gaps["fresh"].tolist() == gaps["fresh_gap"].tolist() == [1, 0, 1, 0, 1, 0, 1]
    none = LossInputs(*[torch.zeros(0)] * 2, sampler=torch.zeros(0), age=torch.zeros(0), sequence=torch.zeros(0).long())
    assert fresh_gap(none)["fresh"].tolist() == []
