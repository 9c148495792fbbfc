"""What does not go together is refused in one sentence, and nothing is written."""

import builtins
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

from sanderling.cli import main as shell
from sanderling.core.errors import UserError
from sanderling.merge.models import open_models
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
    "another architecture": (lambda it: mend(it, architectures=["LlamaForCausalLM"]), "another architecture .*Llama"),
    "other heads of the same sum": (lambda it: mend(it, num_attention_heads=8, head_dim=4), "another architecture .*heads 8"),
    "other positions": (lambda it: mend(it, rope_parameters={"rope_theta": 5.0}), "counts positions otherwise"),
    "a longer context by YaRN": (
        lambda it: mend(it, rope_parameters={"rope_theta": 10000.0, "rope_type": "yarn", "factor": 4.0}),
        "counts positions otherwise .*factor 4.0 and not none.*rope_type yarn and not none",
    ),
    "a sliding window": (
        lambda it: mend(it, use_sliding_window=True, sliding_window=64),
        "counts positions otherwise .*sliding_window 64 and not none",
    ),
    "other shapes": (lambda it: change(it, lambda w: w.update({NORM: torch.ones(31)})), "31 in .* and 32 in"),
    "a tensor less": (lambda it: change(it, lambda w: w.pop(NORM)), f"has no tensor {NORM}"),
    "a tensor more": (lambda it: change(it, lambda w: w.update(more=torch.ones(2))), "has no tensor more"),
    "another tokenizer": (lambda it: (it / "tokenizer.json").write_text('{"model": {}}'), "another tokenizer"),
    "a missing shard": (shard, "lack the file model-00002-of-00002.safetensors"),
    "pickles": (lambda it: (it / "model.safetensors").rename(it / "pytorch_model.bin"), "pickles"),
    "NaN": (lambda it: change(it, lambda w: poison(w, float("nan"))), f"{LAYER} in .* holds NaN"),
    "infinity": (lambda it: change(it, lambda w: poison(w, float("inf"))), f"{LAYER} in .* holds infinity"),
    "numbers of 8 bits": (lambda it: change(it, lambda w: w.update({NORM: w[NORM].to(torch.int8)})), "is torch.int8, which"),
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


YARN = {"factor": 4.0, "original_max_position_embeddings": 512}


@pytest.mark.parametrize(
    ("one", "two"),
    [
        ({"rope_parameters": {"rope_type": "default", "rope_theta": 1e4}}, {"rope_scaling": None, "rope_theta": 10000}),
        (
            {"rope_parameters": {"rope_type": "yarn", "rope_theta": 1e4, **YARN, "beta_fast": 32}},
            {"rope_scaling": {"type": "yarn", **YARN}, "rope_theta": 1e4, "max_position_embeddings": 2048},
        ),
        ({"rope_parameters": {"rope_type": "yarn", **YARN}}, {"rope_parameters": {"rope_type": "yarn", "factor": 4}}),
        ({"sliding_window": None}, {"sliding_window": 131072, "use_sliding_window": False, "max_window_layers": 1}),
        ({"max_position_embeddings": 512}, {"max_position_embeddings": 1024}),
    ],
)
def test_one_meaning_written_in_two_ways_is_no_difference(one: dict[str, Any], two: dict[str, Any], pair: list[Path]) -> None:
    for directory, changes in zip(pair, (one, two), strict=True):
        file = directory / "config.json"
        config = json.loads(file.read_text())
        del config["rope_parameters"]
        file.write_text(json.dumps(config | changes))
    assert len(open_models(pair)) == 2


@needs_mergekit
@pytest.mark.parametrize("words", [".", "..", "below/..", "/"])
def test_the_output_is_not_where_one_stands(
    words: str, pair: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "here" / "below").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "here")
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(UserError, match="the directory you are in"):
        merge(MergeSettings.model_validate({"method": "linear", "models": pair}), Path(words), "a test")
    assert sorted(tmp_path.rglob("*")) == before


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


