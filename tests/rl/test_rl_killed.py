"""An asynchronous run that is killed ten times at random loses nothing that was finished."""

import asyncio
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
import warnings
from collections import Counter
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pytest
import rl_killed
from safetensors.numpy import load_file
from test_rl_real_policy import base as base  # the fixture

from sanderling.core.chat import load_tokenizer
from sanderling.rl.queue import Ledger
from sanderling.rl.rollouts import Actor, GroupStatus
from sanderling.rl.run import run_rl
from sanderling.train.checkpoint import CHECKPOINTS
from sanderling.train.metrics import read_metrics
from sanderling.train.rows import Encoding

pytestmark = pytest.mark.filterwarnings("ignore::sanderling.rl.run.HealthWarning")
KILLS = 10


def killed_at_random(base: Path, out: Path, kills: int) -> int:
    """Run to the end, killing it now and then; returns how often it was killed amid its work."""
    done, dice = 0, random.Random(5)
    while True:
        process = subprocess.Popen([sys.executable, rl_killed.__file__, str(base), str(out)], start_new_session=True)
        if done >= kills:
            assert process.wait(timeout=240) == 0
            return done
        lines = count(out)
        deadline = time.monotonic() + 120
        while count(out) <= lines + dice.randrange(4, 25) and process.poll() is None and time.monotonic() < deadline:
            time.sleep(dice.random() * 0.1)
        if process.poll() is not None:
            assert process.returncode == 0
            return done
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        done += 1


def count(out: Path) -> int:
    file = out / "said.jsonl"
    return file.read_bytes().count(b"\n") if file.exists() else 0


class Nobody:
    version = 0

    def training(self):
        return nullcontext()

    async def publish(self, weights, version: int) -> None:
        self.version = version


@pytest.mark.parametrize("wanted", [1, pytest.param(KILLS, marks=pytest.mark.slow)])
def test_kills_lose_nothing(base: Path, tmp_path: Path, wanted: int):
    out = tmp_path / "run"
    kills = killed_at_random(base, out, wanted)
    assert kills == wanted, "it ended before it could be killed so often"
    said = [json.loads(line) for line in (out / "said.jsonl").read_text().splitlines()]
    again = Counter((line["attempt"], line["turn"]) for line in said)
    # Between the end of a turn and its line in the journal a kill may strike: then this one turn is said again.
    assert sum(times - 1 for times in again.values()) <= kills

    ledger = Ledger(out)
    batches = ledger.batches()
    assert len(batches) == rl_killed.CONFIG.steps
    settled = [number for batch in batches for number in batch]
    assert len(settled) == len(set(settled))
    size = rl_killed.CONFIG.group_size
    for number in settled:
        assert sorted(ledger.ended(number)) == list(range(number * size, (number + 1) * size))
        for attempt, ended in ledger.ended(number).items():
            turns = [node for node in ended.trajectory.nodes if node.versions]
            assert {(attempt, turn) for turn in range(len(turns))} <= set(again), "every turn of the record was sampled"
    assert len(read_metrics(out / "metrics.jsonl")) == rl_killed.CONFIG.steps
    ended = [one.trajectory for number in settled for one in ledger.ended(number).values()]
    assert any(len({v for node in one.nodes for v in node.versions or ()}) > 1 for one in ended), "some lived through an update"
    assert any(status is GroupStatus.USED for batch in batches for status in batch.values())
    replayed(base, out)


def replayed(base: Path, out: Path) -> None:
    """The ledger alone gives the same weights."""
    theirs = load_file(out / "model" / "model.safetensors")
    shutil.rmtree(out / "model")
    shutil.rmtree(out / CHECKPOINTS)
    encoding = Encoding(load_tokenizer(base), rl_killed.PROFILE)

    def connect(model) -> Actor:
        return Actor(rl_killed.no_rollouts, Nobody())

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        asyncio.run(run_rl(rl_killed.CONFIG, rl_killed.QUESTIONS, connect, encoding, base, out))
    ours = load_file(out / "model" / "model.safetensors")
    assert all(np.array_equal(ours[name], theirs[name]) for name in theirs)
