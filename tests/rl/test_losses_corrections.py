"""Weights, masks and the veto for tokens that sampler and trainer see differently, with every loss."""

import math

import pytest
import torch
from pydantic import ValidationError

from sanderling.core.config import load_config, to_toml
from sanderling.recipes.find import find_rl_recipe
from sanderling.rl.config import RlRecipe
from sanderling.rl.losses import (
    CispoConfig,
    CorrectionConfig,
    GspoConfig,
    Level,
    MinirlConfig,
    PpoConfig,
    RatioTo,
    SignBounds,
    build_loss,
)
from sanderling.train.loss import LossInputs

KINDS = [PpoConfig, GspoConfig, CispoConfig, MinirlConfig]


def seen(correction: CorrectionConfig, ratios, *, kind=PpoConfig, to=RatioTo.PROXIMAL, advantages=1.0, ages=0.0, rows=None):
    """Metrics and gradients for tokens with the given trainer-to-sampler ratios, where present and proximal policy agree."""
    sampler = torch.full((len(ratios),), -1.0, dtype=torch.float64)
    logprobs = (sampler + torch.tensor(ratios, dtype=torch.float64).log()).requires_grad_()
    tokens = LossInputs(
        logprobs=logprobs,
        weights=torch.ones(len(ratios), dtype=torch.float64),
        advantages=torch.as_tensor(advantages, dtype=torch.float64) * torch.ones(len(ratios), dtype=torch.float64),
        sampler=sampler,
        proximal=logprobs.detach(),
        sequence=torch.tensor(rows if rows is not None else list(range(len(ratios)))),
        age=torch.as_tensor(ages, dtype=torch.float64) * torch.ones(len(ratios), dtype=torch.float64),
    )
    value, metrics = build_loss(kind(ratio_to=to, correction=correction))(tokens)
    value.backward()
    return {name: [round(v, 9) for v in values.tolist()] for name, values in metrics.items()}, logprobs.grad.tolist()


@pytest.mark.parametrize("kind", KINDS)
def test_one_impossible_token_vetoes_its_row_and_no_other(kind):
    ratios = [1.0, 5e-5, 1.0, 1.0, 2e-4]
    metrics, gradient = seen(CorrectionConfig(veto=1e-4), ratios, kind=kind, rows=[0, 0, 0, 1, 1])
    assert metrics["vetoed"] == [1, 1, 1, 0, 0] and metrics["masked"] == [0] * 5
    assert gradient[:3] == [0.0, 0.0, 0.0] and gradient[3] < 0.0


def test_a_row_can_be_weighed_and_masked_as_a_whole():
    ratios, rows = [2.0, 0.8, 1.1, 3.0], [0, 0, 1, 1]
    by_row = CorrectionConfig(cap=2.0, level=Level.SEQUENCE)
    assert seen(by_row, ratios, rows=rows)[0]["importance"] == pytest.approx([1.6, 1.6, 2.0, 2.0])
    bounds = CorrectionConfig(cap=None, high=2.0, level=Level.SEQUENCE)
    assert seen(bounds, ratios, rows=rows)[0]["masked"] == [0, 0, 1, 1]


def test_what_is_masked_still_counts_in_the_normalisation():
    """Other tokens of the batch weigh the same whether a token is masked or not."""
    free, bound = (seen(CorrectionConfig(cap=None, high=high), [1.0, 3.0], to=RatioTo.SAMPLER)[1] for high in (None, 2.0))
    assert free[0] == bound[0]


def test_a_masked_token_may_be_anything():
    metrics, gradient = seen(CorrectionConfig(cap=None, high=2.0), [1e80, 1.0], to=RatioTo.SAMPLER, advantages=-1.0)
    assert metrics["masked"] == [1, 0] and gradient[0] == 0.0 and math.isfinite(gradient[1])


@pytest.mark.parametrize("correction", [CorrectionConfig(veto=1e-4), {"veto": 1e-4}, {}])
def test_minirl_keeps_its_bounds_when_another_field_of_the_correction_is_set(correction):
    """Without them it is REINFORCE with ratios that nothing caps."""
    config = MinirlConfig.model_validate({"correction": correction})
    assert config.correction.bounds == SignBounds()
    assert config.correction.veto == (1e-4 if correction else None)
    assert PpoConfig.model_validate({"correction": correction}).correction.bounds is None


def test_a_recipe_s_override_of_the_correction_leaves_minirls_bounds():
    recipe = find_rl_recipe("tiny", ["rl.loss.kind=minirl", "rl.loss.correction.veto=1e-4"])
    assert recipe.rl.loss.correction == CorrectionConfig(veto=1e-4, bounds=SignBounds())
    assert load_config(RlRecipe, to_toml(recipe), "rl.toml") == recipe


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"low": 2.0, "high": 1.0}, "low is above high"),
        ({"floor": 3.0, "cap": 2.0}, "floor is above cap"),
        ({"bounds": {"strict": True, "decay": 0.1}}, "strict or decay"),
    ],
)
def test_settings_that_contradict_each_other_are_refused(settings, said):
    with pytest.raises(ValidationError, match=said):
        CorrectionConfig.model_validate(settings)
