"""The tiny recipe's RL stage: from the arm that does better on the validation world, over questions of the training worlds.

Several processes share out each step. The held-out world is never touched here. Knows no algorithm: the estimator and the loss
are settings.
"""

import asyncio
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

from sanderling.agent.journal import Journal
from sanderling.core.chat import Tokenizer, load_tokenizer
from sanderling.core.record import Question, Seeds, Trajectory
from sanderling.data.questions import read_questions
from sanderling.recipes.tiny.layout import Layout
from sanderling.recipes.tiny.measure import agent_of, measure_all
from sanderling.recipes.tiny.supervised import ARMS
from sanderling.rl.contract import Actor, Ask
from sanderling.runs.progress import Report
from sanderling.tools.world_tools import world_tools
from sanderling.train.metrics import read_metrics
from sanderling.train.parallel.workers import run_team


def choose_arm(layout: Layout, command: str, report: Report) -> dict[str, Any]:
    """Measure both arms on the validation world; RL starts from the better one."""
    models = {arm: layout.model(arm) for arm in ARMS}
    attempts = layout.config.evaluation.attempts
    results = measure_all(layout, models, layout.validation, attempts, command, report)
    scores = {arm: result.pass_at_1.value or 0.0 for arm, result in results.items()}
    return {"chosen": max(ARMS, key=lambda arm: scores[arm]), "validation_pass_at_1": scores}


def reinforce(layout: Layout, start: str, report: Report) -> dict[str, Any]:
    """Run RL from one arm's model into ``rl/``; resumes where it was killed."""
    settings, log = layout.config.rl, layout.root / "rl" / "metrics.jsonl"
    seen = len(read_metrics(log))
    with report.task("RL", settings.steps, start=seen) as advance:

        def poll() -> None:
            nonlocal seen
            lines = read_metrics(log)
            if len(lines) != seen:
                advance(len(lines) - seen, f"right {lines[-1]['reward']:.2f}" if lines else None)
                seen = len(lines)

        run_team(reinforce_rank, (layout, start), layout.config.rl_processes, poll)
    lines = read_metrics(log)
    return {"start": start, "steps": len(lines), "rollouts": sum(int(line["rollouts"]) for line in lines)}


def reinforce_rank(rank: int, size: int, meeting: Path, layout: Layout, start: str) -> None:
    """What each process of the RL stage does."""
    from sanderling.rl.run import run_rl
    from sanderling.train.encoding import Encoding
    from sanderling.train.parallel.team import join_team

    settings, out = layout.config.rl, layout.root / "rl"
    with join_team(rank, size, meeting) as team:
        encoding = Encoding(load_tokenizer(layout.base), layout.profile)
        groups = math.ceil(settings.questions_per_step / size) * (settings.pipeline.max_staleness + 1)
        with Journal(out, across_versions=True, rank=rank, locked=True) as journal:
            connect = _connector(layout, encoding.tokenizer, groups * settings.group_size, journal)
            asyncio.run(run_rl(settings, _questions(layout), connect, encoding, layout.model(start), out, team=team))


def _connector(layout: Layout, tokenizer: Tokenizer, batch: int, journal: Journal) -> Callable[[Any], Actor]:
    """Makes the actor of a model: it samples at most ``batch`` turns together, in the world that a question is about."""
    from sanderling.policy.transformers_policy import TransformersPolicy
    from sanderling.policy.weight_sync import InPlace

    tools = {plan.generate().name: world_tools(layout.open_world(plan), layout.profile) for plan in layout.training}

    def connect(model: Any) -> Actor:
        policy = TransformersPolicy(model, tokenizer, name="rl", max_batch=batch)

        async def rollout(ask: Ask) -> Trajectory:
            world = str(ask.question.meta["world"])
            seeds = Seeds(run=layout.config.rl.seed, episode=ask.seed, attempt=ask.attempt)
            agent = agent_of(layout, policy, tools[world], world)
            return await agent.run(ask.question, seeds, journal=journal, finish_early=ask.finish_early)

        return Actor(rollout, InPlace(policy), journal.stored, forget=journal.forget)

    return connect


def _questions(layout: Layout) -> list[Question]:
    return [question for plan in layout.training for question in read_questions(layout.questions_file(plan.name))]


def stages_to_measure(layout: Layout) -> dict[str, Path]:
    """Everything that gets a row in the table, in order."""
    return {"base": layout.base, **{arm: layout.model(arm) for arm in ARMS}, "rl": layout.model("rl")}
