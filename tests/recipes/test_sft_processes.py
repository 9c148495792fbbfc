"""Several processes, started here or by torchrun, end with what one process ends with, and rank 0 alone writes and speaks."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from sft_runs import RUN, command, weights, write_base, write_data, write_settings

from sanderling.train.metrics import read_metrics

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def given(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("given")
    write_base(place / "base")
    write_data(place / "data.jsonl")
    write_settings(place / "settings.toml")
    return place


def arguments(given: Path, out: Path, *more: object) -> list[object]:
    return [given / "data.jsonl", "--model", given / "base", "--recipe", given / "settings.toml", "--out", out, *more]


@pytest.fixture(scope="module")
def alone(given: Path) -> Path:
    command(*arguments(given, given / "alone"))
    return given / "alone"


def same(ours: Path, theirs: Path) -> None:
    a, b = weights(ours), weights(theirs)
    assert a.keys() == b.keys()
    for name in b:
        np.testing.assert_allclose(a[name], b[name], atol=1e-5, rtol=0)


@pytest.mark.parametrize("parallel", ["kind=fsdp", "kind=replicate", "context=2"])
def test_two_processes_end_with_the_weights_of_one(given: Path, alone: Path, tmp_path: Path, parallel: str) -> None:
    done = command(*arguments(given, tmp_path / "run", "--processes", 2, "--set", f"parallel.{parallel}"))
    same(tmp_path / "run" / "model", alone / "model")
    assert done.stderr == "" and done.stdout.count("The model is in") == 1
    assert [line["step"] for line in read_metrics(tmp_path / "run" / "metrics.jsonl")] == [1, 2, 3, 4, 5, 6]


def test_torchrun_starts_them_as_well(given: Path, alone: Path, tmp_path: Path) -> None:
    script = tmp_path / "command.py"
    script.write_text(RUN, encoding="utf-8")
    done = torchrun(script, *arguments(given, tmp_path / "run"))
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("The model is in") == 1, "rank 0 speaks"
    same(tmp_path / "run" / "model", alone / "model")
    done = torchrun(script, *arguments(given, tmp_path / "run", "--set", "trainer.lr=1"))
    assert done.returncode and done.stderr.count("error:") == 1 and "trainer.lr 0.01, now 1.0" in done.stderr


def torchrun(script: Path, *more: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", script,
         "train", "sft", *map(str, more)],
        capture_output=True, text=True, timeout=600, env={**os.environ, "OMP_NUM_THREADS": "1"}, check=False,
    )  # fmt: skip


def test_a_run_goes_on_in_another_layout(given: Path, alone: Path, tmp_path: Path) -> None:
    """Two shards stop in the middle, one process goes on."""
    first = arguments(given, tmp_path / "run", "--processes", 2, "--set", "save_every=1", "--set", "keep=9")
    command(*first)
    shutil.rmtree(tmp_path / "run" / "model")
    for step in (4, 5):
        shutil.rmtree(tmp_path / "run" / "checkpoints" / f"step_{step:08d}")
    done = command(*arguments(given, tmp_path / "run"))
    assert "Goes on after step 3." in done.stdout
    same(tmp_path / "run" / "model", alone / "model")


def test_adapters_of_two_shards_are_those_of_one_process(given: Path, tmp_path: Path) -> None:
    more = ("--set", "lora.rank=4", "--merge")
    command(*arguments(given, tmp_path / "one", *more))
    command(*arguments(given, tmp_path / "two", *more, "--processes", 2))
    same(tmp_path / "two" / "adapter", tmp_path / "one" / "adapter")
    same(tmp_path / "two" / "model", tmp_path / "one" / "model")
