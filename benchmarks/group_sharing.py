"""What it saves that a group's rollouts are computed once where they go the same way: sampling, training.

    OMP_NUM_THREADS=1 python benchmarks/group_sharing.py --model runs/tiny/sft-correct/model --work runs/group-sharing

Questions of a training world of the tiny recipe, eight rollouts each, by a model that `make demo` leaves; at two temperatures,
since the warmer one samples, the sooner a group's rollouts part. Each part is computed as it is in RL, and again with sharing
taken away: sessions are never taken for alike (nor are first prompts of one step copied), rows have no group.
Processor seconds of one thread, so that a busy machine does not blur them, after a warm-up; tokens are those of all forwards,
padding counted. Both ways give the same numbers but for rounding, which is checked; a draw within rounding of a bound between
two tokens parts two rollouts, and such are counted.
"""

import argparse
import asyncio
import json
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from torch import nn

from sanderling.agent.agent import Agent
from sanderling.core.chat import load_tokenizer
from sanderling.core.config import load_config
from sanderling.core.record import Question, Seeds, Trajectory, turn_indices
from sanderling.data.questions import read_questions
from sanderling.policy import engine, forward
from sanderling.policy.forward import alike
from sanderling.policy.transformers_policy import TransformersPolicy
from sanderling.recipes.tiny import TinyConfig, TinyRun, build_worlds
from sanderling.rl.config import RolloutConfig
from sanderling.rl.losses import PpoConfig, build_loss
from sanderling.rl.step import rl_rows
from sanderling.runs.progress import Report, command_line, machine
from sanderling.tools.world_tools import world_tools
from sanderling.train.checkpoint import load_model
from sanderling.train.config import TrainerConfig
from sanderling.train.rows import Encoding, Row
from sanderling.train.trainer import Trainer

FILE = Path(__file__).parent / "results" / "group_sharing.json"
QUESTIONS, GROUP = 16, 8
TEMPERATURES = (0.6, 1.0)
MICRO_BATCH = 2304


@contextmanager
def nobody_alike() -> Iterator[None]:
    """Inside, every session is computed by itself."""

    def alone(branches: Sequence[Any]) -> list[list[int]]:
        return [[index] for index in range(len(branches))]

    for module in (engine, forward):
        setattr(module, "alike", alone)  # noqa: B010
    try:
        yield
    finally:
        for module in (engine, forward):
            setattr(module, "alike", alike)  # noqa: B010


def timed(work: Callable[[], Any]) -> tuple[float, Any]:
    """Processor seconds, and what came out."""
    began = time.process_time()
    found = work()
    return time.process_time() - began, found


def sampled(model: Path, run: TinyRun, heat: float, questions: Sequence[Question]) -> tuple[float, int, list[Trajectory]]:
    """All rollouts at the same time: seconds, tokens in the forwards, trajectories."""
    policy = TransformersPolicy.load(model)
    tokens = counted(policy.model)
    profile = RolloutConfig(temperature=heat).applied(run.profile)
    world = run.open_world(run.training[0])
    agent = Agent(policy, world_tools(world, profile), profile, run.clock(), world.name, world.fingerprint)

    async def all_of_them() -> list[Trajectory]:
        made = (agent.run(one, Seeds(run=1, attempt=attempt)) for one in questions for attempt in range(GROUP))
        return list(await asyncio.gather(*made))

    seconds, found = timed(lambda: asyncio.run(all_of_them()))
    return seconds, sum(tokens), found


def counted(module: nn.Module) -> list[int]:
    """Tokens of each forward from now on."""
    seen: list[int] = []
    embedding = module.get_input_embeddings()  # pyright: ignore[reportCallIssue]
    embedding.register_forward_hook(lambda module, given, out: seen.append(out.shape[:2].numel()))
    return seen


def trained(model: Path, rows: Sequence[Row], heat: float) -> tuple[float, int, float]:
    """One optimizer step: seconds, tokens in its passes, the gradient's norm."""
    trainer = Trainer(load_model(model), TrainerConfig(lr=1e-4, micro_batch_tokens=MICRO_BATCH, temperature=heat))
    tokens = counted(trainer.model)
    seconds, figures = timed(lambda: trainer.step(rows, build_loss(PpoConfig())))
    return seconds, sum(tokens), figures["grad_norm"]


def case(model: Path, run: TinyRun, heat: float, questions: Sequence[Question]) -> dict[str, Any]:
    """Everything at one temperature, shared and not."""
    together = sampled(model, run, heat, questions)
    with nobody_alike():
        apart = sampled(model, run, heat, questions)
    if apart[1] <= together[1]:
        raise SystemExit("nothing was shared, or sharing was not taken away")
    parted = sum(one.nodes != other.nodes for one, other in zip(map(bare, together[2]), map(bare, apart[2]), strict=True))
    if parted > len(together[2]) // 50:
        raise SystemExit(f"sharing changed {parted} of {len(together[2])} rollouts: more than rounding can")
    encoding = Encoding(load_tokenizer(model), run.profile)
    dice = np.random.default_rng(0)
    rows = [row for one in together[2] for row in rl_rows(one, dice.normal(size=len(turn_indices(one))), encoding)]
    lone = [replace(row, group="") for row in rows]
    steps = trained(model, rows, heat), trained(model, lone, heat)
    np.testing.assert_allclose(steps[0][2], steps[1][2], rtol=1e-3)
    return {
        "temperature": heat,
        "rollouts": len(together[2]),
        "parted_by_rounding": parted,
        "different_rollouts": len({tuple(row.ids.tolist()) for row in rows}),
        "sampling": told(together, apart),
        "training_step": told(*steps),
    }


def bare(one: Trajectory) -> Trajectory:
    """Its ids, without what depends on time and company."""
    told = {"seconds": 0.0, "prefilled_tokens": 0, "logprobs": None}
    return one.model_copy(update={"nodes": tuple(node.model_copy(update=told) for node in one.nodes)})


def told(shared: Sequence[Any], alone: Sequence[Any]) -> dict[str, Any]:
    """Seconds and counts of both, and how many times as fast sharing is."""
    return {
        "seconds": round(shared[0], 2),
        "seconds_alone": round(alone[0], 2),
        "times": round(alone[0] / shared[0], 2),
        "tokens": shared[1],
        "tokens_alone": alone[1],
    }


def main() -> None:
    """Both temperatures, after a warm-up with two questions."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--work", type=Path, required=True, help="where the world is made")
    given = parser.parse_args()
    text = (files("sanderling.recipes") / "tiny.toml").read_text(encoding="utf-8")
    few = ["worlds.train=1", "worlds.held_out=1", "questions.validation=1", "questions.held_out=1"]
    config = load_config(TinyConfig, text, "tiny.toml", [*few, "questions.per_world=150", "questions.drawn=1"])
    run = TinyRun(given.work, config)
    build_worlds(run, Report(Console(quiet=True)))
    questions = read_questions(run.questions_file(run.training[0].name))[:QUESTIONS]
    case(given.model, run, TEMPERATURES[0], questions[:2])
    cases = [case(given.model, run, heat, questions) for heat in TEMPERATURES]
    head = {"command": command_line(), "machine": machine(), "date": f"{datetime.now(UTC):%Y-%m-%d}"}
    FILE.write_text(json.dumps({**head, "timer": "processor seconds of one thread", "cases": cases}, indent=1) + "\n")
    print(json.dumps(cases, indent=1))


if __name__ == "__main__":
    main()
