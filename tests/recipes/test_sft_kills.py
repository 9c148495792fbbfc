"""Killed ten times at random, while saving too, and met by a full disk: the weights are those of a run that was let alone."""

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from sft_runs import RUN, command, weights, write_base, write_data, write_settings

from sanderling.train.checkpoint_places import checkpoints, last_step
from sanderling.train.metrics import read_metrics

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def given(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("given")
    write_base(place / "base")
    write_data(place / "data.jsonl")
    write_settings(place / "settings.toml")
    return place


def arguments(given: Path, out: Path, *more: object) -> list[str]:
    found = [given / "data.jsonl", "--model", given / "base", "--recipe", given / "settings.toml", "--out", out, *more]
    return [str(one) for one in found]


def same_bits(ours: Path, theirs: Path) -> None:
    a, b = weights(ours), weights(theirs)
    assert a.keys() == b.keys() and all(np.array_equal(a[name], b[name]) for name in b)


def saving(root: Path) -> bool:
    return root.is_dir() and any(path.name.startswith(".partial-step") for path in root.iterdir())


def killed(given: Path, out: Path, when: Callable[[], bool], more: list[str]) -> None:
    """The command, killed with all its files as they are as soon as ``when`` holds."""
    victim = subprocess.Popen(
        [sys.executable, "-c", RUN, "train", "sft", *arguments(given, out, *more)],
        stdout=subprocess.DEVNULL, env={**os.environ, "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    try:
        while not when():
            assert victim.poll() is None, "it ended before it was killed"
    finally:
        victim.send_signal(signal.SIGKILL)
        victim.wait()


@pytest.mark.parametrize(("lora", "kills"), [(0, 10), (4, 3)])
def test_ten_kills_at_random_change_no_bit(given: Path, tmp_path: Path, lora: int, kills: int) -> None:
    more = ["--set", "epochs=20", "--set", "save_every=1", "--set", f"lora.rank={lora}"]
    out, root, rng = tmp_path / "killed", tmp_path / "killed" / "checkpoints", random.Random(lora)
    command(*arguments(given, tmp_path / "straight", *more))
    for kill in range(kills):
        step = last_step(root) + rng.randint(1, 3)
        delay = rng.random() * 0.1

        def reached(step: int = step, delay: float = delay, kill: int = kill) -> bool:
            if last_step(root) < step:
                return False
            if kill % 2:
                return saving(root)
            time.sleep(delay)
            return True

        killed(given, out, reached, more)
        assert not (out / "model").exists() and not (out / "adapter").exists()
    step = last_step(root)
    assert f"Goes on after step {step}." in command(*arguments(given, out, *more)).stdout
    final = "adapter" if lora else "model"
    same_bits(out / final, tmp_path / "straight" / final)
    logs = [read_metrics(tmp_path / run / "metrics.jsonl") for run in ("killed", "straight")]
    assert [(line["step"], line["loss"]) for line in logs[0]] == [(line["step"], line["loss"]) for line in logs[1]]
    assert len(checkpoints(root)) == 1 and not saving(root), "remains of kills are gone"


def test_a_full_disk_is_one_sentence_and_the_last_checkpoint_goes_on(given: Path, tmp_path: Path) -> None:
    more = ["--set", "save_every=1", "--set", "keep=9"]
    command(*arguments(given, tmp_path / "straight", *more))
    out = tmp_path / "run"
    shutil.copytree(tmp_path / "straight", out)
    shutil.rmtree(out / "model")
    for last in checkpoints(out / "checkpoints")[2:]:
        shutil.rmtree(last)
    limited = ["bash", "-c", 'ulimit -f 64; exec "$@"', "bash", sys.executable, "-c", RUN, "train", "sft"]
    full = subprocess.run(
        [*limited, *arguments(given, out, *more)],
        capture_output=True, text=True, timeout=600, check=False, env={**os.environ, "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    assert full.returncode == 2 and full.stderr.count("\n") == 1 and "free some space" in full.stderr, full.stderr
    assert last_step(out / "checkpoints") == 2 and not saving(out / "checkpoints")
    command(*arguments(given, out, *more))
    same_bits(out / "model", tmp_path / "straight" / "model")
