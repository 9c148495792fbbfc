"""A model measured on a skill: its questions through the one agent loop, resumable amid an episode. Knows no merging."""

import asyncio
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from pathlib import Path

from sanderling.agent.agent import Agent
from sanderling.agent.journal import Journal
from sanderling.core.profiles import Profile
from sanderling.core.record import Question
from sanderling.core.types import Clock
from sanderling.evaluate.result import EvalResult
from sanderling.evaluate.rollouts import rollout_of
from sanderling.evaluate.run import Progress, evaluate
from sanderling.judge.verdict import Judge
from sanderling.policy.contract import Policy
from sanderling.runs.jsonl import TrajectoryStore
from sanderling.tools.contract import Tool


@dataclass(frozen=True)
class Skill:
    """Something a model can do or not: questions, and where they are researched."""

    name: str
    questions: tuple[Question, ...]
    tools: Mapping[str, Tool]
    world: str
    """Its name, as records say it."""
    world_sha256: str
    search: str = "lexical"
    """How the world is ranked: its hash does not say."""


@dataclass(frozen=True)
class Measuring:
    """How every model is measured, the same for all."""

    profile: Profile
    clock: Clock
    open_policy: Callable[[Path], Policy]
    open_judge: Callable[[], AbstractAsyncContextManager[Judge]]
    attempts: int = 1
    seed: int = 0
    concurrency: int = 8
    device: str = "cpu"
    """Where models run and what they compute in, as `open_policy` has it: a record says it, and sweeps are told apart by it."""
    dtype: str = "float32"


def measure(
    how: Measuring,
    policy: Policy,
    skill: Skill,
    place: Path,
    about: str,
    command: str,
    on_progress: Callable[[Progress], None] | None = None,
) -> EvalResult:
    """The figures of one model on one skill, in ``place/SKILL.json``; what is there is read and not made again.

    ``about`` tells the weights from others: unfinished episodes of other weights are not gone on with.
    """
    saved = place / f"{skill.name}.json"
    if saved.is_file():
        return EvalResult.load(saved)
    place.mkdir(parents=True, exist_ok=True)
    store = TrajectoryStore(place / f"{skill.name}.jsonl")

    agent = Agent(policy, skill.tools, how.profile, how.clock, skill.world, skill.world_sha256)

    async def run(journal: Journal) -> EvalResult:
        async with how.open_judge() as judge:
            return await evaluate(
                skill.questions,
                how.attempts,
                rollout_of(agent, how.seed, journal=journal),
                judge,
                store,
                command=command,
                seed=how.seed,
                concurrency=how.concurrency,
                on_progress=on_progress,
                on_stored=journal.stored,
            )

    with Journal(saved.with_suffix(".run"), f"{about} over {skill.world_sha256}") as journal:
        result = asyncio.run(run(journal))
    result.save(saved)
    return result
