"""An asynchronous run that is killed ten times at random loses nothing that was finished."""

import asyncio
import json
import random
import shutil
import time
import warnings
from collections import Counter
from contextlib import nullcontext
from datetime import date
from pathlib import Path

import numpy as np
import pytest
import rl_killed
import torch
from launcher import begun
from safetensors.numpy import load_file
from tiny_base import PHRASES

from sanderling.agent.agent import Agent
from sanderling.core.chat import load_tokenizer
from sanderling.core.profiles import TINY
from sanderling.core.record import Question, Seeds, turn_indices
from sanderling.core.types import FixedClock, Sampling
from sanderling.policy.transformers_policy import TransformersPolicy
from sanderling.rl.queue import Ledger
from sanderling.rl.rollouts import Actor, GroupStatus
from sanderling.rl.run import run_rl
from sanderling.rl.step import rl_rows
from sanderling.train.checkpoint import CHECKPOINTS, load_model
from sanderling.train.config import TrainerConfig
from sanderling.train.metrics import read_metrics
from sanderling.train.packing import TokenLogprobs
from sanderling.train.random_model import ModelShape, train_tokenizer, write_random_model
from sanderling.train.rows import Encoding
from sanderling.train.trainer import row_logprobs

pytestmark = pytest.mark.filterwarnings("ignore::sanderling.rl.run.HealthWarning")
KILLS = 10


def killed_at_random(base: Path, out: Path, kills: int) -> int:
    """Run to the end, killing it now and then; returns how often it was killed amid its work."""
    done, dice = 0, random.Random(5)
    while True:
        process = begun(rl_killed.main, base, out)
        if done >= kills:
            process.join(240)
            assert process.exitcode == 0
            return done
        lines = count(out)
        deadline = time.monotonic() + 120
        while count(out) <= lines + dice.randrange(4, 25) and process.is_alive() and time.monotonic() < deadline:
            time.sleep(dice.random() * 0.1)
        if not process.is_alive():
            assert process.exitcode == 0
            return done
        process.kill()
        process.join()
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


# -- The real policy, the real loop and the real trainer over one module: what was sampled is what is trained --------------

PROFILE = TINY.model_copy(update={"sampling": Sampling(temperature=0.8, max_tokens=12)})
TRAINER = TrainerConfig(lr=1e-3, temperature=0.8, entropy=True)
QUESTION = Question(id="q", text="Where is the tidal flat?", answers=("Oslo", "Bergen"))


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("models") / "base"
    texts = ["Where is the tidal flat? That is good enough. Oslo, Bergen, search and visit."] * 50
    shape = ModelShape(hidden=32, layers=2, heads=2, kv_heads=2, head_dim=16, intermediate=48)
    write_random_model(directory, train_tokenizer(texts, 420, PHRASES), shape, seed=1)
    return directory


@pytest.mark.parametrize("top_p", [1.0, 0.9])
def test_the_record_holds_log_probabilities_of_what_was_sampled_from(base: Path, top_p: float):
    """Where nothing is cut they are the trainer's own; of a nucleus they are its own less the log of its probability."""
    profile = PROFILE.model_copy(update={"sampling": PROFILE.sampling.model_copy(update={"top_p": top_p})})
    model, encoding = load_model(base).eval(), Encoding(load_tokenizer(base), profile)
    agent = Agent(TransformersPolicy(model, encoding.tokenizer), {}, profile, FixedClock(date(2026, 1, 1)))

    async def sample():
        return await asyncio.gather(*(agent.run(QUESTION, Seeds(run=0, attempt=attempt)) for attempt in range(6)))

    rows = [row for t in asyncio.run(sample()) for row in rl_rows(t, [1.0] * len(turn_indices(t)), encoding)]
    assert sum(row.loss_mask.sum() for row in rows) > 100
    for row, ours in zip(rows, row_logprobs(TokenLogprobs(model), rows, TRAINER), strict=True):
        assert row.sampler_logprobs is not None
        sampled = np.flatnonzero(row.loss_mask)
        with torch.no_grad():
            logits = model(torch.from_numpy(np.asarray(row.ids))[None].long()).logits[0, sampled - 1] / TRAINER.temperature
        chances = logits.softmax(-1).double().sort(descending=True).values
        kept = (chances * (chances.cumsum(-1) - chances < top_p)).sum(-1).numpy()
        np.testing.assert_allclose(ours[sampled] - np.log(kept), row.sampler_logprobs[sampled], atol=1e-4)
