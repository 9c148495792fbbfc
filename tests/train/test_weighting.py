"""The mean of means: as one computes it by hand from the micro-batches, over all ranks."""

import numpy as np
import pytest
import torch
from test_trainer import one_by_one
from tiny_qwen3 import random_rows, tiny_model

from sanderling.core.errors import UserError
from sanderling.train.config import Aggregation, TrainerConfig
from sanderling.train.contract import Row
from sanderling.train.loss import sft
from sanderling.train.trainer import Trainer, row_weights


def row(trained: int, weight: float = 1.0) -> Row:
    mask = np.arange(trained + 1) > 0
    return Row(ids=np.zeros(trained + 1, dtype=np.int64), loss_mask=mask, weight=weight)


def test_every_micro_batch_weighs_the_same() -> None:
    found = row_weights([row(1), row(3), row(6), row(0)], Aggregation.MICRO_BATCH_MEAN, [[0, 1], [2], [3]])
    assert found == pytest.approx([1 / 8, 1 / 8, 1 / 12, 0.0])
    assert row_weights([row(1), row(3, weight=3)], Aggregation.MICRO_BATCH_MEAN, [[0, 1]]) == pytest.approx([0.1, 0.3])
    with pytest.raises(UserError, match="no token to train"):
        row_weights([row(0)], Aggregation.MICRO_BATCH_MEAN, [[0]])


def test_with_one_row_each_it_is_the_mean_of_the_rows_means() -> None:
    rows, model = random_rows(5), tiny_model()
    expected = -torch.stack([one_by_one(model, row).mean() for row in rows]).mean().item()
    config = TrainerConfig(aggregation=Aggregation.MICRO_BATCH_MEAN, micro_batch_tokens=1)
    assert Trainer(model, config).step(rows, sft)["loss"] == pytest.approx(expected, rel=1e-5)
    plain = TrainerConfig(micro_batch_tokens=1)
    assert Trainer(tiny_model(), plain).step(rows, sft)["loss"] != pytest.approx(expected, rel=1e-3)
