"""Our losses against TRL's own code on the same tensors: values and gradients.

TRL's ``GRPOTrainer._compute_loss`` is called on a stand-in that holds its settings and hands out log-probabilities. Its
importance ratios are made in the middle of a method that generates, so those lines of the installed package run alone.
"""

import inspect
import math
import textwrap
from collections import defaultdict
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from sanderling.rl.losses import CispoConfig, CorrectionConfig, GspoConfig, PolicyLoss, PpoConfig, RatioTo, build_loss
from sanderling.train.config import Aggregation
from sanderling.train.rows import LossInputs, Row
from sanderling.train.trainer import row_weights

pytest.importorskip("trl", reason="TRL comes with the extra `dev`")

ROWS, TOKENS, LIMIT = 5, 9, 12
MASK = (torch.arange(TOKENS)[None] < torch.tensor([9, 4, 1, 7, 6])[:, None]).long()
MASK[0, 3:5] = 0  # an observation in the middle
LOW, HIGH = 0.2, 0.28


@pytest.fixture(scope="module")
def trainer():
    from trl import GRPOTrainer

    return GRPOTrainer


def drawn(seed: int, spread: float = 0.4) -> dict[str, torch.Tensor]:
    """Log-probabilities under five policies near each other, and advantages by row."""
    noise = torch.Generator().manual_seed(seed)
    base = -2.0 * torch.rand(ROWS, TOKENS, generator=noise, dtype=torch.float64) - 0.05
    names = ("new", "old", "sampler", "reference")
    found = {n: base + spread * torch.randn(ROWS, TOKENS, generator=noise, dtype=torch.float64) for n in names}
    return found | {"advantages": torch.randn(ROWS, generator=noise, dtype=torch.float64)}


def theirs(trainer, values, loss_type, *, level="token", delta=None, beta=0.0, importance=None, high=HIGH):
    """TRL's loss, and its gradient with respect to the log-probabilities."""
    new = values["new"].clone().requires_grad_()
    accelerator = SimpleNamespace(num_processes=1, gather=lambda x: x, reduce=lambda x, reduction: x)
    stand_in = SimpleNamespace(
        _get_per_token_logps_and_entropies=lambda *args, **kwargs: (new, torch.zeros_like(new), None),
        args=SimpleNamespace(use_bias_correction_kl=False, delta=delta, steps_per_generation=1),
        model=SimpleNamespace(training=True),
        accelerator=accelerator,
        loss_type=loss_type,
        importance_sampling_level=level,
        beta=beta,
        epsilon_low=LOW,
        epsilon_high=high,
        use_vllm=importance is not None,
        vllm_importance_sampling_correction=True,
        current_gradient_accumulation_steps=1,
        max_completion_length=LIMIT,
        aux_loss_enabled=False,
        top_entropy_quantile=1.0,
        off_policy_mask_threshold=None,
        _entropy_bonus_enabled=False,
        _metrics={"train": defaultdict(list)},
    )
    nothing = torch.zeros(ROWS, 0, dtype=torch.long)
    inputs = {
        "prompt_ids": nothing, "prompt_mask": nothing, "completion_ids": torch.zeros(ROWS, TOKENS, dtype=torch.long),
        "completion_mask": MASK, "advantages": values["advantages"], "old_per_token_logps": values["old"],
        "ref_per_token_logps": values["reference"], "importance_sampling_ratio": importance,
        "num_items_in_batch": MASK.sum(),
    }  # fmt: skip
    loss = trainer._compute_loss(stand_in, stand_in.model, inputs)
    loss.backward()
    return loss.item(), new.grad


def trl_importance(trainer, values, mode: str, low: float | None, high: float | None) -> torch.Tensor:
    """TRL's own lines, run on our tensors."""
    source = inspect.getsource(trainer._generate_and_score_completions)
    begin = source.index("# Compute the importance sampling ratio when using vLLM")
    begin = source.rindex("\n", 0, source.index("mask = completion_mask if tool_mask is None", begin)) + 1
    end = source.index("# Compute the per-token log probabilities for the reference model", begin)
    names = {
        "torch": torch,
        "math": math,
        "completion_mask": MASK,
        "tool_mask": None,
        "old_per_token_logps": values["old"],
        "sampling_per_token_logps": values["sampler"],
        "self": SimpleNamespace(
            vllm_importance_sampling_mode=mode, vllm_importance_sampling_clip_min=low, vllm_importance_sampling_clip_max=high
        ),
    }
    exec(textwrap.dedent(source[begin:end]), names)
    return names["vllm_importance_sampling_ratio"]


def weights(aggregation: str) -> torch.Tensor:
    """Each trained token's weight. The first two are this package's own aggregations."""
    rows = [
        Row(ids=np.zeros(TOKENS, dtype=np.int64), loss_mask=mask.numpy().astype(bool), trajectory=str(i))
        for i, mask in enumerate(MASK)
    ]
    ours = {"grpo": Aggregation.TRAJECTORY_MEAN, "bnpo": Aggregation.TOKEN_MEAN, "dapo": Aggregation.TOKEN_MEAN}
    ours["cispo"] = Aggregation.TOKEN_MEAN
    if aggregation in ours:
        by_row = torch.tensor(row_weights(rows, ours[aggregation]), dtype=torch.float64)
    else:
        by_row = torch.full((ROWS,), 1 / ROWS / (LIMIT if aggregation == "dr_grpo" else 1), dtype=torch.float64)
    return by_row[:, None].expand(ROWS, TOKENS)[MASK.bool()]


