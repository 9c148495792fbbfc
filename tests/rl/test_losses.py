import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from sanderling.core.errors import UserError
from sanderling.rl.losses import (
    CispoConfig,
    CorrectionConfig,
    GspoConfig,
    KlForm,
    Level,
    MinirlConfig,
    PpoConfig,
    RatioTo,
    build_loss,
)
from sanderling.train.loss import LossInputs

logps = st.floats(-4, -0.01, allow_nan=False)
tokens = st.lists(st.tuples(logps, logps, logps, logps, st.floats(-2, 2), st.floats(0, 1)), min_size=1, max_size=8)
ALL = [PpoConfig(), GspoConfig(), CispoConfig(), MinirlConfig()]


def inputs(rows, **changes) -> LossInputs:
    new, sampler, proximal, reference, advantages, weights = torch.tensor(rows, dtype=torch.float64).T
    fields = {
        "logprobs": new.clone().requires_grad_(),
        "sampler": sampler,
        "proximal": proximal,
        "reference": reference,
        "advantages": advantages,
        "weights": weights,
        "sequence": torch.arange(len(rows)) // 3,
        "age": torch.zeros(len(rows), dtype=torch.float64),
    }
    return LossInputs(**{**fields, **changes})


def gradient(config, given_: LossInputs) -> list[float]:
    given_.logprobs.grad = None
    build_loss(config)(given_)[0].backward()
    return given_.logprobs.grad.tolist()


def slow_kl(form: KlForm, d: float) -> float:
    return {KlForm.K1: d, KlForm.K2: d * d / 2}.get(form, math.exp(-d) + d - 1)


