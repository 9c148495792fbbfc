"""The smallest thing that RL can train, one token an episode, for the tests of runs, of several ranks and of kills."""

import asyncio
import json
from contextlib import asynccontextmanager, nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.numpy import load_file
from train_records import PROFILE, WordTokenizer, record

from sanderling.core.record import Question, Trajectory
from sanderling.core.types import Ending
from sanderling.policy.weight_sync import copied, copy_into
from sanderling.rl.config import RlConfig
from sanderling.rl.credit import GrpoConfig
from sanderling.rl.rollouts import Actor, Ask, DenoiseConfig
from sanderling.rl.run import run_rl
from sanderling.train.config import TrainerConfig
from sanderling.train.rows import Encoding

QUESTIONS = [Question(id=f"q{i}", text="?", answers=("Oslo",)) for i in range(3)]
CONFIG = RlConfig(
    trainer=TrainerConfig(lr=3e-3, entropy=True), denoise=DenoiseConfig(outage_wait_s=0.0),
    estimator=GrpoConfig(penalty_weight=0.0), steps=6, questions_per_step=2, group_size=6, save_every=2, seed=4,
)  # fmt: skip


class Bandit:
    """One turn of one sampled token, which is right when its id is even: all that a policy needs to be trained."""

    def __init__(self, model, fail_at: int | None = None, outage: int | None = None) -> None:
        self.model, self.version, self.attempts, self.seeds = model, 0, [], {}
        self.fail_at, self.outage = fail_at, outage

    def training(self):
        return nullcontext()

    async def publish(self, weights, version: int) -> None:
        self.version = version

    async def rollout(self, ask: Ask):
        question, seed, attempt = ask.question, ask.seed, ask.attempt
        self.attempts.append(attempt)
        self.seeds.setdefault((question.id, attempt // CONFIG.group_size), set()).add(seed)
        await asyncio.sleep(0)
        if attempt == self.fail_at:
            raise RuntimeError("killed here")
        base = record("sva", name=f"{question.id}-{attempt}", question=question.id, version=self.version)
        before = [i for node in base.nodes[:-1] for i in node.token_ids]
        with torch.inference_mode():
            logprobs = self.model(input_ids=torch.tensor([before])).logits[0, -1].log_softmax(-1)
        token = int(
            np.random.default_rng(attempt).choice(
                len(logprobs), p=logprobs.exp().double().numpy() / logprobs.exp().double().sum().item()
            )
        )
        answer = "Oslo" if token % 2 == 0 else "Bergen"
        turn = base.nodes[-1].model_copy(
            update={
                "token_ids": (token,), "logprobs": (float(logprobs[token]),), "versions": (self.version,),
                "answer": answer, "text": f"t</think><answer>{answer}</answer>",
            }
        )  # fmt: skip
        # Only the last turn is the policy's own doing; the other two are frozen by their mask.
        nodes = [
            n.model_copy(update={"loss_mask": (False,) * len(n.token_ids)}) if n.kind == "turn" else n for n in base.nodes[:-1]
        ]
        ending = Ending.TOOL_OUTAGE if attempt == self.outage else Ending.ANSWERED
        return base.model_copy(update={"question": question, "nodes": (*nodes, turn), "answer": answer, "ending": ending})


def train(config: RlConfig, base: Path, out: Path, bandits: list | None = None, **bandit):
    def connect(model) -> Actor:
        actor = Bandit(model, **bandit)
        if bandits is not None:
            bandits.append(actor)
        return Actor(actor.rollout, actor)

    return asyncio.run(run_rl(config, QUESTIONS, connect, Encoding(WordTokenizer(), PROFILE), base, out))


def credit_of(out: Path) -> dict[int, list]:
    """Of each step, what turns were credited with."""
    return {int(file.stem): [json.loads(line) for line in file.open()] for file in sorted((out / "credit").iterdir())}


def weights(out: Path):
    return load_file(out / "model" / "model.safetensors")


class Slow(Bandit):
    """Samples with a copy, takes its time, for some rollouts a hundred times longer, and counts who trains and who samples."""

    def __init__(self, model, pace: float = 0.001, **settings) -> None:
        super().__init__(copied(model), **settings)
        self.pace = pace
        self.under_way = self.most_under_way = self.begun_while_training = self.awake_while_training = 0
        self.hurried: list[int] = []
        self.at_updates: list[int] = []
        """How many rollouts are under way while the weights change."""
        self.trains = False

    async def publish(self, weights, version: int) -> None:
        self.at_updates.append(self.under_way)
        await super().publish(weights, version)
        copy_into(self.model, weights)

    @asynccontextmanager
    async def training(self):
        self.trains = True
        yield
        self.trains = False

    async def rollout(self, ask: Ask) -> Trajectory:
        self.under_way += 1
        self.begun_while_training += self.trains
        self.most_under_way = max(self.under_way, self.most_under_way)
        try:
            trajectory = await super().rollout(ask)
            times = np.random.default_rng(ask.attempt).pareto(1.0)
            for _ in range(min(60, int(10 * times))):
                if ask.finish_early.is_set():
                    self.hurried.append(ask.attempt)
                    break
                await asyncio.sleep(self.pace)
                self.awake_while_training += self.trains
            return trajectory
        finally:
            self.under_way -= 1


def changed(config: RlConfig, **changes) -> RlConfig:
    return RlConfig.model_validate({**config.model_dump(), **changes})


def run(
    config: RlConfig, base: Path, out: Path, kind: type[Bandit] = Slow, held_out=(), score=None, forget=None, **settings
) -> Any:
    """A run by such actors; the one that connected."""
    actors: list[Any] = []

    def connect(model) -> Actor:
        actors.append(kind(model, **settings))
        more = {} if forget is None else {"forget": forget}
        return Actor(actors[0].rollout, actors[0], score=score, **more)

    encoding = Encoding(WordTokenizer(), PROFILE)
    asyncio.run(run_rl(config, QUESTIONS, connect, encoding, base, out, held_out=held_out))
    return actors[0]


async def by_token(trajectory: Trajectory) -> float:
    """Finer than right or wrong."""
    return (trajectory.nodes[-1].token_ids or (0,))[0] % 8 / 8


def same_weights(one: Path, other: Path) -> bool:
    ours, theirs = weights(one), weights(other)
    return all(np.array_equal(ours[name], theirs[name]) for name in theirs)