def ours(config: PolicyLoss, values, aggregation: str):
    """Our loss, and its gradient in TRL's shape."""
    taken = MASK.bool()
    advantages = values["advantages"]
    advantages = advantages if advantages.dim() == 2 else advantages[:, None].expand(ROWS, TOKENS)
    logprobs = values["new"][taken].clone().requires_grad_()
    tokens = LossInputs(
        logprobs=logprobs,
        weights=weights(aggregation),
        advantages=advantages[taken],
        sampler=values["sampler" if config.ratio_to is RatioTo.PROXIMAL else "old"][taken],
        proximal=values["old"][taken],
        reference=values["reference"][taken],
        sequence=torch.arange(ROWS)[:, None].expand(ROWS, TOKENS)[taken],
    )
    loss, _ = build_loss(config)(tokens)
    loss.backward()
    gradient = torch.zeros(ROWS, TOKENS, dtype=torch.float64)
    gradient[taken] = logprobs.grad
    return loss.item(), gradient


def same(one, other):
    assert one[0] == pytest.approx(other[0], abs=1e-12)
    torch.testing.assert_close(one[1], other[1], atol=1e-12, rtol=1e-9)


PPO = PpoConfig(clip_low=LOW, clip_high=HIGH)
GSPO = GspoConfig(clip_low=LOW, clip_high=HIGH)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("loss_type", ["grpo", "bnpo", "dapo", "dr_grpo"])
@pytest.mark.parametrize("delta", [None, 1.5])
def test_ppo_and_its_two_sided_clip(trainer, loss_type, delta, seed):
    values = drawn(seed)
    same(ours(PPO.model_copy(update={"dual_clip": delta}), values, loss_type), theirs(trainer, values, loss_type, delta=delta))


@pytest.mark.parametrize("loss_type", ["grpo", "dapo"])
def test_ppo_with_an_advantage_for_each_token(trainer, loss_type):
    values = drawn(7) | {
        "advantages": torch.randn(ROWS, TOKENS, generator=torch.Generator().manual_seed(8), dtype=torch.float64)
    }
    same(ours(PPO, values, loss_type), theirs(trainer, values, loss_type))


@pytest.mark.parametrize("seed", range(3))
def test_ppo_with_a_kl_to_the_reference(trainer, seed):
    values, config = drawn(seed), PPO.model_copy(update={"kl_coef": 0.3})
    same(ours(config, values, "dapo"), theirs(trainer, values, "dapo", beta=0.3))


@pytest.mark.parametrize("seed", range(3))
def test_cispo(trainer, seed):
    values = drawn(seed)
    same(ours(CispoConfig(most=1.3), values, "cispo"), theirs(trainer, values, "cispo", high=1.3))


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("loss_type", ["grpo", "dapo", "luspo"])
def test_gspo(trainer, loss_type, seed):
    """The form for tokens has the gradient of the row's ratio, where the row has one advantage. LUSPO is another weight."""
    values = drawn(seed)
    same(ours(GSPO, values, loss_type), theirs(trainer, values, loss_type, level="sequence"))


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    ("mode", "low", "high"), [("token_truncate", None, 2.0), ("token_mask", None, 2.0), ("token_mask", 0.6, 1.6)]
)
def test_importance_of_trainer_against_sampler(trainer, mode, low, high, seed):
    """Decoupled: the ratio to the weights before the update, times theirs to the sampler, cut or masked."""
    values = drawn(seed)
    bounds = {"cap": high} if mode == "token_truncate" else {"cap": None, "low": low, "high": high}
    config = PPO.model_copy(update={"ratio_to": RatioTo.PROXIMAL, "correction": CorrectionConfig(**bounds)})
    importance = trl_importance(trainer, values, mode, low, high)
    same(ours(config, values, "dapo"), theirs(trainer, values, "dapo", importance=importance))


def test_far_from_the_sampler_gradients_are_trls_until_the_limit_and_finite_beyond(trainer):
    """TRL does not bound log-ratios. Ours are, at 20; their gradient is not taken away, as a clamp would."""
    values = drawn(0) | {"advantages": -torch.ones(ROWS, dtype=torch.float64)}
    near, far = (values | {"old": values["new"] - gap} for gap in (19.0, 800.0))
    one, other = ours(PPO, near, "dapo"), theirs(trainer, near, "dapo")
    assert one[0] == pytest.approx(other[0]) and torch.allclose(one[1], other[1])
    beyond = ours(PPO, far, "dapo")[1][MASK.bool()]
    assert torch.allclose(beyond, torch.full_like(beyond, math.exp(20.0) / int(MASK.sum())))
    assert not math.isfinite(theirs(trainer, far, "dapo")[0])
