"""Random weights of any size: the published shapes, what transformers would draw, one shard in memory at a time."""

import json
from pathlib import Path

import pytest
import torch
from pydantic import ValidationError
from safetensors.torch import load_file
from transformers import Qwen3Config, Qwen3ForCausalLM

from sanderling.policy.model_directory import load_model
from sanderling.train.random_model import PUBLISHED_VOCABULARY, SIZES, ModelShape, model_settings
from sanderling.train.random_weights import write_random_weights
from sanderling.train.shape import shape_of

PARAMETERS = {
    "0.6b": 596_049_920, "1.7b": 1_720_574_976, "4b": 4_022_468_096, "4b-2507": 4_022_468_096, "8b": 8_190_735_360,
    "14b": 14_768_307_200, "32b": 32_762_123_264,
}  # fmt: skip
"""As the released weights have them."""
SHAPE = ModelShape(hidden=64, layers=3, heads=4, kv_heads=2, head_dim=16, intermediate=96, tied=False)


def config(shape: ModelShape = SHAPE, vocabulary: int = 500, **more: object) -> Qwen3Config:
    return Qwen3Config.from_dict({**model_settings(shape, vocabulary), "pad_token_id": 7, **more})


@pytest.mark.parametrize("name", PARAMETERS)
def test_the_published_sizes_have_the_published_parameters(name: str) -> None:
    settings = model_settings(SIZES[name], PUBLISHED_VOCABULARY)
    assert shape_of(settings, name).parameters == PARAMETERS[name]
    with torch.device("meta"):
        model = Qwen3ForCausalLM(Qwen3Config.from_dict(settings))
    assert sum(parameter.numel() for parameter in model.parameters()) == PARAMETERS[name]


def test_positions_turn_pairs() -> None:
    with pytest.raises(ValidationError, match="must be even"):
        ModelShape(head_dim=15)


@pytest.mark.parametrize("tied", [True, False])
def test_what_is_drawn_is_what_transformers_draws(tied: bool, tmp_path: Path) -> None:
    made = config(SHAPE.model_copy(update={"tied": tied}), attention_bias=True)
    write_random_weights(tmp_path, made, 3, torch.float32)
    made.save_pretrained(tmp_path)
    ours, theirs = load_model(tmp_path).state_dict(), Qwen3ForCausalLM(made).state_dict()
    assert ours.keys() == theirs.keys()
    for name, tensor in theirs.items():
        assert ours[name].shape == tensor.shape
        assert float(ours[name].mean()) == pytest.approx(float(tensor.mean()), abs=0.003), name
        assert float(ours[name].std()) == pytest.approx(float(tensor.std()), rel=0.1, abs=1e-9), name
    assert not ours["model.embed_tokens.weight"][7].any()
    assert ("lm_head.weight" in load_file(tmp_path / "model.safetensors")) is not tied


def test_shards_change_no_number_and_precision_only_rounds(tmp_path: Path) -> None:
    whole, parts, rounded = (tmp_path / name for name in ("whole", "parts", "rounded"))
    for place in (whole, parts, rounded):
        place.mkdir()
    drawn: list[int] = []
    write_random_weights(whole, config(), 3, torch.float32, drawn.append)
    write_random_weights(parts, config(), 3, torch.float32, shard_bytes=50_000)
    write_random_weights(rounded, config(), 3, torch.bfloat16)
    expected = load_file(whole / "model.safetensors")
    assert sum(drawn) == sum(tensor.numel() for tensor in expected.values())
    index = json.loads((parts / "model.safetensors.index.json").read_text())
    files = sorted(path.name for path in parts.glob("*.safetensors"))
    assert sorted(set(index["weight_map"].values())) == files and len(files) > 3
    assert index["metadata"]["total_size"] == sum(tensor.nbytes for tensor in expected.values())
    found = {name: tensor for file in files for name, tensor in load_file(parts / file).items()}
    for name, tensor in expected.items():
        assert torch.equal(found[name], tensor)
        assert index["weight_map"][name] in files
        assert torch.equal(load_file(rounded / "model.safetensors")[name], tensor.bfloat16())
    assert all(len(load_file(parts / file)) == 1 or (parts / file).stat().st_size < 60_000 for file in files)
