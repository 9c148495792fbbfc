"""A merge on the disk: whole or not at all, with a record, over shards, without a network."""

import json
import socket
import sys
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from launcher import die, ended
from merge_models import Weights, assert_close, merged, needs_mergekit, save_models, weights_of
from safetensors.torch import load_file, save_file
from tiny_qwen3 import save_tiny, tiny_model
from typer.testing import CliRunner

from sanderling.cli.merge import app
from sanderling.core.errors import UserError
from sanderling.merge.run import merge, read_merge
from sanderling.merge.settings import TRAITS, MergeSettings, Method
from sanderling.policy.model_directory import load_model

pytestmark = needs_mergekit


def merge_and_die(out: Path, models: list[Path]) -> None:
    """Killed at the sixth tensor, in shards."""
    from mergekit.io.tensor_writer import TensorWriter

    saved, real = count(1), TensorWriter.save_tensor

    def save(self: TensorWriter, *arguments: Any, **more: Any) -> None:
        if next(saved) == 6:
            die()
        self.max_shard_size = 20_000
        real(self, *arguments, **more)

    TensorWriter.save_tensor = save
    merge(MergeSettings(method="linear", models=tuple(models)), out, "killed")


def snapshot(directory: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in sorted(directory.iterdir())}


def test_a_merge_that_is_killed_leaves_the_one_before_it(tmp_path: Path) -> None:
    models, out = save_models(tmp_path, 2), tmp_path / "out"
    merged(out, method="slerp", models=models, t=0.25)
    before = snapshot(out)
    assert ended(merge_and_die, out, models) == -9
    assert list(tmp_path.glob(".partial-out/model-*.safetensors")), "it was amid writing"
    assert snapshot(out) == before
    merged(out, method="linear", models=models)
    assert read_merge(out).settings.method == "linear"
    assert not list(tmp_path.glob(".*out*"))


def test_shards_are_read_and_the_merged_model_is_loaded_and_runs(tmp_path: Path) -> None:
    for seed in (0, 1):
        tiny_model(seed).save_pretrained(tmp_path / f"m@{seed}+x", max_shard_size="20KB")
        (tmp_path / f"m@{seed}+x/tokenizer.json").write_text("{}")
    models = [tmp_path / "m@0+x", tmp_path / "m@1+x"]
    assert len(list(models[0].glob("*.safetensors"))) > 2
    found = merged(tmp_path / "out", method="linear", models=models, weights=(0.5, 0.5))
    wanted = {name: (array + weights_of(models[1])[name]) / 2 for name, array in weights_of(models[0]).items()}
    assert all(np.allclose(found[name], array, atol=1e-6) for name, array in wanted.items())
    loaded = load_model(tmp_path / "out").state_dict()
    assert all(bool((loaded[name] == tensor).all()) for name, tensor in load_file(tmp_path / "out/model.safetensors").items())
    assert json.loads((tmp_path / "out/config.json").read_text())["architectures"] == ["Qwen3ForCausalLM"]


