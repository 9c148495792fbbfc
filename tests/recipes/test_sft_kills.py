"""Killed ten times at random, while saving too, and met by a full disk: the weights are those of a run that was let alone."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from sft_runs import RUN, command, weights, write_base, write_data, write_settings

from sanderling.train.sft.schedule import checkpoints, last_step

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
