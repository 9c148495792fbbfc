"""A merge on the disk: whole or not at all, with a record, over shards, without a network."""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from merge_models import merged, needs_mergekit, save_models, weights_of
from safetensors.torch import load_file
from tiny_qwen3 import tiny_model

from sanderling.merge.run import read_merge
from sanderling.policy.model_directory import load_model

pytestmark = needs_mergekit

KILLED = """
import os, signal, sys
from pathlib import Path
from mergekit.io import tensor_writer
saved = 0
real = tensor_writer.TensorWriter.save_tensor
def save(self, *arguments, **more):
    global saved
    saved += 1
    if saved == 6:
        os.kill(os.getpid(), signal.SIGKILL)
    self.max_shard_size = 20_000
    real(self, *arguments, **more)
tensor_writer.TensorWriter.save_tensor = save
from sanderling.merge.run import merge
from sanderling.merge.settings import MergeSettings
merge(MergeSettings(method="linear", models=tuple(map(Path, sys.argv[2:]))), Path(sys.argv[1]), "killed")
"""


def snapshot(directory: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in sorted(directory.iterdir())}


def test_a_merge_that_is_killed_leaves_the_one_before_it(tmp_path: Path) -> None:
    models, out = save_models(tmp_path, 2), tmp_path / "out"
    merged(out, method="slerp", models=models, t=0.25)
    before = snapshot(out)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", KILLED, str(out), *map(str, models)], env=environment, check=False)
    assert done.returncode == -9
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
