"""What holds for losses beside their values, which the golden area `train` pins and `test_golden_trl` compares."""

import math
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError
from tiny_qwen3 import random_rows, tiny_model

from sanderling.core.errors import UserError
from sanderling.rl.losses import CHOICE, CispoConfig, CorrectionConfig, GspoConfig, MinirlConfig, PpoConfig, RatioTo, build_loss
from sanderling.train.config import TrainerConfig
from sanderling.train.rows import LossInputs, Row
from sanderling.train.trainer import Trainer

logps = st.floats(-4, -0.01, allow_nan=False)
tokens = st.lists(st.tuples(logps, logps, logps, logps, st.floats(-2, 2), st.floats(0, 1)), min_size=1, max_size=8)


def inputs(rows, **changes) -> LossInputs:
    new, sampler, proximal, reference, advantages, weights = torch.tensor(rows, dtype=torch.float64).T
    fields = {
        "logprobs": new.clone().requires_grad_(), "sampler": sampler, "proximal": proximal, "reference": reference,
        "advantages": advantages, "weights": weights, "sequence": torch.arange(len(rows)) // 3,
    }  # fmt: skip
    return LossInputs(**{**fields, **changes})


def gradient(config, given_: LossInputs) -> list[float]:
    given_.logprobs.grad = None
    build_loss(config)(given_)[0].backward()
    return given_.logprobs.grad.tolist()


def test_without_proximal_logprobs_the_ratio_is_one_but_has_a_gradient():
    given_ = inputs([(-0.5, -0.5, 0, 0, 2.0, 1.0)], proximal=None)
    _, metrics = build_loss(PpoConfig(ratio_to=RatioTo.PROXIMAL))(given_)
    assert metrics["ratio"].item() == 1.0 and gradient(PpoConfig(ratio_to=RatioTo.PROXIMAL), given_) == pytest.approx([-2.0])


OWN = """
import torch
from sanderling.rl.losses import PolicyLoss

def ratio(tokens, config: PolicyLoss):  # PPO without its clips
    base = tokens.sampler if config.ratio_to == "sampler" else tokens.proximal
    return -(tokens.logprobs - base).exp() * tokens.advantages

def summed(tokens): return (tokens.weights * tokens.advantages * tokens.logprobs).sum()
def column(tokens): return (tokens.advantages * tokens.logprobs)[:, None]
def detached(tokens): return tokens.advantages
def nothing(tokens): pass
def two(tokens, more): return tokens.logprobs
"""


@given(rows=tokens)
@settings(max_examples=30)
def test_correction_and_kl_are_applied_to_a_loss_of_ones_own(tmp_path_factory: pytest.TempPathFactory, rows):
    (file := tmp_path_factory.mktemp("own") / "own.py").write_text(OWN)
    own = CHOICE.section({"kind": f"{file}:ratio"})
    for to in RatioTo:
        how = {"ratio_to": to, "kl_coef": 0.3, "correction": CorrectionConfig(cap=1.5, low=0.4, veto=0.01)}
        one, told = build_loss(own(kind=f"{file}:ratio", **how))(inputs(rows))
        other, same = build_loss(PpoConfig(clip_low=0.9999, clip_high=1e9, **how))(inputs(rows))
        if not same["clipped"].any():
            assert one.item() == pytest.approx(other.item()) and told["kl_reference"].equal(same["kl_reference"])


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("summed", "a tensor of shape ()"),
        ("column", "a tensor of shape (1, 1)"),
        ("nothing", "NoneType"),
    ],
)
def test_a_loss_that_is_not_each_tokens_own_is_refused(tmp_path: Path, name: str, said: str):
    (file := tmp_path / "own.py").write_text(OWN)
    config = CHOICE.section({"kind": f"{file}:{name}"})(kind=f"{file}:{name}")
    with pytest.raises(UserError, match=re.escape(f"{name} returned {said}: it has to be each token's loss, unweighted")):
        build_loss(config)(inputs([(-0.5, -0.5, 0, 0, 2.0, 1.0)]))
    detached = CHOICE.section({"kind": f"{file}:detached"})(kind=f"{file}:detached")
    with pytest.raises(UserError, match="detached has no gradient"):
        build_loss(detached)(inputs([(-0.5, -0.5, 0, 0, 2.0, 1.0)]))
    build_loss(detached)(inputs([(-0.5, -0.5, 0, 0, 0.0, 1.0)]))[0].backward()  # nothing to learn there
    with pytest.raises(ValueError, match=r"own\.py:two cannot be called with 1 argument"):
        CHOICE.section({"kind": f"{file}:two"})


@pytest.mark.parametrize("config", [PpoConfig(dual_clip=3.0), PpoConfig(kl_coef=0.5)], ids=repr)
@settings(max_examples=30)
@given(rows=tokens)
def test_every_term_of_a_loss_has_its_gradient(config, rows):
    """Detached terms add to a loss and teach nothing (AgentRL's CE-GRPO): where the loss has a slope, autograd has it, too."""
    found, step = gradient(config, inputs(rows)), 1e-6
    middle = build_loss(config)(inputs(rows))[0].item()
    for at, row in enumerate(rows):
        sides = []
        for sign in (1, -1):
            moved = [*rows[:at], (row[0] + sign * step, *row[1:]), *rows[at + 1 :]]
            sides.append((build_loss(config)(inputs(moved))[0].item() - middle) / (sign * step))
        # At a corner of the clip the two sides differ, and autograd gives one of them.
        assert min(sides) - 1e-3 <= found[at] <= max(sides) + 1e-3


