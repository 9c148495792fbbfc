"""One process of the determinism test: episodes of a model, then RL from it. Prints digests of everything that must be equal.

``python one_run.py MODEL OUT``
"""

import asyncio
import hashlib
import json
import sys
from datetime import date
from pathlib import Path

import torch

from sanderling.agent.agent import Agent
from sanderling.core.chat import load_tokenizer
from sanderling.core.profiles import TINY
from sanderling.core.record import Question, Seeds, Trajectory, encode_record
from sanderling.core.types import FixedClock
from sanderling.policy.transformers_policy import TransformersPolicy
from sanderling.policy.weight_sync import InPlace
from sanderling.rl.config import RlConfig
from sanderling.rl.rollouts import Actor, Ask
from sanderling.rl.run import run_rl
from sanderling.runs.run import records
from sanderling.runs.work import in_parallel
from sanderling.synth.chains import chain_questions
from sanderling.tools.world_tools import world_tools
from sanderling.train.config import TrainerConfig
from sanderling.train.metrics import read_metrics
from sanderling.train.rows import Encoding
from sanderling.world.encyclopedia import generate_encyclopedia
from sanderling.world.local import LocalWorld

PROFILE = TINY.model_copy(update={"budgets": TINY.budgets.model_copy(update={"max_turns": 4})})
CLOCK = FixedClock(date(2026, 1, 1))
TIMES = ("seconds", "per_second")
"""Endings of the names of metrics that tell how long something took."""
CONFIG = RlConfig(
    trainer=TrainerConfig(lr=1e-3, entropy=True, temperature=PROFILE.sampling.temperature),
    steps=2,
    questions_per_step=2,
    group_size=4,
    save_every=1,
    seed=3,
)


def digest(*parts: bytes) -> str:
    return hashlib.sha256(b"\n".join(parts)).hexdigest()


async def episodes(model: Path, tools: dict, questions: list[Question]) -> list[Trajectory]:
    """Fewer at a time than there are, so that sessions come and go."""
    asked = [(question, Seeds(run=5, episode=1, attempt=attempt)) for question in questions for attempt in range(2)]
    agent = Agent(TransformersPolicy.load(model, max_batch=5), tools, PROFILE, CLOCK)
    return await in_parallel(lambda one: agent.run(*one), asked, 7)


async def reinforce(model: Path, tools: dict, questions: list[Question], out: Path) -> list[bytes]:
    tokenizer = load_tokenizer(model)

    def connect(module: object) -> Actor:
        policy = TransformersPolicy(module, tokenizer)

        async def rollout(ask: Ask) -> Trajectory:
            return await Agent(policy, tools, PROFILE, CLOCK).run(
                ask.question, Seeds(run=3, episode=ask.seed, attempt=ask.attempt)
            )

        return Actor(rollout, InPlace(policy))

    await run_rl(CONFIG, questions, connect, Encoding(tokenizer, PROFILE), model, out)
    return sorted(encode_record(one) for one in records(out))


def main(model: Path, out: Path) -> None:
    torch.set_num_threads(1)
    encyclopedia = generate_encyclopedia(60, 5)
    world = LocalWorld.in_memory((item.page for item in encyclopedia.pages), name=encyclopedia.name)
    tools, questions = world_tools(world, PROFILE), chain_questions(encyclopedia, 6, 5, {1: 0.5, 2: 0.5})
    found = asyncio.run(episodes(model, tools, questions))
    rollouts = asyncio.run(reinforce(model, tools, questions, out))
    metrics = [
        {name: value for name, value in line.items() if not name.endswith(TIMES)}
        for line in read_metrics(out / "metrics.jsonl")
    ]
    figures = {
        "world": world.fingerprint,
        "episodes": digest(*(encode_record(one) for one in found)),
        "calls": sum(len(node.calls) for one in found for node in one.nodes),
        "rollouts": digest(*rollouts),
        "metrics": metrics,
        "weights": digest((out / "model" / "model.safetensors").read_bytes()),
    }
    sys.stdout.write(json.dumps(figures))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
