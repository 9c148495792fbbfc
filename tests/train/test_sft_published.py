"""The SFT recipes of the three systems: each setting typed here once more, with its source in the file, and plans that fit."""

import json
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

from sanderling import recipes
from sanderling.recipes.find import find_settings
from sanderling.train.config import SftConfig
from sanderling.train.fit import described, plan_sft

HOME = Path(recipes.__file__).parent
QWEN3_4B = {
    "hidden_size": 2560, "num_hidden_layers": 36, "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 128,
    "intermediate_size": 9728, "vocab_size": 151_936, "tie_word_embeddings": True,
}  # fmt: skip
DR_VENUS = {
    "epochs": 1, "batch_trajectories": 32, "shuffle": False, "data.profile": "dr-venus-4b", "data.max_tokens": 200_000,
    "trainer.lr": 1e-5, "trainer.betas": [0.9, 0.95], "trainer.weight_decay": 0.01, "trainer.grad_clip": 1.0,
    "trainer.schedule": "cosine", "trainer.warmup_share": 0.1, "trainer.precision": "bfloat16",
    "trainer.aggregation": "micro_batch_mean", "trainer.micro_batch_tokens": 1, "trainer.memory.recompute": "full",
    "parallel.kind": "fsdp",
}  # fmt: skip
LITERESEARCHER = {
    "epochs": 1, "batch_trajectories": 128, "data.profile": "literesearcher-4b", "data.max_tokens": 65_536, "trainer.lr": 2e-5,
    "trainer.schedule": "cosine", "trainer.warmup_share": 0.1,
}  # fmt: skip
AGENTCPM = {
    "epochs": 3, "batch_trajectories": 4, "data.profile": "agentcpm-explore-4b", "data.max_tokens": 20_999,
    "data.overlong": "drop", "trainer.lr": 2e-5, "trainer.betas": [0.9, 0.999], "trainer.weight_decay": 0.0,
    "trainer.grad_clip": 1.0, "trainer.schedule": "cosine", "trainer.warmup_share": 0.03, "trainer.precision": "bfloat16",
    "trainer.micro_batch_tokens": 21_000, "trainer.memory.recompute": "full",
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


@pytest.mark.parametrize("name", PUBLISHED)
def test_a_recipe_has_the_published_values_and_names_the_others_as_ours(name: str):
    text = (HOME / "sft" / f"{name}.toml").read_text(encoding="utf-8")
    raw = tomllib.loads(text)
    for path, value in PUBLISHED[name].items():
        found: Any = raw
        for part in path.split("."):
            found = found[part]
        assert found == value, path
    ours = {f"{section}{match[1]}" for section, match in settings_of(text) if "[ours]" in match[0]}
    told = {"title", "data.profile"}
    assert leaves(raw) - ours - told == set(PUBLISHED[name]) - ours - told, "what is not ours is in the table"


def settings_of(text: str) -> list[tuple[str, re.Match[str]]]:
    """Each line of a setting, with the section that it stands in."""
    section, found = "", []
    for line in text.splitlines():
        if line.startswith("["):
            section = f"{line.strip('[]')}."
        elif match := re.match(r"(\w+) = .*", line):
            found.append((section, match))
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
