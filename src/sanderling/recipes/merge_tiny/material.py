"""The recipe's material: worlds, questions of one hop sorted into two skills, and a teacher's trajectories of each.

The teacher makes no mistakes but those its world leads it into; only what it got right is trained on. Knows no model.
"""

import asyncio
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sanderling.agent.agent import Agent, Job
from sanderling.core.record import Question, Seeds, Trajectory
from sanderling.data.questions import read_questions, write_questions
from sanderling.recipes.merge_tiny.config import MergeTinyConfig
from sanderling.recipes.tiny.data import is_right
from sanderling.recipes.tiny.layout import Layout, WorldPlan
from sanderling.runs.jsonl import TrajectoryStore
from sanderling.runs.progress import Advance, Report
from sanderling.synth.questions import chain_questions
from sanderling.synth.teacher import TeacherPolicy
from sanderling.tools.world_tools import world_tools
from sanderling.world.disk.store import build_world
from sanderling.world.encyclopedia import BY_NAME

_TEACHER_SEED = 22


@dataclass(frozen=True)
class Material:
    """A run's directory and settings."""

    root: Path
    config: MergeTinyConfig

    @property
    def layout(self) -> Layout:
        return Layout(self.root, self.config.tiny)

    @property
    def skills(self) -> tuple[str, str]:
        """Their names."""
        first, second = self.config.skills
        return first, second

    def questions_file(self, plan: WorldPlan, skill: str) -> Path:
        return self.root / "questions" / f"{plan.name}.{skill}.jsonl"

    def store(self, skill: str) -> Path:
        """The teacher's trajectories."""
        return self.root / "teacher" / f"{skill}.jsonl"

    def right(self, skill: str) -> list[Trajectory]:
        """What is trained on, by id: the store's order depends on which of them ended first."""
        return sorted((t for t in TrajectoryStore(self.store(skill)) if is_right(t)), key=lambda trajectory: trajectory.id)


def build(material: Material, report: Report) -> dict[str, Any]:
    """Generate and index every world of the run, and draw the questions of each skill."""
    layout, wanted = material.layout, material.config.questions
    counts = {layout.validation.name: wanted.validation, layout.held_out.name: wanted.held_out}
    plans = [*layout.training, layout.validation, layout.held_out]
    with report.task("Worlds and questions", len(plans)) as advance:
        for plan in plans:
            world = plan.generate()
            directory = layout.world_directory(plan)
            if not directory.is_dir():
                pages = (item.page for item in world.pages)
                build_world(directory, pages, name=world.name, source="encyclopedia", seed=plan.seed)
            count = counts.get(plan.name, wanted.per_world)
            for skill, questions in _by_skill(material, plan, count).items():
                write_questions(material.questions_file(plan, skill), questions)
            advance(1)
    return {"worlds": len(plans), "held_out_sha256": layout.open_world(layout.held_out).fingerprint}


def _by_skill(material: Material, plan: WorldPlan, count: int) -> dict[str, list[Question]]:
    """``count`` questions of each skill. Raises UserError when the world has not that many."""
    world, drawn = plan.generate(), 4 * count
    while True:
        questions = chain_questions(world, drawn, material.config.questions.seed, {1: 1.0})
        found = {
            skill: [question for question in questions if BY_NAME[question.meta["relations"][0]].subject in kinds][:count]
            for skill, kinds in material.config.skills.items()
        }
        if all(len(of_it) == count for of_it in found.values()):
            return found
        drawn *= 2  # the same questions and as many more


def teach(material: Material, report: Report) -> dict[str, Any]:
    """Let the teacher research every training question of each skill, through the one loop."""
    figures: dict[str, Any] = {}
    for skill in material.skills:
        store = TrajectoryStore(material.store(skill))
        done = store.ids()
        total = len(material.layout.training) * material.config.questions.per_world
        with report.task(f"Teacher's trajectories: {skill}", total, start=len(done)) as advance:
            for plan in material.layout.training:
                questions = read_questions(material.questions_file(plan, skill))
                missing = [question for question in questions if question.id not in done]
                if missing:
                    asyncio.run(_teach(material, plan, missing, store, advance))
        figures[skill] = {"trajectories": total, "right": len(material.right(skill))}
    return figures


async def _teach(
    material: Material, plan: WorldPlan, questions: list[Question], store: TrajectoryStore, advance: Advance
) -> None:
    layout = material.layout
    world = layout.open_world(plan)

    def keep(trajectory: Trajectory) -> None:
        store.append(trajectory)
        advance(1)

    await Agent(
        TeacherPolicy(plan.generate(), {question.id: question for question in questions}, material.config.teacher),
        world_tools(world, layout.profile),
        layout.profile,
        layout.clock(),
        world.name,
    ).run_many([Job(question, Seeds(run=_TEACHER_SEED), question.id) for question in questions], concurrency=32, on_done=keep)
