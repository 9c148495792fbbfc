"""An asynchronous RL run over the real policy and loop, to be killed.

``OUT/said.jsonl`` gets a line for every turn that was sampled to its end, in whichever process.
"""

import asyncio
import json
import os
from datetime import date
from pathlib import Path

import torch

from sanderling.agent.agent import Agent
from sanderling.agent.journal import Journal
from sanderling.core.chat import load_tokenizer
from sanderling.core.profiles import TINY, Guards
from sanderling.core.record import Question, Seeds, Trajectory
from sanderling.core.types import FixedClock, Sampling
from sanderling.policy.contract import WrappedPolicy
from sanderling.policy.transformers_policy import TransformersPolicy
from sanderling.policy.weight_sync import Copying, copied
from sanderling.rl.config import PipelineConfig, RlConfig
from sanderling.rl.rollouts import Actor, Ask
from sanderling.rl.run import run_rl
from sanderling.train.config import TrainerConfig
from sanderling.train.rows import Encoding

PROFILE = TINY.model_copy(
    update={"sampling": Sampling(temperature=0.8, max_tokens=16), "guards": Guards(max_retries=0, max_malformed=6)}
)
QUESTIONS = [Question(id=f"q{i}", text=f"Where is tidal flat {i}?", answers=("Oslo",)) for i in range(5)]
CONFIG = RlConfig(
    trainer=TrainerConfig(lr=1e-3, temperature=0.8, entropy=True), steps=12, questions_per_step=2, group_size=3,
    save_every=5, seed=2, pipeline=PipelineConfig(max_staleness=2),
)  # fmt: skip


class Told(WrappedPolicy):
    """Writes down which turns were sampled."""

    def __init__(self, policy, file: Path, attempt: int) -> None:
        super().__init__(policy)
        self.file, self.attempt = file, attempt

    def open(self, key):
        return _ToldSession(self._policy.open(key), self.file, self.attempt)


class _ToldSession:
    def __init__(self, session, file: Path, attempt: int) -> None:
        self.session, self.file, self.attempt = session, file, attempt

    async def generate(self, delta, sampling, key, on_text=None):
        completion = await self.session.generate(delta, sampling, key, on_text)
        line = {"attempt": self.attempt, "turn": key.turn, "process": os.getpid(), "versions": completion.versions}
        with self.file.open("a") as file:
            file.write(json.dumps(line) + "\n")
        return completion

    def __getattr__(self, name: str):
        return getattr(self.session, name)


async def no_rollouts(ask: Ask) -> Trajectory:
    raise AssertionError(f"attempt {ask.attempt} was made again")


def main(model: Path, out: Path) -> None:
    """Run to the end."""
    torch.set_num_threads(1)
    out.mkdir(exist_ok=True)
    tokenizer = load_tokenizer(model)
    with Journal(out / "journal", across_versions=True) as journal:

        def connect(module) -> Actor:
            policy = TransformersPolicy(copied(module), tokenizer)

            async def rollout(ask: Ask) -> Trajectory:
                await asyncio.sleep(0.01 * (ask.attempt % 7))
                return await Agent(
                    Told(policy, out / "said.jsonl", ask.attempt), {}, PROFILE, FixedClock(date(2026, 1, 1))
                ).run(
                    ask.question,
                    Seeds(run=2, episode=ask.seed, attempt=ask.attempt),
                    journal=journal,
                    finish_early=ask.finish_early,
                )

            return Actor(rollout, Copying(policy), journal.stored)

        asyncio.run(run_rl(CONFIG, QUESTIONS, connect, Encoding(tokenizer, PROFILE), model, out))
