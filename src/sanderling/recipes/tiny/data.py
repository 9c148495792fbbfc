"""The tiny recipe's material: worlds, questions, the teacher's trajectories, and what the data pipeline keeps of them."""

import asyncio
from collections import Counter
from typing import Any

from sanderling.agent.agent import Agent, Job
from sanderling.core.record import Question, Seeds, Trajectory
from sanderling.data.pipeline import bring_in, clean, judge
from sanderling.data.questions import read_questions, write_questions
from sanderling.judge.rules import exact_match, score_trajectory
from sanderling.recipes.tiny.layout import Layout, WorldPlan
from sanderling.runs.jsonl import TrajectoryStore
from sanderling.runs.progress import Advance, Report
from sanderling.synth.questions import chain_questions, split_by_hops
from sanderling.synth.teacher import TeacherPolicy
from sanderling.tools.world_tools import world_tools
from sanderling.world.disk.store import build_world


def build_worlds(layout: Layout, report: Report) -> dict[str, Any]:
    """Generate and index every world of the run, and draw the questions over each."""
    plans = [*layout.training, layout.validation, layout.held_out]
    pages = 0
    with report.task("Worlds and questions", len(plans)) as advance:
        for plan in plans:
            world = plan.generate()
            directory = layout.world_directory(plan)
            if not directory.is_dir():
                build_world(
                    directory, (item.page for item in world.pages), name=world.name, source="encyclopedia", seed=plan.seed
                )
            pages += len(world.pages)
            write_questions(layout.questions_file(plan.name), _questions(layout, plan))
            advance(1)
    held_out = read_questions(layout.questions_file(layout.held_out.name))
    return {
        "worlds": len(plans),
        "pages": pages,
        "held_out_sha256": layout.open_world(layout.held_out).fingerprint,
        "held_out_hops": {str(hops): len(found) for hops, found in split_by_hops(held_out).items()},
    }


def _questions(layout: Layout, plan: WorldPlan) -> list[Question]:
    wanted = layout.config.questions
    count = {layout.validation.name: wanted.validation, layout.held_out.name: wanted.held_out}.get(plan.name, wanted.per_world)
    return chain_questions(plan.generate(), count, wanted.seed, wanted.hop_shares)


def teach(layout: Layout, report: Report) -> dict[str, Any]:
    """Let the teacher research every training question, through the one loop, into an append-only store."""
    store = TrajectoryStore(layout.teacher_store)
    done = store.ids()
    total = len(layout.training) * layout.config.questions.per_world
    with report.task("Teacher's trajectories", total, start=len(done)) as advance:
        for plan in layout.training:
            questions = read_questions(layout.questions_file(plan.name))
            jobs = [Job(q, Seeds(run=layout.config.teacher.seed), q.id) for q in questions if q.id not in done]
            if jobs:
                asyncio.run(_teach_world(layout, plan, questions, jobs, store, advance))
    return _teacher_figures(list(store))


async def _teach_world(
    layout: Layout, plan: WorldPlan, questions: list[Question], jobs: list[Job], store: TrajectoryStore, advance: Advance
) -> None:
    world = layout.open_world(plan)

    def keep(trajectory: Trajectory) -> None:
        store.append(trajectory)
        advance(1)

    await Agent(
        TeacherPolicy(plan.generate(), {question.id: question for question in questions}, layout.config.teacher.modes),
        world_tools(world, layout.profile),
        layout.profile,
        layout.clock(),
        world.name,
    ).run_many(jobs, concurrency=32, on_done=keep)


def curate(layout: Layout, report: Report) -> dict[str, Any]:
    """What the arms are trained on: the first steps of the data pipeline, over the teacher's trajectories."""
    layout.data.root.mkdir(exist_ok=True)
    return {name: step(layout.data, report) for name, step in (("import", bring_in), ("clean", clean), ("judge", judge))}


def _teacher_figures(trajectories: list[Trajectory]) -> dict[str, Any]:
    right = [is_right(trajectory) for trajectory in trajectories]
    by_hops: dict[str, list[bool]] = {}
    for trajectory, correct in zip(trajectories, right, strict=True):
        by_hops.setdefault(str(trajectory.question.hops), []).append(correct)
    return {
        "trajectories": len(trajectories),
        "correct": sum(right),
        "correct_by_hops": {hops: sum(found) / len(found) for hops, found in sorted(by_hops.items())},
        "endings": dict(Counter(str(trajectory.ending) for trajectory in trajectories)),
    }


def is_right(trajectory: Trajectory) -> bool:
    """Whether the agent's own answer is one of the accepted ones."""
    return score_trajectory(trajectory, exact_match) == 1.0
