"""Every method against its formula, written again in numpy, on tiny random models."""

from pathlib import Path

import numpy as np
import pytest
import torch
from merge_models import Weights, assert_close, merged, needs_mergekit, save_models, weights_of
from safetensors.torch import load_file
from tiny_qwen3 import tiny_model

from sanderling.merge.run import merge
from sanderling.merge.settings import TRAITS, MergeSettings, Method

pytestmark = needs_mergekit


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
