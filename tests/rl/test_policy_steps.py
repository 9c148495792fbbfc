"""Policy losses in the trainer: rows stay whole wherever micro-batches are cut."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from tiny_qwen3 import random_rows, tiny_model

from sanderling.rl.losses import CorrectionConfig, MinirlConfig, PpoConfig, build_loss
from sanderling.train.config import TrainerConfig
from sanderling.train.rows import Row
from sanderling.train.trainer import Trainer

CORRECTION = CorrectionConfig(low=0.7, high=1.5, veto=0.65)
LOSSES = [kind(correction=CORRECTION) for kind in (PpoConfig, MinirlConfig)]


def policy_rows(count: int) -> list[Row]:
    """Rows near the tiny model's own policy, with advantages of either sign."""
    rng, rows = np.random.default_rng(1), random_rows(count)
    near = Trainer(tiny_model(), TrainerConfig()).logprobs(rows)
    return [
        replace(
            row,
            advantages=rng.normal(size=len(row.ids)),
            sampler_logprobs=own + 0.3 * rng.normal(size=len(row.ids)),
        )
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
