"""The SFT recipes of the three systems fit their papers' hardware."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from sanderling.recipes.find import find_settings
from sanderling.train.config import SftConfig
from sanderling.train.fit import described, plan_sft

QWEN3_4B = {
    "hidden_size": 2560, "num_hidden_layers": 36, "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 128,
    "intermediate_size": 9728, "vocab_size": 151_936, "tie_word_embeddings": True,
}  # fmt: skip
DR_VENUS = {
    "epochs": 1, "batch_trajectories": 32, "shuffle": False, "data.profile": "dr-venus-4b", "data.max_tokens": 200_000,
    "trainer.lr": 1e-5, "trainer.betas": [0.9, 0.95], "trainer.weight_decay": 0.01, "trainer.grad_clip": 1.0,
    "trainer.schedule": "cosine", "trainer.warmup_share": 0.1, "trainer.precision": "bfloat16",
    "trainer.warmup_from_zero": True, "data.train_newline": True,
    "trainer.aggregation": "micro_batch_mean", "trainer.micro_batch_tokens": 1, "trainer.memory.recompute": "full",
    "parallel.kind": "fsdp",
}  # fmt: skip
LITERESEARCHER = {
    "epochs": 1, "batch_trajectories": 128, "data.profile": "literesearcher-4b", "data.max_tokens": 65_536, "trainer.lr": 2e-5,
    "trainer.schedule": "cosine", "trainer.warmup_share": 0.1, "trainer.warmup_from_zero": True, "data.train_newline": True,
}  # fmt: skip
AGENTCPM = {
    "epochs": 3, "batch_trajectories": 4, "data.profile": "agentcpm-explore-4b", "data.max_tokens": 20_999,
    "data.overlong": "drop", "trainer.lr": 2e-5, "trainer.betas": [0.9, 0.999], "trainer.weight_decay": 0.0,
    "trainer.grad_clip": 1.0, "trainer.schedule": "cosine", "trainer.warmup_share": 0.03, "trainer.precision": "bfloat16",
    "trainer.micro_batch_tokens": 21_000, "trainer.memory.recompute": "full", "trainer.warmup_from_zero": True,
    "data.train_newline": False,
}  # fmt: skip
PUBLISHED: dict[str, dict[str, Any]] = {
    "dr-venus-4b": DR_VENUS, "literesearcher-4b": LITERESEARCHER, "agentcpm-explore-4b": AGENTCPM,
}  # fmt: skip
SOURCE = re.compile(r"#.*\[(?:paper|script|code|record|ours|igpo)")


def leaves(values: dict[str, Any], path: str = "") -> set[str]:
    """Dotted names of all settings."""
    found: set[str] = set()
    for key, value in values.items():
        found |= leaves(value, f"{path}{key}.") if isinstance(value, dict) else {f"{path}{key}"}
    return found


@pytest.mark.parametrize(
    ("name", "device", "room", "count"),
    [
        ("dr-venus-4b", "A100", 79, 8), ("dr-venus-4b", "H200", 139, 1), ("literesearcher-4b", "H100", 79, 8),
        ("literesearcher-4b", "H200", 139, 1), ("agentcpm-explore-4b", "H100", 79, 8), ("agentcpm-explore-4b", "H200", 139, 1),
    ],
)  # fmt: skip
def test_a_recipe_fits_the_papers_hardware_and_one_h200(tmp_path: Path, name: str, device: str, room: float, count: int):
    (tmp_path / "config.json").write_text(json.dumps(QWEN3_4B))
    config = find_settings("sft", SftConfig, name).model_copy(update={"model": tmp_path})
    found = plan_sft(config, described(device, room, count))
    assert found.fits, found.sentence
    assert found.estimate.total < room * 2**30
