"""What one rank of a sharded team does in the tests: functions that a process of its own can be handed by name."""

import asyncio
from pathlib import Path

import numpy as np
import torch
from bandit import Bandit
from team_ranks import Ran
from tiny_qwen3 import forked_rows, random_rows, tiny_model
from torch.distributed.tensor import DTensor
from train_records import PROFILE, WordTokenizer
from typer.testing import CliRunner

from sanderling.cli.train import app
from sanderling.core.record import Question
from sanderling.rl.config import RlConfig
from sanderling.rl.rollouts import Actor
from sanderling.rl.run import run_rl
from sanderling.train.checkpoint import load_model
from sanderling.train.config import ParallelConfig, Precision, SupervisedConfig, TrainerConfig
from sanderling.train.launch import Place, opened_team
from sanderling.train.rows import Encoding, LossInputs, Metrics, sft
from sanderling.train.sft import run_sft
from sanderling.train.team import Sharded, join_team, loopback
from sanderling.train.trainer import Trainer


def whole(value: torch.Tensor) -> torch.Tensor:
    return value.full_tensor() if isinstance(value, DTensor) else value


def flat(model: torch.nn.Module) -> np.ndarray:
    return torch.cat([whole(p.detach()).flatten() for p in model.parameters()]).numpy()


def take_steps(
    rank: int, size: int, meeting: Path, config: TrainerConfig, rows: int, forks: bool, shard: bool, context: int = 1
) -> Ran:
    """Two optimizer steps; with ``shard`` over FSDP2; ``context`` ranks share each line."""
    torch.set_num_threads(1)
    make = forked_rows if forks else random_rows
    with join_team(rank, size, meeting, context=context) as team:
        model = tiny_model()
        trainer = Trainer(model, config, Sharded(team) if shard else team)
        if shard:
            kept = sum(p.to_local().numel() for p in model.parameters())
            assert kept < 0.6 * sum(p.numel() for p in model.parameters()), "a rank keeps its share"
        figures = [trainer.step(make(rows, seed=step), sft) for step in range(2)]
        logprobs = trainer.logprobs(make(rows, seed=9))
        return Ran(flat(model).tobytes(), figures, tuple(logprobs))


def fail_on_rank_1(rank: int, size: int, meeting: Path, shard: bool) -> None:
    """A step whose loss is not finite in a pass of rank 1."""
    torch.set_num_threads(1)

    def loss(tokens: LossInputs) -> tuple[torch.Tensor, Metrics]:
        value, metrics = sft(tokens)
        return value * float("nan") if rank == 1 else value, metrics

    with join_team(rank, size, meeting) as team:
        model = tiny_model()
        before = flat(model)
        trainer = Trainer(model, TrainerConfig(micro_batch_tokens=60), Sharded(team) if shard else team)
        try:
            trainer.step(random_rows(7), loss)
        finally:
            assert np.array_equal(flat(model), before) and trainer.steps == 0


def run_shards(rank: int, size: int, meeting: Path, config: SupervisedConfig, bases: list[Path], out: Path) -> list[float]:
    """A whole run, or the rest of one; the losses that rank 0 has seen."""
    torch.set_num_threads(1)
    bfloat16 = config.trainer.precision is Precision.BFLOAT16
    losses: list[float] = []
    with opened_team(ParallelConfig(), Place(rank, size, rank, size), meeting, bfloat16=bfloat16) as (team, device):
        see = losses.append
        run_sft(config, random_rows(12), bases[rank], out, lambda _, metrics: see(metrics["loss"]), team, device)
    return losses


def sft_under_torchrun(rank: int, size: int, meeting: Path, port: int, words: list[str]) -> str:
    """What the command says on a machine with one of torchrun's processes."""
    place = {"RANK": rank, "LOCAL_RANK": 0, "WORLD_SIZE": size, "LOCAL_WORLD_SIZE": 1}
    place |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "GLOO_SOCKET_IFNAME": loopback()}
    done = CliRunner().invoke(
        app, ["sft", *words], env={name: str(value) for name, value in place.items()}, catch_exceptions=False
    )
    return done.output


def reinforce(
    rank: int, size: int, meeting: Path, config: RlConfig, questions: list[Question], base: Path, out: Path, shard: bool
) -> Ran:
    """An RL run whose rollouts are sampled by the model that it began with, as if served and never changed."""
    torch.set_num_threads(1)
    figures, published = [], []

    class Served(Bandit):
        async def publish(self, weights, version: int) -> None:
            published.append(set(weights or ()))
            await super().publish(weights, version)

    def connect(model) -> Actor:
        del model
        actor = Served(load_model(base).eval())
        return Actor(actor.rollout, actor)

    encoding = Encoding(WordTokenizer(), PROFILE)
    with join_team(rank, size, meeting) as team:
        own = Sharded(team) if shard else team
        told = {"progress": lambda _, found: figures.append(found), "team": own}
        asyncio.run(run_rl(config, questions, connect, encoding, base, out, **told))
    names = {name for name, _ in load_model(base).named_parameters()}
    assert all(found >= names if rank == 0 else not found for found in published), "rank 0 alone hands out the weights"
    return Ran(b"", figures)
