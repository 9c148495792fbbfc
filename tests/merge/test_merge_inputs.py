"""What does not go together is refused in one sentence, and nothing is written."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from merge_models import needs_mergekit, save_models
from safetensors.torch import load_file, save_file
from tiny_qwen3 import save_tiny

from sanderling.core.errors import UserError
from sanderling.merge.run import merge
from sanderling.merge.settings import MergeSettings


@pytest.fixture
def pair(tmp_path: Path) -> list[Path]:
    return save_models(tmp_path, 2)


def mend(directory: Path, **changes: Any) -> None:
    config = json.loads((directory / "config.json").read_text())
    (directory / "config.json").write_text(json.dumps(config | changes))


def change(directory: Path, change: Callable[[dict[str, torch.Tensor]], object]) -> None:
    weights = load_file(directory / "model.safetensors")
    change(weights)
    save_file(weights, directory / "model.safetensors", metadata={"format": "pt"})


NORM = "model.norm.weight"
LAYER = "model.layers.1.mlp.up_proj.weight"


def poison(weights: dict[str, torch.Tensor], value: float) -> None:
    weights[LAYER][3, 4] = value


def shard(directory: Path) -> None:
    """Say that the weights are in two files, of which one is there."""
    names = list(load_file(directory / "model.safetensors"))
    (directory / "model.safetensors").rename(directory / "model-00001-of-00002.safetensors")
    where = {name: f"model-0000{1 + (name == NORM)}-of-00002.safetensors" for name in names}
    (directory / "model.safetensors.index.json").write_text(json.dumps({"weight_map": where}))


BROKEN: dict[str, tuple[Callable[[Path], object], str]] = {
    "another architecture": (lambda it: mend(it, architectures=["LlamaForCausalLM"]), "built otherwise .*Llama"),
    "other heads of the same sum": (lambda it: mend(it, num_attention_heads=8, head_dim=4), "built otherwise .*heads 8"),
    "other positions": (lambda it: mend(it, rope_parameters={"rope_theta": 5.0}), "built otherwise .*rope_theta"),
    "other shapes": (lambda it: change(it, lambda w: w.update({NORM: torch.ones(31)})), r"is \[31\] and not \[32\]"),
    "a tensor less": (lambda it: change(it, lambda w: w.pop(NORM)), f"{NORM} is not there and not"),
    "a tensor more": (lambda it: change(it, lambda w: w.update(more=torch.ones(2))), r"more is \[2\] and not not there"),
    "another tokenizer": (lambda it: (it / "tokenizer.json").write_text('{"model": {}}'), "another tokenizer"),
    "a missing shard": (shard, "lack the file model-00002-of-00002.safetensors"),
    "pickles": (lambda it: (it / "model.safetensors").rename(it / "pytorch_model.bin"), "pickles"),
    "NaN": (lambda it: change(it, lambda w: poison(w, float("nan"))), f"{LAYER} comes out as NaN"),
    "no tokenizer": (lambda it: (it.with_name("model-0") / "tokenizer.json").unlink(), "no tokenizer.json to copy"),
}


@needs_mergekit
@pytest.mark.parametrize("case", BROKEN)
def test_models_that_cannot_be_merged_are_refused(case: str, pair: list[Path], tmp_path: Path) -> None:
    harm, told = BROKEN[case]
    harm(pair[1])
    with pytest.raises(UserError, match=told) as refusal:
        merge(MergeSettings.model_validate({"method": "linear", "models": pair}), tmp_path / "out", "a test")
    assert str(refusal.value).count(". ") == 0 and str(refusal.value).endswith(".")
    assert not list(tmp_path.glob("*out*"))


@needs_mergekit
@pytest.mark.parametrize("inside", [False, True])
def test_the_output_is_no_input(pair: list[Path], inside: bool, tmp_path: Path) -> None:
    before = (pair[0] / "model.safetensors").read_bytes()
    with pytest.raises(UserError, match="is, or holds, the input"):
        merge(MergeSettings.model_validate({"method": "linear", "models": pair}), tmp_path if inside else pair[0], "a test")
    assert (pair[0] / "model.safetensors").read_bytes() == before


@needs_mergekit
def test_what_is_no_merge_is_not_replaced(pair: list[Path], tmp_path: Path) -> None:
    other = save_tiny(tmp_path / "other", 5)
    with pytest.raises(UserError, match="no merged model"):
        merge(MergeSettings.model_validate({"method": "linear", "models": pair}), other, "a test")
    assert not (other / "merge.json").exists()


A, B, C = Path("a"), Path("b"), Path("c")


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"method": "slerp", "models": [A, B, C]}, "between two models and 3"),
        ({"method": "slerp", "models": [A, B], "weights": [1, 2]}, "no use for weights"),
        ({"method": "ties", "models": [A, B]}, "differences from a base"),
        ({"method": "linear", "models": [A, B], "base": C}, "knows no base"),
        ({"method": "linear", "models": [A]}, "needs two models at least"),
        ({"method": "linear", "models": [A, B], "weights": [1]}, "1 weights were given for 2"),
        ({"method": "linear", "models": [A, B], "weights": [1, -1]}, "sum to 0"),
        ({"method": "linear", "models": [A, Path("b/../a")]}, "is given twice"),
        ({"method": "ties", "models": [A, B], "base": A}, "is given twice"),
        ({"method": "ties", "models": [A], "base": B, "density": 0}, "greater than 0"),
        ({"method": "linear", "models": [A, B], "weights": [float("nan"), 1]}, "finite"),
        ({"method": "linear", "models": [A, B], "density": 0.3}, "linear has no use for density: leave it out"),
        ({"method": "mean", "models": [A, B]}, "'linear', 'slerp'"),
    ],
)
def test_settings_that_do_not_go_together(settings: dict[str, Any], told: str) -> None:
    with pytest.raises(ValueError, match=told):
        MergeSettings.model_validate(settings)


def test_without_the_extra_one_sentence_says_what_to_install(
    pair: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "mergekit.merge", None)
    with pytest.raises(UserError, match=r"Merging needs mergekit.*: run pip install"):
        merge(MergeSettings.model_validate({"method": "linear", "models": pair}), tmp_path / "out", "a test")
    assert not (tmp_path / "out").exists()
