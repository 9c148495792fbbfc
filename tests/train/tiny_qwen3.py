"""A random Qwen3 small enough for any test, and rows for it."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from transformers import Qwen3Config, Qwen3ForCausalLM

from sanderling.train.rows import Row

VOCAB = 61


def tiny_model(seed: int = 0, layers: int = 2) -> Qwen3ForCausalLM:
    torch.manual_seed(seed)
    config = Qwen3Config(
        vocab_size=VOCAB, hidden_size=32, intermediate_size=48, num_hidden_layers=layers, num_attention_heads=4,
        num_key_value_heads=2, head_dim=8, max_position_embeddings=512, tie_word_embeddings=True, initializer_range=0.3,
    )  # fmt: skip
    return Qwen3ForCausalLM(config)


def save_tiny(directory: Path, seed: int = 0) -> Path:
    tiny_model(seed).save_pretrained(directory)
    (directory / "tokenizer.json").write_text("{}")
    return directory


def random_rows(count: int, seed: int = 0, longest: int = 40) -> list[Row]:
    rng = np.random.default_rng(seed)
    rows = []
    for index in range(count):
        size = int(rng.integers(4, longest))
        mask = rng.random(size) < 0.5
        mask[0] = False
        mask[-1] = True
        rows.append(Row(ids=rng.integers(0, VOCAB, size), loss_mask=mask, trajectory=f"t{index}"))
    return rows


def forked_rows(count: int, seed: int = 0) -> list[Row]:
    """Rows of which each three belong to one trajectory, and each six to one group; all share a beginning, and the last of a
    group is the one before it again."""
    rows = random_rows(count, seed)
    trunk = np.random.default_rng(seed).integers(0, VOCAB, 12)
    return [
        replace(
            row,
            ids=np.concatenate((trunk, rows[index - (index % 6 == 5)].ids)),
            loss_mask=np.concatenate((np.zeros(12, dtype=np.bool_), rows[index - (index % 6 == 5)].loss_mask)),
            trajectory=f"t{index // 3}",
            group=f"q{index // 6}",
        )
        for index, row in enumerate(rows)
    ]