def slow_loss(rows, config) -> float:
    total, anchors = 0.0, [r[1] if config.ratio_to is RatioTo.SAMPLER else r[2] for r in rows]
    for at, (new, sampler, proximal, reference, advantage, weight) in enumerate(rows):
        ratio = math.exp(new - anchors[at])
        if isinstance(config, GspoConfig):
            mates = [j for j in range(len(rows)) if j // 3 == at // 3]
            ratio = math.exp(sum(rows[j][0] - anchors[j] for j in mates) / len(mates))
        if isinstance(config, CispoConfig):
            loss = -min(ratio, config.cap) * advantage * new
        elif isinstance(config, MinirlConfig):
            loss = -ratio * advantage * new
        else:
            clipped = min(max(ratio, 1 - config.clip_low), 1 + config.clip_high)
            loss = -min(ratio * advantage, clipped * advantage)
            if getattr(config, "dual_clip", None) is not None and advantage < 0:
                loss = min(loss, -config.dual_clip * advantage)
        if config.ratio_to is RatioTo.PROXIMAL:
            share = math.exp(proximal - sampler)
            cap, floor = config.correction.cap, config.correction.floor
            loss *= max(share if cap is None else min(share, cap), floor or 0.0)
        kl = slow_kl(config.kl_form, new - reference) * (ratio if config.kl_weighted else 1.0)
        total += weight * (loss + config.kl_coef * kl)
    return total


@pytest.mark.parametrize(
    "config",
    [
        PpoConfig(),
        PpoConfig(dual_clip=3.0, kl_coef=0.1),
        PpoConfig(ratio_to=RatioTo.PROXIMAL),
        PpoConfig(ratio_to=RatioTo.PROXIMAL, correction=CorrectionConfig(cap=None), dual_clip=1.5),
        PpoConfig(ratio_to=RatioTo.PROXIMAL, correction=CorrectionConfig(cap=1.5, floor=0.5)),
        PpoConfig(ratio_to=RatioTo.PROXIMAL, correction=CorrectionConfig(cap=1.0, floor=1.0)),
        GspoConfig(),
        GspoConfig(clip_low=0.2, clip_high=0.3, ratio_to=RatioTo.PROXIMAL),
        CispoConfig(),
        CispoConfig(ratio_to=RatioTo.PROXIMAL, cap=1.2),
        MinirlConfig(correction=CorrectionConfig(bounds=None)),
        *(PpoConfig(kl_coef=0.1, kl_form=form, kl_weighted=weighted) for form in KlForm for weighted in (False, True)),
    ],
    ids=repr,
)
@settings(max_examples=30)
@given(rows=tokens)
def test_losses_agree_with_the_slow_reference(config, rows):
    value, metrics = build_loss(config)(inputs(rows))
    assert value.item() == pytest.approx(slow_loss(rows, config), abs=1e-9)
    assert {"ratio", "clipped", "masked", "vetoed", "importance", "kl_sampler", "sampler_gap", "outlier"} <= set(metrics)
    assert all(len(seen) == len(rows) and not seen.requires_grad for seen in metrics.values())


def test_without_proximal_logprobs_the_ratio_is_one_but_has_a_gradient():
    given_ = inputs([(-0.5, -0.5, 0, 0, 2.0, 1.0)], proximal=None)
    _, metrics = build_loss(PpoConfig(ratio_to=RatioTo.PROXIMAL))(given_)
    assert metrics["ratio"].item() == 1.0 and gradient(PpoConfig(ratio_to=RatioTo.PROXIMAL), given_) == pytest.approx([-2.0])


@pytest.mark.parametrize(
    "config", [PpoConfig(dual_clip=3.0), PpoConfig(kl_coef=0.5), GspoConfig(kl_coef=0.5, clip_low=0.2)], ids=repr
)
@settings(max_examples=30)
@given(rows=tokens)
def test_every_term_of_a_loss_has_its_gradient(config, rows):
    """Detached terms add to a loss and teach nothing (AgentRL's CE-GRPO): where the loss has a slope, autograd has it, too."""
    if isinstance(config, GspoConfig):  # the gradient of one ratio for a row, where the row has one advantage and one weight
        rows = [(*row[:4], *rows[at // 3 * 3][4:]) for at, row in enumerate(rows)]
    found, step = gradient(config, inputs(rows)), 1e-6
    middle = build_loss(config)(inputs(rows))[0].item()
    for at, row in enumerate(rows):
        sides = []
        for sign in (1, -1):
            moved = [*rows[:at], (row[0] + sign * step, *row[1:]), *rows[at + 1 :]]
            sides.append((build_loss(config)(inputs(moved))[0].item() - middle) / (sign * step))
        # At a corner of the clip the two sides differ, and autograd gives one of them.
        assert min(sides) - 1e-3 <= found[at] <= max(sides) + 1e-3


@pytest.mark.parametrize("form", [KlForm.K2, KlForm.K3_STRAIGHT])
def test_the_straight_kl_has_the_gradient_of_k2_and_the_value_of_k3(form):
    rows = [(-1.0, -1.0, -1.0, -1.7, 0.0, 1.0)]
    assert gradient(PpoConfig(kl_coef=1.0, kl_form=form), inputs(rows)) == pytest.approx([0.7])
    value = build_loss(PpoConfig(kl_coef=1.0, kl_form=form))(inputs(rows))[1]["kl_reference"].item()
    assert value == pytest.approx(0.7**2 / 2 if form is KlForm.K2 else math.exp(-0.7) - 0.3)


def test_an_outlier_is_finite_told_and_keeps_its_gradient():
    """A clamp of the log-ratio would hide the one token that is furthest off; without one, float32 overflows."""
    rows = [(-1.0, -200.0, -200.0, -200.0, -1.0, 1.0)]
    value, metrics = build_loss(PpoConfig())(inputs(rows))
    assert math.isfinite(value.item()) and metrics["outlier"].tolist() == [1.0]
    assert gradient(PpoConfig(), inputs(rows)) == pytest.approx([math.exp(20.0)])
    assert gradient(PpoConfig(kl_coef=1.0, dual_clip=3.0), inputs(rows)) == pytest.approx([1.0 - math.exp(-20.0)])


def test_what_a_loss_needs_and_lacks_is_named():
    for missing, config in (("advantages", PpoConfig()), ("sampler", CispoConfig()), ("reference", PpoConfig(kl_coef=0.1))):
        with pytest.raises(ValueError, match=missing):
            build_loss(config)(inputs([(-1.0, -1.0, 0, 0, 1.0, 1.0)], **{missing: None}))
    for config in (GspoConfig(), PpoConfig(correction=CorrectionConfig(veto=1e-4))):
        with pytest.raises(UserError, match=r"parallel\.context"):
            build_loss(config)(inputs([(-1.0, -1.0, 0, 0, 1.0, 1.0)], sequence=None))
    by_row = CorrectionConfig(low=0.5, level=Level.SEQUENCE)
    with pytest.raises(UserError, match="whole rows"):
        build_loss(PpoConfig(correction=by_row))(inputs([(-1.0, -1.0, 0, 0, 1.0, 1.0)], sequence=None))
