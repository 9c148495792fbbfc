"""The tiny recipe's RL stage: from the arm that does better on the validation world, over questions of the training worlds.

The held-out world is never touched here. Knows no algorithm: the estimator and the loss are settings.
"""

import asyncio
from pathlib import Path
from typing import Any

from sanderling.agent.loop import run_episode
from sanderling.protocol.tokens import load_tokenizer
from sanderling.recipes.progress import Report
from sanderling.recipes.tiny.layout import Layout, read_questions
from sanderling.recipes.tiny.measure import measure_all
from sanderling.recipes.tiny.supervised import ARMS
from sanderling.tools.contract import Tool
from sanderling.tools.registry import world_tools
from sanderling.trajectory.record import Question, Seeds, Trajectory


def choose_arm(layout: Layout, command: str, report: Report) -> dict[str, Any]:
    """Measure both arms on the validation world; RL starts from the better one."""
    models = {arm: layout.model(arm) for arm in ARMS}
    attempts = layout.config.evaluation.attempts
    results = measure_all(layout, models, layout.validation, attempts, command, report)
    scores = {arm: result.pass_at_1.value or 0.0 for arm, result in results.items()}
    return {"chosen": max(ARMS, key=lambda arm: scores[arm]), "validation_pass_at_1": scores}


def reinforce(layout: Layout, start: str, report: Report) -> dict[str, Any]:
    """Run RL from one arm's model into ``rl/``; resumes where it was killed."""
    import torch

    from sanderling.policy.transformers_policy import TransformersPolicy
    from sanderling.train.metrics import read_metrics
    from sanderling.train.rl import Actor, run_rl
    from sanderling.train.rows import Encoding
    from sanderling.train.supervised import Progress

    torch.set_num_threads(layout.config.rl_threads)
    tokenizer = load_tokenizer(layout.base)
    tools = {plan.generate().name: world_tools(layout.open_world(plan), layout.profile) for plan in layout.training}
    settings = layout.config.rl
    batch = settings.questions_per_step * settings.group_size

    def connect(model: Any) -> Actor:
        policy = TransformersPolicy(model, tokenizer, name="rl", max_batch=batch)

        async def rollout(question: Question, seed: int, attempt: int) -> Trajectory:
            world = str(question.meta["world"])
            return await _rollout(layout, policy, tools[world], world, question, seed, attempt)

        return Actor(policy, rollout)

    out = layout.root / "rl"
    with report.task("RL", settings.steps, start=len(read_metrics(out / "metrics.jsonl"))) as advance:

        def on_progress(progress: Progress) -> None:
            advance(1, f"right {progress.metrics['reward']:.2f}")

        asyncio.run(
            run_rl(
                settings,
                _questions(layout),
                connect,
                Encoding(tokenizer, layout.profile),
                layout.model(start),
                out,
                progress=on_progress,
            )
        )
    metrics = read_metrics(out / "metrics.jsonl")
    return {"start": start, "steps": len(metrics), "rollouts": len(metrics) * batch}


def _questions(layout: Layout) -> list[Question]:
    return [question for plan in layout.training for question in read_questions(layout.questions_file(plan.name))]


async def _rollout(
    layout: Layout, policy: Any, tools: dict[str, Tool], world: str, question: Question, seed: int, attempt: int
) -> Trajectory:
    return await run_episode(
        question,
        policy=policy,
        tools=tools,
        profile=layout.profile,
        clock=layout.clock(),
        trajectory_id=f"{question.id}-{attempt}",
        seeds=Seeds(run=layout.config.rl.seed, episode=seed, attempt=attempt),
        world=world,
    )


def stages_to_measure(layout: Layout) -> dict[str, Path]:
    """Everything that gets a row in the table, in order."""
    return {"base": layout.base, **{arm: layout.model(arm) for arm in ARMS}, "rl": layout.model("rl")}
