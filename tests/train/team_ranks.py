"""What one rank of a team does in the tests of teams: functions that a process of its own can be handed by name."""

import asyncio
import dataclasses
import gc
import itertools
import multiprocessing
import os
import signal
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor, wait
from contextlib import ExitStack, contextmanager
from pathlib import Path

import numpy as np
import torch
from bandit import Bandit
from tiny_qwen3 import random_rows, tiny_model
from torch.optim.optimizer import register_optimizer_step_pre_hook
from train_records import PROFILE, WordTokenizer

from sanderling.core.errors import UserError
from sanderling.core.record import Question
from sanderling.rl.config import RlConfig
from sanderling.rl.rollouts import Actor
from sanderling.rl.run import run_rl
from sanderling.train.config import TrainerConfig
from sanderling.train.rows import Encoding, sft
from sanderling.train.team import join_team
from sanderling.train.trainer import Trainer


@dataclasses.dataclass(frozen=True)
class Ran:
    """What a rank saw."""

    weights: bytes
    figures: list[dict[str, float]]
    gradients: tuple[np.ndarray, ...] = ()
    attempts: tuple[int, ...] = ()


@contextmanager
def processes(count: int) -> Iterator[Callable]:
    """Runs a function on every rank of a new team: on the last one here, on the others in processes that live with the block.

    A process keeps its rank: what torch remembers of a mesh holds its place there. After a team that failed there are new
    ones: what a group that was broken off leaves to be torn down is nothing for the next test to meet.
    """
    context = multiprocessing.get_context("forkserver")
    with tempfile.TemporaryDirectory() as meetings, ExitStack() as stack:
        pools: list[ProcessPoolExecutor] = []
        names = itertools.count()

        def run(function: Callable, *arguments, errors: bool = False) -> list:
            if not pools:
                pools.extend(stack.enter_context(ProcessPoolExecutor(1, mp_context=context)) for _ in range(count - 1))
            meeting = Path(meetings) / str(next(names))
            meeting.mkdir()
            futures = [pool.submit(_cleanly, function, rank, count, meeting, *arguments) for rank, pool in enumerate(pools)]
            futures.append(own := Future())
            try:
                own.set_result(_cleanly(function, count - 1, count, meeting, *arguments))
            except Exception as error:
                own.set_exception(error)
            wait(futures)
            if any(future.exception() for future in futures):
                stack.close()
                pools.clear()
            return [future.exception() if errors else future.result() for future in futures]

        yield run


def _cleanly(function: Callable, *arguments):
    """What the last team left in cycles goes before the next one meets, and not amid its collectives."""
    gc.collect()
    return function(*arguments)


def flat(model: torch.nn.Module) -> np.ndarray:
    return torch.cat([p.detach().flatten() for p in model.parameters()]).numpy()


def take_steps(rank: int, size: int, meeting: Path, config: TrainerConfig, rows: int) -> Ran:
    """Two optimizer steps over random rows."""
    torch.set_num_threads(1)
    model, gradients = tiny_model(), []
    with join_team(rank, size, meeting) as team:
        trainer = Trainer(model, config, team)

        def see(*_) -> None:
            gradients.append(torch.cat([p.grad.flatten() for p in model.parameters()]).numpy())

        hook = register_optimizer_step_pre_hook(see)
        figures = [trainer.step(random_rows(rows, seed=step), sft) for step in range(2)]
        hook.remove()
        logprobs = trainer.logprobs(random_rows(5))
    return Ran(flat(model).tobytes(), figures, (*gradients, *logprobs))


def train_bandit(
    rank: int, size: int, meeting: Path, config: RlConfig, questions: list[Question], base: Path, out: Path, fail_at: int | None
) -> Ran:
    """An RL run of one-token episodes."""
    torch.set_num_threads(1)
    bandits, figures = [], []

    def connect(model) -> Actor:
        bandits.append(Bandit(model, fail_at=fail_at))
        return Actor(bandits[0].rollout, bandits[0])

    with join_team(rank, size, meeting) as team:
        asyncio.run(
            run_rl(
                config,
                questions,
                connect,
                Encoding(WordTokenizer(), PROFILE),
                base,
                out,
                progress=lambda _, found: figures.append(found),
                team=team,
            )
        )
    return Ran(flat(bandits[0].model).tobytes(), figures, (), tuple(bandits[0].attempts))


def die(rank: int, size: int, meeting: Path) -> None:
    """Rank 0 is killed while the other waits for it."""
    with join_team(rank, size, meeting) as team:
        assert team.gather(rank) == [0, 1]
        if rank == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        team.gather(rank)


def refuse(rank: int, size: int, meeting: Path) -> None:
    """Rank 1 has something to say to the user while the others wait for it."""
    with join_team(rank, size, meeting) as team:
        team.gather(rank)
        if rank == 1:
            raise UserError("Give it a larger disk.")
        team.gather(rank)
