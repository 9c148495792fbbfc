"""Policy losses in the trainer: rows stay whole wherever micro-batches are cut, and tokens know their age."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from tiny_qwen3 import random_rows, tiny_model

from sanderling.rl.losses import CispoConfig, CorrectionConfig, GspoConfig, MinirlConfig, PpoConfig, SignBounds, build_loss
from sanderling.train.config import TrainerConfig
from sanderling.train.contract import LossInputs, Row
from sanderling.train.trainer import Trainer

CORRECTION = CorrectionConfig(low=0.7, high=1.5, veto=0.65, bounds=SignBounds(decay=0.1))
LOSSES = [kind(correction=CORRECTION) for kind in (PpoConfig, GspoConfig, CispoConfig, MinirlConfig)]


def policy_rows(count: int) -> list[Row]:
    """Rows near the tiny model's own policy, with advantages of either sign."""
    rng, rows = np.random.default_rng(1), random_rows(count)
    near = Trainer(tiny_model(), TrainerConfig()).logprobs(rows)
    return [
        replace(
            row,
            advantages=rng.normal(size=len(row.ids)),
            sampler_logprobs=own + 0.3 * rng.normal(size=len(row.ids)),
            versions=rng.integers(0, 3, len(row.ids)),
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


def test_a_token_s_age_is_counted_in_updates_since_it_was_sampled():
    rows, ages = policy_rows(3), []

    def watching(tokens: LossInputs):
        ages.append(tokens.need("age").tolist())
        return build_loss(PpoConfig())(tokens)

    trainer = Trainer(tiny_model(), TrainerConfig(micro_batch_tokens=10_000))
    for _ in range(2):
        trainer.step(rows, watching)
    versions = np.concatenate([row.versions[row.loss_mask] for row in rows if row.versions is not None])
    assert sorted(ages[0]) == sorted((0 - versions).tolist()) and sorted(ages[1]) == sorted((1 - versions).tolist())
