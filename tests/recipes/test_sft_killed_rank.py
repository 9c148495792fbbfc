"""One of several processes is killed: the others end at once with a sentence, and the same command goes on."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from sft_runs import RUN, write_base, write_data, write_settings

from sanderling.train.metrics import read_metrics

pytestmark = pytest.mark.slow


@pytest.fixture
def arguments(tmp_path: Path) -> list[str]:
    write_base(tmp_path / "base")
    write_data(tmp_path / "data.jsonl")
    write_settings(tmp_path / "settings.toml")
    given = [tmp_path / "data.jsonl", "--model", tmp_path / "base", "--recipe", tmp_path / "settings.toml"]
    return [
        str(one)
        for one in (*given, "--out", tmp_path / "run", "--set", "epochs=400", "--set", "max_steps=200", "--set", "save_every=5")
    ]


def started(launch: list[str]) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, *launch], stderr=subprocess.PIPE, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"}
    )


def descendants(pid: int) -> list[int]:
    children = [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    return [*children, *(deeper for child in children for deeper in descendants(child))]


def told(pid: int, what: str) -> str:
    return Path(f"/proc/{pid}/{what}").read_bytes().replace(b"\0", b" ").decode()


def ended_by_the_kill_of(victim: Callable[[int], int], process: subprocess.Popen[str], out: Path) -> str:
    """What a command says that is killed in part as soon as it has saved a checkpoint; its steps stay."""
    try:
        while not (out / "metrics.jsonl").is_file() or len(read_metrics(out / "metrics.jsonl")) < 8:
            assert process.poll() is None, process.communicate()[1]
            time.sleep(0.1)
        os.kill(victim(process.pid), signal.SIGKILL)
        said = process.communicate(timeout=60)[1]  # without a word it would be two hours
    finally:
        for one in (*descendants(process.pid), process.pid) if process.poll() is None else ():
            os.kill(one, signal.SIGKILL)
    assert process.returncode != 0
    return said


def test_of_processes_started_here(arguments: list[str], tmp_path: Path) -> None:
    def second(pid: int) -> int:
        return [child for child in descendants(pid) if "spawn_main" in told(child, "cmdline")][1]

    process = started(["-c", RUN, "train", "sft", *arguments, "--processes", "2"])
    said = ended_by_the_kill_of(second, process, tmp_path / "run")
    assert "killed" in said and "run the same command again" in said and said.count("\n") == 1, said
    again = started(["-c", RUN, "train", "sft", *arguments, "--processes", "2"])
    assert again.communicate(timeout=300)[1] == "" and again.returncode == 0
    assert [line["step"] for line in read_metrics(tmp_path / "run" / "metrics.jsonl")] == list(range(1, 201))


def test_of_processes_of_torchrun(arguments: list[str], tmp_path: Path) -> None:
    def second(pid: int) -> int:
        return next(child for child in descendants(pid) if " RANK=1 " in f" {told(child, 'environ')} ")

    script = tmp_path / "command.py"
    script.write_text(RUN, encoding="utf-8")
    launch = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", str(script), "train", "sft"]
    said = ended_by_the_kill_of(second, started([*launch, *arguments]), tmp_path / "run")
    assert "exitcode: -9" in said, said  # torchrun's own report; rank 0 may have had time for a sentence before it was ended
