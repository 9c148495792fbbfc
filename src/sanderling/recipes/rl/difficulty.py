"""How hard a stage's questions are for the model that it begins with: pass@8 of each before it, and the band that is kept.

LiteResearcher's curriculum (arXiv 2604.17931). Attempts are made as every command makes them, with the stage's own sampling and
budgets, in a process of its own that is gone, with its memory, before training begins; killed, it goes on. Knows no training.
"""

import asyncio
from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path

from sanderling.agent.agent import Agent
from sanderling.agent.journal import Journal
from sanderling.core.errors import UserError
from sanderling.core.record import Question, Seeds, Trajectory
from sanderling.data.questions import read_questions, write_questions
from sanderling.evaluate.attempts import Attempts, Counting, Made, make_attempts
from sanderling.evaluate.log import JsonlAttempts
from sanderling.judge.rules import OUTCOMES, RuleJudge
from sanderling.policy.contract import Policy
from sanderling.policy.load import open_policy
from sanderling.recipes.rl.acting import NAME, check_room, clock_of, opened_reader, server_of
from sanderling.recipes.rl.config import RlRecipe, Stage
from sanderling.recipes.rl.judging import opened_judge
from sanderling.recipes.rl.places import Dynamics, Places, directories
from sanderling.rl.config import Placement
from sanderling.runs.files import replace_file
from sanderling.runs.jsonl import TrajectoryStore
from sanderling.runs.progress import Report
from sanderling.synth.difficulty import Band, BandSettings, by_difficulty, try_of
from sanderling.train.parallel.workers import Task, run_tasks

DIRECTORY = "difficulty"
_COUNT = "count"
_CONCURRENCY = 64
_MOST_UNTOLD = 0.05
"""Share of questions that may be left out for want of verdicts: some are never judged, however often the command is run."""


def band_of(
    recipe: RlRecipe, stage: Stage, questions: Sequence[Question], model_dir: Path, directory: Path, report: Report
) -> list[Question]:
    """The questions that a stage asks: all, or those of its band, measured once. Raises UserError when none is left."""
    settings = stage.difficulty
    if settings is None:
        return list(questions)
    place = directory / DIRECTORY
    kept = place / f"{Band.KEPT.value}.jsonl"
    if not kept.is_file():
        place.mkdir(parents=True, exist_ok=True)
        _measured(recipe, stage, questions, model_dir, place, report)
        sort_questions(questions, stage, place)
    found = read_questions(kept) if kept.stat().st_size else []
    band = f"right {settings.least_right} to {settings.most_right} times of {settings.attempts}"
    untold = (place / f"{Band.UNTOLD.value}.jsonl").read_bytes().count(b"\n")
    open_ones = f"; of {untold:,} nobody could tell" if untold else ""
    report.say(f"{len(found):,} of {len(questions):,} questions are {band}{open_ones}: the others are left out ({place}).")
    if not found:
        raise UserError(f"With {model_dir} no question is {band}: give others, or another model.")
    return found


def _measured(
    recipe: RlRecipe, stage: Stage, questions: Sequence[Question], model_dir: Path, place: Path, report: Report
) -> None:
    """Have the attempts made in another process."""
    title = f"Difficulty{f', stage {stage.name}' if stage.name else ''}"
    with report.task(title, len(questions) * _wanted(stage).attempts) as advance:
        seen = 0

        def poll() -> None:
            nonlocal seen
            count = place / _COUNT
            done = int(count.read_text() or 0) if count.is_file() else 0
            advance(done - seen)
            seen = done

        task = Task(_measure, (recipe, stage, list(questions), model_dir, place))
        run_tasks([task], 1, poll, fewer="with smaller sampler.sessions")
        poll()


def _measure(recipe: RlRecipe, stage: Stage, questions: list[Question], model_dir: Path, place: Path) -> None:
    asyncio.run(_attempts(recipe, stage, questions, model_dir, place))


async def _attempts(recipe: RlRecipe, stage: Stage, questions: list[Question], model_dir: Path, place: Path) -> Made:
    """Attempt every question, or go on with that."""
    settings = _wanted(stage)
    store = TrajectoryStore(place / "attempts.jsonl")
    store.prepare()
    concurrency = recipe.sampler.sessions or _CONCURRENCY
    async with AsyncExitStack() as stack:
        policy = await _policy(recipe, stage, model_dir, place, concurrency, stack)
        judge = await stack.enter_async_context(opened_judge(recipe.judges, place, concurrency))
        extractor = await stack.enter_async_context(opened_reader(recipe.extractor, place))
        dynamics = Dynamics(recipe.dynamics, recipe.world_seed)
        places = Places(directories(recipe.worlds, questions), stage.profile, dynamics, extractor)
        journal = stack.enter_context(Journal(place, f"{NAME} {model_dir}", locked=True))
        clock, seed = clock_of(recipe), stage.rl.seed

        async def rollout(question: Question, attempt: int) -> Trajectory:
            at = places.of(question)
            agent = Agent(policy, at.tools, stage.profile, clock, at.name, at.fingerprint)
            return await agent.run(question, Seeds(run=seed, episode=seed, attempt=attempt), journal=journal)

        return await make_attempts(
            Attempts(questions, settings.attempts, seed, together=True),
            rollout,
            judge or RuleJudge(stage.rl.outcome, OUTCOMES[stage.rl.outcome]),
            JsonlAttempts(store),
            concurrency=concurrency,
            on_stored=journal.stored,
            watch=Counting(len(questions) * settings.attempts, lambda now: replace_file(place / _COUNT, str(now.done))),
        )


async def _policy(
    recipe: RlRecipe, stage: Stage, model_dir: Path, place: Path, concurrency: int, stack: AsyncExitStack
) -> Policy:
    """The model that the stage begins with: here, or on the server, which is handed its weights first."""
    import torch

    from sanderling.train.checkpoint import load_model

    if stage.rl.pipeline.placement is not Placement.SERVED:
        device = "cuda" if torch.cuda.is_available() else "cpu"
        return open_policy(str(model_dir), device=device, max_batch=concurrency)
    await check_room(recipe, stage)
    policy, server = server_of(recipe, model_dir, place, stack)
    await server.publish(load_model(model_dir).state_dict(), 0)
    return policy


def _wanted(stage: Stage) -> BandSettings:
    if stage.difficulty is None:
        raise ValueError("the stage asks all of its questions")
    return stage.difficulty


def sort_questions(questions: Sequence[Question], stage: Stage, place: Path) -> None:
    """Write every band to its file, the kept one last: it says that all is done. Raises UserError for open ones."""
    tries = {trajectory.id: try_of(trajectory) for trajectory in TrajectoryStore(place / "attempts.jsonl")}
    bands, _ = by_difficulty(questions, tries.values(), _wanted(stage), NAME)
    if len(bands[Band.UNTOLD]) > _MOST_UNTOLD * len(questions):
        raise UserError(
            f"{len(bands[Band.UNTOLD]):,} of {len(questions):,} questions have too many attempts without a verdict, for want "
            "of a judge or a tool: run the same command again."
        )
    for band in sorted(bands, key=lambda band: band is Band.KEPT):
        write_questions(place / f"{band.value}.jsonl", bands[band])
    replace_file(place / _COUNT, "0")