@needs_mergekit
def test_without_a_tokenizer_there_is_nothing_to_run(pair: list[Path], tmp_path: Path) -> None:
    (pair[0] / "tokenizer.json").unlink()
    settings = {"method": "linear", "models": pair}
    with pytest.raises(UserError, match="no tokenizer to copy"):
        merge(MergeSettings.model_validate(settings), tmp_path / "out", "a test")
    merge(MergeSettings.model_validate({**settings, "tokenizer": pair[1]}), tmp_path / "out", "a test")
    assert (tmp_path / "out/tokenizer.json").read_bytes() == (pair[1] / "tokenizer.json").read_bytes()


A, B, C = Path("a"), Path("b"), Path("c")


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"method": "slerp", "models": [A, B, C]}, "between two models and 3"),
        ({"method": "slerp", "models": [A, B], "weights": [1, 2]}, "takes t and no weights"),
        ({"method": "ties", "models": [A, B]}, "differences from a base"),
        ({"method": "linear", "models": [A, B], "base": C}, "knows no base"),
        ({"method": "linear", "models": [A]}, "needs two models at least"),
        ({"method": "linear", "models": [A, B], "weights": [1]}, "1 weights were given for 2"),
        ({"method": "linear", "models": [A, B], "weights": [1, -1]}, "sum to 0"),
        ({"method": "linear", "models": [A, Path("b/../a")]}, "is given twice"),
        ({"method": "ties", "models": [A, B], "base": A}, "is given twice"),
        ({"method": "della", "models": [A], "base": B, "density": 0.05}, "chances from -0.05"),
        ({"method": "ties", "models": [A], "base": B, "density": 0}, "greater than 0"),
        ({"method": "linear", "models": [A, B], "weights": [float("nan"), 1]}, "finite"),
        ({"method": "mean", "models": [A, B]}, "'linear', 'slerp'"),
    ],
)
def test_settings_that_do_not_go_together(settings: dict[str, Any], told: str) -> None:
    with pytest.raises(ValueError, match=told):
        MergeSettings.model_validate(settings)


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"method": "linear", "models": [A, B], "weights": [1, 2]}, "sum to 3: each is divided"),
        ({"method": "linear", "models": [A, B], "weights": [1, 2], "normalize": False}, "scaled as a whole"),
        ({"method": "task-arithmetic", "models": [A, B], "base": C, "weights": [2, 2]}, "come to 4"),
        ({"method": "task-arithmetic", "models": [A, B], "base": C, "weights": [1, -2]}, "come to -1"),
    ],
)
def test_doubtful_weights_are_a_warning(settings: dict[str, Any], told: str) -> None:
    (doubt,) = MergeSettings.model_validate(settings).doubts()
    assert told in doubt


def test_usual_weights_are_no_warning() -> None:
    for settings in (
        {"method": "linear", "models": [A, B], "weights": [0.25, 0.75]},
        {"method": "linear", "models": [A, B, C]},
        {"method": "task-arithmetic", "models": [A, B], "base": C, "weights": [1, 1]},
        {"method": "ties", "models": [A, B], "base": C, "weights": [3, 4]},
        {"method": "slerp", "models": [A, B]},
    ):
        assert MergeSettings.model_validate(settings).doubts() == []


def call(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    monkeypatch.setattr(sys, "argv", ["sanderling", "merge", "run", *map(str, arguments)])
    with pytest.raises(SystemExit) as stop:
        shell.main()
    assert stop.value.code == 2
    return capsys.readouterr().err


def test_without_the_extra_one_sentence_says_what_to_install(
    pair: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    real = builtins.__import__

    def without(name: str, *rest: Any) -> Any:
        if name.startswith("mergekit"):
            raise ModuleNotFoundError("No module named 'mergekit'", name="mergekit")
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without)
    told = call(monkeypatch, capsys, "linear", *pair, "--out", tmp_path / "out")
    assert "Merging needs mergekit: run pip install '.[merge]'" in told
    assert not (tmp_path / "out").exists()


def test_an_option_that_the_method_has_no_use_for_is_refused(
    pair: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    told = call(monkeypatch, capsys, "linear", *pair, "--density", 0.3, "--out", tmp_path / "out")
    assert "linear has no use for density: leave it out." in told
