"""The SFT recipes of the three systems fit their papers' hardware."""

import json
from pathlib import Path

import pytest

from sanderling.recipes.find import find_settings
from sanderling.train.config import SftConfig
from sanderling.train.fit import described, plan_sft

QWEN3_4B = {
    "hidden_size": 2560, "num_hidden_layers": 36, "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 128,
    "intermediate_size": 9728, "vocab_size": 151_936, "tie_word_embeddings": True,
}  # fmt: skip


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
