"""Tiny random models on disk, and their weights as float64 arrays."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file
from tiny_qwen3 import save_tiny

from sanderling.merge.run import merge
from sanderling.merge.settings import MergeSettings

needs_mergekit = pytest.mark.skipif(
    __import__("importlib.util", fromlist=["util"]).find_spec("mergekit") is None, reason="the extra [merge] is not installed"
)
Weights = dict[str, np.ndarray]


def weights_of(directory: Path) -> Weights:
    found: Weights = {}
    for file in sorted(directory.glob("*.safetensors")):
        found |= {name: array.astype(np.float64) for name, array in load_file(file).items()}
    return found


def save_models(root: Path, count: int = 3) -> list[Path]:
    return [save_tiny(root / f"model-{seed}", seed) for seed in range(count)]


def merged(out: Path, **settings: Any) -> Weights:
    merge(MergeSettings(**settings), out, "a test")
    return weights_of(out)


def assert_close(found: Weights, wanted: Weights) -> None:
    assert found.keys() == wanted.keys()
    for name, array in wanted.items():
        np.testing.assert_allclose(found[name], array, rtol=2e-5, atol=2e-6, err_msg=name)
