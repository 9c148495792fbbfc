"""`train rl` in a process of its own: interrupted or killed at any moment, the same command ends with the same weights."""

import signal
import time
from pathlib import Path

import numpy as np
import pytest
from rl_runs import arguments, command, started, write_given
from sft_runs import weights

from sanderling.train.metrics import read_metrics

pytestmark = pytest.mark.slow
LONGER = ("--set", "rl.steps=8", "--set", "rl.save_every=3")


@pytest.fixture(scope="module")
def given(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_given(tmp_path_factory.mktemp("given"))


@pytest.fixture(scope="module")
def alone(given: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, np.ndarray]:
    """The weights of a run that was let alone."""
    out = tmp_path_factory.mktemp("alone") / "out"
    _, said, _ = command(*arguments(given, out, *LONGER))
    assert "6 questions, 2 a step with 2 rollouts each, 8 steps" in said and "The model is in" in said
    assert "reward 0.00" in said and "signal 0%" in said and "age 0.0" in said
    return weights(out / "model")


def steps(out: Path) -> int:
    return len(read_metrics(out / "metrics.jsonl"))


def ended(given: Path, out: Path, with_signal: int, when: int) -> tuple[int, str]:
    """Exit status and last words of a run that met a signal once so many steps were done."""
    process = started(*arguments(given, out, *LONGER))
    began = time.monotonic()
    while steps(out) < when:
        assert process.poll() is None and time.monotonic() - began < 120, "it ended before it was stopped"
        time.sleep(0.005)
    process.send_signal(with_signal)
    _, err = process.communicate(timeout=120)
    return process.returncode, err


def test_ctrl_c_leaves_a_run_that_goes_on(given: Path, tmp_path: Path, alone: dict[str, np.ndarray]):
    status, err = ended(given, tmp_path / "out", signal.SIGINT, 2)
    assert status == 130 and "the same command without --fresh goes on" in err, err
    assert "Traceback" not in err, err
    command(*arguments(given, tmp_path / "out", *LONGER))
    ours = weights(tmp_path / "out" / "model")
    assert all(np.array_equal(ours[name], alone[name]) for name in alone)


def test_what_is_refused_ends_with_status_2(given: Path, tmp_path: Path):
    status, _, err = command(*arguments(given, tmp_path / "out", "--set", "rl.group_size=zero"), check=False)
    assert status == 2 and err.startswith("error: In ") and "rl.group_size" in err
