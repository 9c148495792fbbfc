"""A unit of the ablation: train an arm with a seed, and count right answers on the held-out world, question by question.

Resumable wherever it is killed: the RL run goes on, attempts are stored as they end. What a finished unit leaves is one JSON
file, from which every figure of the report is made; units of a run that never came to its end can be kept. Knows no other unit.
"""

import asyncio
import json
import shutil
import time
from itertools import accumulate
from pathlib import Path
from typing import Any

from rich.console import Console

from sanderling.agent.agent import Agent
from sanderling.agent.journal import Journal
from sanderling.data.questions import read_questions
from sanderling.evaluate.attempts import Attempts, Made, make_attempts, rollout_of
from sanderling.evaluate.log import JsonlAttempts
from sanderling.recipes.ablation.layout import Layout, Unit
from sanderling.recipes.rl.config import RlRecipe
from sanderling.recipes.rl.prepare import Order
from sanderling.recipes.rl.run import run_rl_command
from sanderling.recipes.tiny.measure import JUDGE
from sanderling.runs.files import replace_file
from sanderling.runs.jsonl import TrajectoryStore
from sanderling.runs.progress import Report
from sanderling.tools.world_tools import world_tools
from sanderling.train.metrics import read_metrics


def run_unit(layout: Layout, unit: Unit, start: Path) -> None:
    """Run it, or go on; does nothing when its result is there."""
    result, work = layout.result(unit), layout.work(unit)
    if result.is_file():
        return
    began, spent = time.monotonic(), work / "seconds"
    earlier = float(spent.read_text()) if spent.is_file() else 0.0
    work.mkdir(parents=True, exist_ok=True)
    told: dict[str, Any] = {"setting": unit.setting, "arm": unit.arm, "seed": unit.seed, "lr": unit.lr, "trial": unit.trial}
    model = start
    if layout.config.arms[unit.arm].trained:
        model = _train(layout, unit, start, work / "rl")
        told |= learning_of(work / "rl")
    trained = time.monotonic() - began
    spent.write_text(str(earlier + trained))
    if not unit.trial:
        told["counts"] = _counts(layout, unit, model, work)
    told |= {"train_seconds": round(earlier + trained, 1), "seconds": round(earlier + time.monotonic() - began, 1)}
    result.parent.mkdir(parents=True, exist_ok=True)
    replace_file(result, json.dumps(told) + "\n", durable=True)
    if not layout.config.keep_rollouts:
        shutil.rmtree(work)


def _train(layout: Layout, unit: Unit, start: Path, out: Path) -> Path:
    """The arm's model."""
    config, worlds = layout.config, layout.worlds(unit.setting)
    rl = config.rl_of(unit.arm, lr=unit.lr, seed=unit.seed, steps=config.tuning.steps if unit.trial else None)
    rollout = config.settings[unit.setting].rollout
    rl = rl.model_copy(update={"trainer": rl.trainer.model_copy(update={"temperature": rollout.temperature})})
    recipe = RlRecipe(
        title=unit.name,
        profile=config.profile,
        model=start,
        questions=tuple(worlds.questions_file(plan.name) for plan in worlds.training),
        held_out=(worlds.questions_file(worlds.validation.name),),
        worlds=tuple(worlds.world_directory(plan) for plan in (*worlds.training, worlds.validation)),
        date=config.date,
        rollout=rollout,
        rl=rl,
    )
    run_rl_command(Order(recipe, out), Report(Console(quiet=True)))
    return out / "model"


def learning_of(out: Path) -> dict[str, Any]:
    """The learning curve on the validation world by rollouts that were made, and what the last steps looked like."""
    steps = read_metrics(out / "metrics.jsonl")
    made = [0, *accumulate(int(line["rollouts"]) for line in steps)]
    curve = [[made[int(line["step"])], line["held_out"]] for line in read_metrics(out / "selection.jsonl")]
    last = steps[-5:]
    names = ("reward", "turns", "browse_share", "malformed_share", "groups_with_signal", "no_answer", "truncated")
    figures = {name: sum(line.get(name, 0.0) for line in last) / len(last) for name in names}
    return {"curve": curve, "rollouts": made[-1], "last_steps": figures}


def _counts(layout: Layout, unit: Unit, model: Path, work: Path) -> dict[str, list[int]]:
    """By question: right and scored attempts, and hops."""
    worlds = layout.worlds(unit.setting)
    questions = read_questions(worlds.questions_file(worlds.held_out.name))
    made = asyncio.run(_answers(layout, unit, model, work))
    found = {question.id: [0, 0, question.hops or 0] for question in questions}
    for (name, _), episode in made.episodes.items():
        found[name][0] += episode.correct is True
        found[name][1] += episode.correct is not None
    return found


async def _answers(layout: Layout, unit: Unit, model: Path, work: Path) -> Made:
    """Every held-out question, as often as is wanted, in the world that nothing was trained in."""
    import torch

    from sanderling.policy.transformers_policy import TransformersPolicy

    device = "cuda" if torch.cuda.is_available() else "cpu"  # as where it was trained
    config, worlds = layout.config, layout.worlds(unit.setting)
    questions = read_questions(worlds.questions_file(worlds.held_out.name))
    profile, world = layout.profile(unit.setting), worlds.open_world(worlds.held_out)
    policy = TransformersPolicy.load(model, device=device, max_batch=config.measuring.concurrency)
    agent = Agent(policy, world_tools(world, profile), profile, worlds.clock(), world.name, world.fingerprint)
    store = TrajectoryStore(work / "attempts.jsonl")
    store.prepare()
    with Journal(work) as journal:
        return await make_attempts(
            Attempts(questions, config.measuring.attempts, unit.seed, together=True),
            rollout_of(agent, unit.seed, journal=journal),
            JUDGE,
            JsonlAttempts(store),
            concurrency=config.measuring.concurrency,
            on_stored=journal.stored,
        )
