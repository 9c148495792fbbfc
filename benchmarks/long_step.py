"""Information gain as a share of a whole step of RL whose rollouts are long: sampling, gains, log-probabilities, update.

    OMP_NUM_THREADS=1 PYTHONPATH=src python benchmarks/long_step.py            # 64K tokens in 200 turns: half an hour or more
    OMP_NUM_THREADS=1 PYTHONPATH=src python benchmarks/long_step.py --quick    # 4K in 20 turns; nothing is written

The model and probes of `information_gain.py`. A group's rollouts are sampled at once by the in-process engine, which keeps
their keys and values: each turn reads as many tokens of an observation as a recorded turn of DR-Venus does beside what it
samples (800 to 280), all random, until the context is as long as wanted. Every rollout differs from its first observation on,
so nothing is shared between them, in training as little as while they are sampled. Then all gains are measured at all turns, by
themselves, and the trajectories' own log-probabilities; and an optimizer step is made over the sampled tokens. Processor
seconds of one thread. Tools take no time here, and no share: on a device that waits for them a share of its *busy* time is what
this is.
"""

import argparse
import asyncio
import json
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import torch
from information_gain import ANSWER, PROBE, SHAPE, model

from sanderling.core.types import Sampling
from sanderling.policy.contract import Delta, SampleKey
from sanderling.policy.transformers_policy import TransformersPolicy
from sanderling.rl.losses import PpoConfig, build_loss
from sanderling.runs.progress import command_line, machine
from sanderling.train.config import TrainerConfig
from sanderling.train.packing import TokenLogprobs
from sanderling.train.rows import Row, ScoreRequest
from sanderling.train.scorer import ModelScorer
from sanderling.train.trainer import Trainer, row_logprobs

FILE = Path(__file__).parent / "results" / "long_step.json"
SAID_SHARE = 280 / 1080
"""Of a turn's tokens, those that are sampled."""


class Numbers:
    """Ids are their own text, and none ends a turn: each samples all that it may."""

    fingerprint = "numbers"
    vocab_size = SHAPE["vocab_size"]

    def encode(self, text: str) -> list[int]:
        return [int(word) for word in text.split()]

    def decode(self, ids: Sequence[int]) -> str:
        return " ".join(map(str, ids))

    def token_id(self, token: str) -> int:
        return SHAPE["vocab_size"] + 1


def timed(work: Callable[[], Any]) -> tuple[float, Any]:
    """Processor seconds, and what came out."""
    began = time.process_time()
    found = work()
    return time.process_time() - began, found


async def rollout(policy: TransformersPolicy, attempt: int, tokens: int, turns: int) -> tuple[Row, list[int]]:
    """One trajectory as a row, and where its turns end."""
    dice, each = np.random.default_rng(attempt), tokens // turns
    said = round(each * SAID_SHARE)
    ids: list[int] = []
    logprobs: list[float] = []
    trained: list[bool] = []
    ends: list[int] = []
    session = policy.open(SampleKey(seed=0, question="q", attempt=attempt, turn=0))
    for turn in range(turns):
        read = dice.integers(0, SHAPE["vocab_size"], each - said).tolist()
        key = SampleKey(seed=0, question="q", attempt=attempt, turn=turn)
        done = await session.generate(Delta((), tuple(read)), Sampling(temperature=1.0, max_tokens=said), key)
        own, probable = done.token_ids or (), done.logprobs or ()
        ids += [*read, *own]
        logprobs += [*([0.0] * len(read)), *probable]
        trained += [*([False] * len(read)), *([True] * len(own))]
        ends.append(len(ids))
    session.close()
    row = Row(
        np.array(ids),
        np.array(trained),
        advantages=np.full(len(ids), 1.0 if attempt % 2 else -1.0),
        sampler_logprobs=np.array(logprobs),
        trajectory=str(attempt),
    )
    return row, ends


def step(rollouts: int, tokens: int, turns: int) -> dict[str, Any]:
    """Seconds of each part, and the shares that gains are."""
    net = model()
    policy = TransformersPolicy(net, Numbers(), max_batch=rollouts)

    async def sampled() -> list[tuple[Row, list[int]]]:
        return list(await asyncio.gather(*(rollout(policy, attempt, tokens, turns) for attempt in range(rollouts))))

    sampling, made = timed(lambda: asyncio.run(sampled()))
    rows = [row for row, _ in made]
    probe = np.random.default_rng(9).integers(0, SHAPE["vocab_size"], PROBE + ANSWER).tolist()
    requests = [
        ScoreRequest(row.ids.tolist(), ends, [probe] * len(ends), [(PROBE, PROBE + ANSWER)] * len(ends)) for row, ends in made
    ]
    config = TrainerConfig(micro_batch_tokens=1)
    scorer = ModelScorer(net, config)
    with torch.inference_mode():
        gains, _ = timed(lambda: scorer.score_many(requests))
        own, found = timed(lambda: row_logprobs(TokenLogprobs(net), rows, config))
    gap = max(float(np.abs(one - row.sampler_logprobs)[row.loss_mask].max()) for one, row in zip(found, rows, strict=True))
    update, _ = timed(lambda: Trainer(net, TrainerConfig(micro_batch_tokens=1)).step(rows, build_loss(PpoConfig())))
    return {
        "rollouts": rollouts, "tokens": tokens, "turns": turns, "sampled_tokens": int(sum(row.loss_mask.sum() for row in rows)),
        "seconds": {"sampling": sampling, "gains": gains, "own": own, "update": update},
        "gains_of_step": gains / (sampling + gains + update),
        "largest_gap_to_sampler_nats": gap,
    }  # fmt: skip


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="4K tokens in 20 turns; nothing is written")
    parser.add_argument("--rollouts", type=int, default=8)
    parser.add_argument("--tokens", type=int, default=65_536)
    parser.add_argument("--turns", type=int, default=200)
    given = parser.parse_args()
    torch.set_num_threads(1)
    found = step(given.rollouts, *((4_096, 20) if given.quick else (given.tokens, given.turns)))
    about = {
        "command": command_line(), "machine": machine(), "date": f"{datetime.now(UTC):%Y-%m-%d}", "torch": torch.__version__,
        "timer": "processor seconds of one thread", **found,
    }  # fmt: skip
    print(json.dumps(about, indent=1))
    if not given.quick:
        FILE.write_text(json.dumps(about, indent=1) + "\n")


if __name__ == "__main__":
    main()
