"""Several processes, started here or by torchrun, end with what one ends with; killed, or out of disk, the command goes on."""

import os
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

from sanderling.train.checkpoint import checkpoints, last_step
from sanderling.train.metrics import read_metrics

pytestmark = pytest.mark.slow
ENV = {**os.environ, "OMP_NUM_THREADS": "1"}
TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]


@pytest.fixture(scope="module")
def given(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("given")
    write_base(place / "base")
    write_data(place / "data.jsonl")
    write_settings(place / "settings.toml")
    (place / "command.py").write_text(RUN, encoding="utf-8")
    return place


@pytest.fixture(scope="module")
def alone(given: Path) -> Path:
    """The model that one process ends with."""
    command(*arguments(given, given / "alone", "--set", "save_every=1", "--set", "keep=9"))
    return given / "alone"


def arguments(given: Path, out: Path, *more: object) -> list[str]:
    found = [given / "data.jsonl", "--model", given / "base", "--recipe", given / "settings.toml", "--out", out, *more]
    return [str(one) for one in found]


def same(ours: Path, theirs: Path, atol: float = 1e-5) -> None:
    a, b = weights(ours), weights(theirs)
    assert a.keys() == b.keys()
    for name in b:
        np.testing.assert_allclose(a[name], b[name], atol=atol, rtol=0)


@pytest.mark.parametrize("parallel", ["kind=fsdp", "kind=replicate", "context=2"])
def test_two_processes_end_with_the_weights_of_one(given: Path, alone: Path, tmp_path: Path, parallel: str) -> None:
    done = command(*arguments(given, tmp_path / "run", "--processes", 2, "--set", f"parallel.{parallel}"))
    same(tmp_path / "run" / "model", alone / "model")
    assert done.stderr == "" and done.stdout.count("The model is in") == 1
    assert [line["step"] for line in read_metrics(tmp_path / "run" / "metrics.jsonl")] == [1, 2, 3, 4, 5, 6]


def test_torchrun_starts_them_as_well(given: Path, alone: Path, tmp_path: Path) -> None:
    done = torchrun(given, *arguments(given, tmp_path / "run"))
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("The model is in") == 1, "rank 0 speaks"
    same(tmp_path / "run" / "model", alone / "model")
    done = torchrun(given, *arguments(given, tmp_path / "run", "--set", "trainer.lr=1"))
    assert done.returncode and done.stderr.count("error:") == 1 and "trainer.lr was 0.01 and is 1.0" in done.stderr


def torchrun(given: Path, *more: str) -> subprocess.CompletedProcess[str]:
    line = [*TORCHRUN, str(given / "command.py"), "train", "sft", *more]
    return subprocess.run(line, capture_output=True, text=True, timeout=600, env=ENV, check=False)


def test_a_run_goes_on_in_another_layout(given: Path, alone: Path, tmp_path: Path) -> None:
    """Two shards stop in the middle, one process goes on."""
    command(*arguments(given, tmp_path / "run", "--processes", 2, "--set", "save_every=1", "--set", "keep=9"))
    shutil.rmtree(tmp_path / "run" / "model")
    for step in (4, 5):
        shutil.rmtree(tmp_path / "run" / "checkpoints" / f"step_{step:08d}")
    assert "Goes on after step 3." in command(*arguments(given, tmp_path / "run")).stdout
    same(tmp_path / "run" / "model", alone / "model")


def test_a_full_disk_is_one_sentence_and_the_last_checkpoint_goes_on(given: Path, alone: Path, tmp_path: Path) -> None:
    out, more = tmp_path / "run", ["--set", "save_every=1", "--set", "keep=9"]
    shutil.copytree(alone, out)
    shutil.rmtree(out / "model")
    for last in checkpoints(out / "checkpoints")[2:]:
        shutil.rmtree(last)
    limited = ["bash", "-c", 'ulimit -f 64; exec "$@"', "bash", sys.executable, "-c", RUN, "train", "sft"]
    line = [*limited, *arguments(given, out, *more)]
    full = subprocess.run(line, capture_output=True, text=True, timeout=600, check=False, env=ENV)
    assert full.returncode == 2 and full.stderr.count("\n") == 1 and "free some space" in full.stderr, full.stderr
    assert last_step(out / "checkpoints") == 2 and not list((out / "checkpoints").glob(".partial-step*"))
    command(*arguments(given, out, *more))
    same(out / "model", alone / "model", atol=0)


# -- one of several processes is killed --------------------------------------------------------------------------------------


def descendants(pid: int) -> list[int]:
    children = [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    return [*children, *(deeper for child in children for deeper in descendants(child))]


def second_worker(pid: int) -> int:
    return [c for c in descendants(pid) if b"spawn_main" in Path(f"/proc/{c}/cmdline").read_bytes()][1]


def second_of_torchrun(pid: int) -> int:
    return next(c for c in descendants(pid) if b"\0RANK=1\0" in b"\0" + Path(f"/proc/{c}/environ").read_bytes())


@pytest.mark.parametrize(
    ("launch", "victim", "told"),
    [
        ([sys.executable, "-c", RUN], second_worker, "run the same command again"),
        (TORCHRUN, second_of_torchrun, "exitcode: -9"),
    ],
    ids=["here", "torchrun"],
)
def test_the_others_end_at_once(
    given: Path, tmp_path: Path, launch: list[str], victim: Callable[[int], int], told: str
) -> None:
    out, more = tmp_path / "run", ["--set", "epochs=400", "--set", "max_steps=100", "--set", "save_every=5"]
    script = [] if victim is second_worker else [str(given / "command.py")]
    line = [*launch, *script, "train", "sft", *arguments(given, out, *more), *([] if script else ["--processes", "2"])]
    process = subprocess.Popen(line, stderr=subprocess.PIPE, text=True, env=ENV)
    try:
        while not (out / "metrics.jsonl").is_file() or len(read_metrics(out / "metrics.jsonl")) < 8:
            assert process.poll() is None, process.communicate()[1]
            time.sleep(0.1)
        os.kill(victim(process.pid), signal.SIGKILL)
        said = process.communicate(timeout=60)[1]  # without a word it would be two hours
    finally:
        for one in (*descendants(process.pid), process.pid) if process.poll() is None else ():
            os.kill(one, signal.SIGKILL)
    assert process.returncode != 0 and told in said, said
    if not script:
        again = subprocess.run(line, capture_output=True, text=True, timeout=300, env=ENV, check=True)
        assert again.stderr == ""
        assert [line["step"] for line in read_metrics(out / "metrics.jsonl")] == list(range(1, 101))
