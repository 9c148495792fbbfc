"""The smallest thing that RL can train, one token an episode, for the tests of runs, of several ranks and of kills."""

import asyncio
import json
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import torch
from safetensors.numpy import load_file
from train_records import PROFILE, WordTokenizer, record

from sanderling.core.record import Question
from sanderling.core.types import Ending
from sanderling.rl.config import RlConfig
from sanderling.rl.contract import Actor, Ask
from sanderling.rl.credit import GrpoConfig
from sanderling.rl.denoise import DenoiseConfig
from sanderling.rl.run import run_rl
from sanderling.train.config import TrainerConfig
from sanderling.train.encoding import Encoding

QUESTIONS = [Question(id=f"q{i}", text="?", answers=("Oslo",)) for i in range(3)]
CONFIG = RlConfig(
    trainer=TrainerConfig(lr=3e-3, entropy=True),
    denoise=DenoiseConfig(outage_wait_s=0.0),
    estimator=GrpoConfig(penalty_weight=0.0),
    steps=6,
    questions_per_step=2,
    group_size=6,
    save_every=2,
    seed=4,
)


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
                "token_ids": (token,),
                "logprobs": (float(logprobs[token]),),
                "versions": (self.version,),
                "answer": answer,
                "text": f"t</think><answer>{answer}</answer>",
            }
        )
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
