"""Model directories that are not whole: one sentence each, and never a random weight."""

import json
import shutil
from pathlib import Path

import pytest
import torch
from policy_tiny import model_directory
from safetensors.torch import load_file, save_file

from sanderling.core.errors import UserError
from sanderling.policy.model_directory import load_model
from sanderling.policy.transformers_policy import TransformersPolicy


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return shutil.copytree(model_directory(), tmp_path / "model")


def sentence(path: Path) -> str:
    with pytest.raises(UserError) as caught:
        TransformersPolicy.load(path)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("name", ["config.json", "tokenizer.json", "model.safetensors"])
@pytest.mark.parametrize("content", [None, b"", b'{"a":', b"{}", b"\xff\xfe\x00noise"])
def test_a_missing_torn_or_foreign_file_is_one_sentence(model: Path, name: str, content: bytes | None) -> None:
    (model / name).unlink() if content is None else (model / name).write_bytes(content)
    assert str(model) in sentence(model)


def test_no_directory_is_one_sentence(tmp_path: Path) -> None:
    assert "no model directory" in sentence(tmp_path / "model")


def test_weights_that_are_not_there_are_never_replaced_by_random_ones(model: Path) -> None:
    tensors = load_file(model / "model.safetensors")
    lost = next(name for name in tensors if "layers.1.mlp" in name)
    save_file({name: tensor for name, tensor in tensors.items() if name != lost}, model / "model.safetensors", {"format": "pt"})
    assert lost in sentence(model)


def test_weights_that_the_model_does_not_use_are_told(model: Path) -> None:
    tensors = load_file(model / "model.safetensors") | {"model.layers.0.self_attn.q_proj.bias": torch.ones(64)}
    save_file(tensors, model / "model.safetensors", {"format": "pt"})
    with pytest.warns(UserWarning, match=r"q_proj\.bias"):
        assert load_model(model) is not None


def test_a_tokenizer_of_another_model_is_refused(model: Path) -> None:
    file = model / "tokenizer.json"
    value = json.loads(file.read_text())
    vocabulary = value["model"]["vocab"]
    vocabulary.update({f"more {n}": len(vocabulary) + n for n in range(40)})
    file.write_text(json.dumps(value))
    assert "model's own tokenizer" in sentence(model)