def test_an_outlier_is_finite_and_keeps_its_gradient():
    """A clamp of the log-ratio would hide the one token that is furthest off; without one, float32 overflows."""
    rows = [(-1.0, -200.0, -200.0, -200.0, -1.0, 1.0)]
    assert math.isfinite(build_loss(PpoConfig())(inputs(rows))[0].item())
    assert gradient(PpoConfig(), inputs(rows)) == pytest.approx([math.exp(20.0)])
    assert gradient(PpoConfig(kl_coef=1.0, dual_clip=3.0), inputs(rows)) == pytest.approx([1.0 - math.exp(-20.0)])


@pytest.mark.parametrize("gap", [0.0, 0.5, 2.0, -2.0, -2.6, -3.0, -15.0, -25.0, 11.5, 25.0])
def test_a_limit_of_the_kl_is_verls_clamp(gap: float):
    """verl's k3, which DR-Venus runs: the log-ratio is clamped to 20 and the estimate to 10, both without gradient beyond."""
    rows = [(-30.0 + gap, -30.0, -30.0, -30.0, 0.0, 1.0)]
    logprob = torch.tensor(rows[0][0], dtype=torch.float64, requires_grad=True)
    log_ratio = (-30.0 - logprob).clamp(-20, 20)
    theirs = (log_ratio.exp() - log_ratio - 1).clamp(-10, 10)
    (slope,) = torch.autograd.grad(theirs, logprob)
    config = PpoConfig(kl_coef=1.0, kl_limit=10.0)
    assert build_loss(config)(inputs(rows))[0].item() == pytest.approx(theirs.item(), abs=1e-12)
    assert gradient(config, inputs(rows)) == pytest.approx([slope.item()], abs=1e-12)


def test_what_a_loss_needs_and_lacks_is_named():
    for missing, config in (("advantages", PpoConfig()), ("sampler", CispoConfig()), ("reference", PpoConfig(kl_coef=0.1))):
        with pytest.raises(ValueError, match=missing):
            build_loss(config)(inputs([(-1.0, -1.0, 0, 0, 1.0, 1.0)], **{missing: None}))
    for config in (GspoConfig(), PpoConfig(correction=CorrectionConfig(veto=1e-4))):
        with pytest.raises(UserError, match=r"whole rows.*parallel\.context"):
            build_loss(config)(inputs([(-1.0, -1.0, 0, 0, 1.0, 1.0)], sequence=None))


def test_minirl_drops_what_has_gone_far_from_the_sampler_also_where_its_ratio_is_to_the_proximal():
    far, near = (-1.0, -3.0, -1.0, 0, 1.0, 1.0), (-1.0, -1.0, -1.0, 0, 1.0, 1.0)
    metrics = build_loss(MinirlConfig(ratio_to=RatioTo.PROXIMAL))(inputs([far, near]))[1]
    assert metrics["ratio"].tolist() == [1, 1] and metrics["masked"].tolist() == [1, 0]


def test_a_masked_token_may_be_anything():
    config = PpoConfig(correction=CorrectionConfig(cap=None, high=2.0))
    rows = [(math.log(1e80) - 1.0, -1.0, 0, 0, -1.0, 1.0), (-1.0, -1.0, 0, 0, -1.0, 1.0)]
    metrics, (masked, free) = build_loss(config)(inputs(rows))[1], gradient(config, inputs(rows))
    assert metrics["masked"].tolist() == [1, 0] and masked == 0.0 and math.isfinite(free)


def test_a_range_without_anything_in_it_is_refused():
    with pytest.raises(ValidationError, match="low is above high"):
        CorrectionConfig(low=2.0, high=1.0)


# -- Policy losses in the trainer: rows stay whole wherever micro-batches are cut ------------------------------------------

CORRECTION = CorrectionConfig(low=0.7, high=1.5, veto=0.65)
LOSSES = [kind(correction=CORRECTION) for kind in (PpoConfig, MinirlConfig)]


def policy_rows(count: int) -> list[Row]:
    """Rows near the tiny model's own policy, with advantages of either sign."""
    rng, rows = np.random.default_rng(1), random_rows(count)
    near = Trainer(tiny_model(), TrainerConfig()).logprobs(rows)
    return [
        replace(row, advantages=rng.normal(size=len(row.ids)), sampler_logprobs=own + 0.3 * rng.normal(size=len(row.ids)))
        for row, own in zip(rows, near, strict=True)
    ]


@pytest.mark.parametrize("loss", LOSSES, ids=lambda config: config.kind)
def test_the_cut_into_micro_batches_changes_no_policy_loss(loss):
    rows, found = policy_rows(6), []
    for budget in (1, 60, 10_000):
        model = tiny_model()
        metrics = Trainer(model, TrainerConfig(lr=0.01, micro_batch_tokens=budget, eps=1e-3)).step(rows, build_loss(loss))
        found.append((metrics, torch.cat([p.detach().flatten() for p in model.parameters()])))
    assert 0.0 < found[0][0]["masked"] < 1.0 and 0.0 < found[0][0]["vetoed"] < 1.0
    for metrics, weights in found[1:]:
        for name in ("loss", "ratio", "clipped", "masked", "vetoed", "importance"):
            assert metrics[name] == pytest.approx(found[0][0][name], rel=1e-4, abs=1e-6), name
        torch.testing.assert_close(weights, found[0][1], atol=1e-5, rtol=1e-5)