def test_merging_opens_no_socket(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("a socket")

    models = save_models(tmp_path, 2)
    for name in ("socket", "create_connection", "getaddrinfo"):
        monkeypatch.setattr(socket, name, refuse)
    merged(tmp_path / "out", method="dare-linear", models=models[1:], base=models[0])


# -- What does not go together is refused in one sentence, and nothing is written ------------------------------------------


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
    words = ["run", "linear", *map(str, pair), "--out", str(tmp_path / "merged")]
    for _ in range(2):  # the same again is the same
        assert CliRunner().invoke(app, words, catch_exceptions=False).exit_code == 0
    with pytest.raises(UserError, match="holds another merge"):
        CliRunner().invoke(app, [*words, "--weight", "2", "--weight", "1"], catch_exceptions=False)
    (tmp_path / "merged" / "notes.txt").write_text("mine")
    with pytest.raises(UserError, match=r"holds notes\.txt, which no merge wrote"):
        CliRunner().invoke(app, words, catch_exceptions=False)
    assert sorted(path.name for path in tmp_path.iterdir() if path.name.startswith(".partial")) == []


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


# -- Every method against its formula, written again in numpy, on tiny random models ---------------------------------------


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    return save_models(tmp_path_factory.mktemp("models"), 4)


@pytest.fixture(scope="module")
def weights(models: list[Path]) -> list[Weights]:
    return [weights_of(model) for model in models]


def test_linear_is_the_weighted_mean(models: list[Path], weights: list[Weights], tmp_path: Path) -> None:
    found = merged(tmp_path / "out", method="linear", models=models[:3], weights=(0.2, 0.3, 0.5))
    a, b, c = weights[:3]
    assert_close(found, {name: 0.2 * a[name] + 0.3 * b[name] + 0.5 * c[name] for name in a})


@pytest.mark.parametrize("place", [0, 1])
def test_linear_with_all_weight_on_one_is_that_model_bit_for_bit(models: list[Path], place: int, tmp_path: Path) -> None:
    share = (1.0, 0.0) if place == 0 else (0.0, 1.0)
    merged(tmp_path / "out", method="linear", models=models[:2], weights=share)
    assert (tmp_path / "out/model.safetensors").read_bytes() == (models[place] / "model.safetensors").read_bytes()


@pytest.mark.parametrize("t", [0.0, 0.3, 1.0])
def test_slerp_follows_the_arc(models: list[Path], weights: list[Weights], t: float, tmp_path: Path) -> None:
    def arc(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        cosine = float((a * b).sum() / np.sqrt((a * a).sum() * (b * b).sum()))
        if abs(cosine) > 0.9995:
            return (1 - t) * a + t * b
        angle = np.arccos(cosine)
        return (np.sin((1 - t) * angle) * a + np.sin(t * angle) * b) / np.sin(angle)

    found = merged(tmp_path / "out", method="slerp", models=models[:2], t=t)
    assert_close(found, {name: arc(a, weights[1][name]) for name, a in weights[0].items()})


def test_task_arithmetic_adds_scaled_differences(models: list[Path], weights: list[Weights], tmp_path: Path) -> None:
    settings = {"method": "task-arithmetic", "models": models[1:3], "weights": (0.7, 0.4), "base": models[0], "scale": 0.5}
    base, a, b = weights[:3]
    wanted = {name: base[name] + 0.5 * (0.7 * (a[name] - base[name]) + 0.4 * (b[name] - base[name])) for name in base}
    assert_close(merged(tmp_path / "out", **settings), wanted)


@pytest.mark.parametrize("method", [method for method in Method if TRAITS[method].base])
def test_scale_zero_is_the_base_bit_for_bit(models: list[Path], method: Method, tmp_path: Path) -> None:
    merged(tmp_path / "out", method=method, models=models[1:3], base=models[0], scale=0.0)
    assert (tmp_path / "out/model.safetensors").read_bytes() == (models[0] / "model.safetensors").read_bytes()


def test_ties_trims_elects_and_takes_the_disjoint_mean(models: list[Path], weights: list[Weights], tmp_path: Path) -> None:
    density, shares = 0.3, (0.5, 0.2, 0.3)

    def trimmed(delta: np.ndarray) -> np.ndarray:
        keep = max(1, int(density * delta.size))
        threshold = np.sort(np.abs(delta), axis=None)[-keep]
        return np.where(np.abs(delta) >= threshold, delta, 0.0)

    def ties(base: np.ndarray, others: list[np.ndarray]) -> np.ndarray:
        deltas = [share * trimmed((other - base).astype(np.float32)) for share, other in zip(shares, others, strict=True)]
        elected = np.where(sum(deltas) >= 0, 1, -1)
        agree = [np.sign(delta) == elected for delta in deltas]
        total = sum(delta * mask for delta, mask in zip(deltas, agree, strict=True))
        divisor = sum(share * mask for share, mask in zip(shares, agree, strict=True))
        return base + total / np.where(divisor == 0, 1, divisor)

    settings = {"models": models[1:], "weights": shares, "base": models[0], "density": density}
    found = merged(tmp_path / "out", method="ties", **settings)
    assert_close(found, {name: ties(base, [other[name] for other in weights[1:]]) for name, base in weights[0].items()})


def test_dare_keeps_a_share_and_restores_the_sum(models: list[Path], weights: list[Weights], tmp_path: Path) -> None:
    found = merged(tmp_path / "out", method="dare-linear", models=models[1:2], weights=(1.0,), base=models[0], density=0.4)
    kept = total = 0
    for name, base in weights[0].items():
        delta = weights[1][name] - base
        if not delta.any():
            continue
        mask = np.abs(found[name] - base) > 1e-7
        factor = np.abs(delta).sum() / np.abs(delta * mask).sum()
        np.testing.assert_allclose(found[name], base + delta * mask * factor, rtol=1e-4, atol=1e-5, err_msg=name)
        kept, total = kept + int(mask.sum()), total + mask.size
    assert abs(kept / total - 0.4) < 0.02


def test_bfloat16_models_are_merged_in_float32(models: list[Path], tmp_path: Path) -> None:
    halves = []
    for seed in (1, 2):
        tiny_model(seed).to(torch.bfloat16).save_pretrained(tmp_path / f"half-{seed}")
        (tmp_path / f"half-{seed}/tokenizer.json").write_text("{}")
        halves.append(tmp_path / f"half-{seed}")
    settings = MergeSettings(method=Method.LINEAR, models=tuple(halves), weights=(0.3, 0.7))
    assert merge(settings, tmp_path / "out", "a test").dtype == "bfloat16"
    a, b = (load_file(half / "model.safetensors") for half in halves)
    for name, tensor in load_file(tmp_path / "out/model.safetensors").items():
        exact = 0.3 * a[name].double() + 0.7 * b[name].double()
        half_a_step = 2.0 ** (torch.floor(torch.log2(exact.abs())) - 8)
        assert tensor.dtype is torch.bfloat16
        assert bool(((tensor.double() - exact).abs() <= half_a_step * 1.001 + 1e-7).all()), f"{name} was rounded more than once"
