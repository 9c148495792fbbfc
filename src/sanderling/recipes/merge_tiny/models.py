"""The recipe's models: trained, merged along a sweep on the validation world, measured on the held-out one.

The ancestor was trained on both skills. A specialist goes on from it with one skill only, and `BOTH` with the two at once.

Each function here runs in a worker process of one thread. Measuring is `merge.sweep`'s, for the sweep and for the
held-out world alike.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from sanderling.core.chat import load_tokenizer
from sanderling.data.questions import read_questions
from sanderling.evaluate.attempts import Progress
from sanderling.evaluate.result import EvalResult
from sanderling.judge.verdict import Judge
from sanderling.merge.models import fingerprint
from sanderling.merge.report import SweepReport
from sanderling.merge.settings import TRAITS, MergeSettings
from sanderling.merge.sweep import Axis, Skill, Sweep, measure, run_sweep
from sanderling.policy.contract import Policy
from sanderling.recipes.merge_tiny.material import Material
from sanderling.recipes.tiny.layout import WorldPlan
from sanderling.recipes.tiny.measure import JUDGE
from sanderling.tools.world_tools import world_tools
from sanderling.train.config import SupervisedConfig
from sanderling.train.metrics import read_metrics

ANCESTOR, BOTH, MERGED = "ancestor", "both", "merged"


def specialist(skill: str) -> str:
    """The name of the model that was trained on one skill only."""
    return f"only-{skill}"


def model_names(skills: tuple[str, str]) -> tuple[str, ...]:
    """Every model, in the order of the tables."""
    return ANCESTOR, *map(specialist, skills), MERGED, BOTH


def model_of(material: Material, name: str) -> Path:
    """A model's directory."""
    return material.root / "sweep" / "best" if name == MERGED else material.root / name / "model"


def train_ancestor(material: Material) -> dict[str, Any]:
    """Both skills, from the base model."""
    return _train(material, ANCESTOR, material.layout.base, material.skills, material.config.ancestor)


def train_specialist(material: Material, skill: str) -> dict[str, Any]:
    """One skill only, from the ancestor."""
    return _train(material, specialist(skill), model_of(material, ANCESTOR), (skill,), material.config.specialist)


def train_both(material: Material) -> dict[str, Any]:
    """Both skills at once, from the ancestor."""
    return _train(material, BOTH, model_of(material, ANCESTOR), material.skills, material.config.both)


def _train(material: Material, name: str, start: Path, skills: tuple[str, ...], config: SupervisedConfig) -> dict[str, Any]:
    from sanderling.train.encoding import Encoding, Limit
    from sanderling.train.row_source import sft_rows
    from sanderling.train.sft.loop import run_sft

    profile = material.layout.profile
    trajectories = [trajectory for skill in skills for trajectory in material.right(skill)]
    rows, _ = sft_rows(trajectories, Encoding(load_tokenizer(start), profile), Limit(profile.budgets.max_context_tokens))
    run_sft(config, rows, start, material.root / name)
    metrics = read_metrics(material.root / name / "metrics.jsonl")
    return {"trajectories": len(trajectories), "steps": len(metrics), "final_nll": metrics[-1]["nll"]}


def sweep_models(material: Material, command: str) -> SweepReport:
    """The merges of the specialists, measured on the validation world; the best one is kept."""

    def note(model: str, skill: str, progress: Progress) -> None:
        (material.root / "sweep.count").write_text(f"{model} · {skill} {progress.done}/{progress.total}", encoding="utf-8")

    return run_sweep(_sweep(material, material.layout.validation), material.root / "sweep", command, note)


def measure_model(material: Material, name: str, command: str) -> dict[str, EvalResult]:
    """A model on both skills of the held-out world."""
    how, model = _sweep(material, material.layout.held_out), model_of(material, name)
    policy = how.open_policy(model)
    results: dict[str, EvalResult] = {}
    for skill in how.skills:
        place = material.root / "held-out" / name / skill.name
        file = place.with_name(f"{skill.name}.json")
        if not file.is_file():
            place.mkdir(parents=True, exist_ok=True)
            asyncio.run(measure(how, policy, skill, place, fingerprint(model), command, lambda _: None)).save(file)
        results[skill.name] = EvalResult.load(file)
    return results


def _sweep(material: Material, plan: WorldPlan) -> Sweep:
    """Merges of the specialists, and how every model is measured on the questions of a world."""
    from sanderling.policy.transformers_policy import TransformersPolicy

    layout, config = material.layout, material.config
    method, settings = config.sweep.method, config.evaluation

    @asynccontextmanager
    async def judge() -> AsyncIterator[Judge]:
        yield JUDGE

    def open_policy(path: Path) -> Policy:
        return TransformersPolicy.load(path, max_batch=settings.concurrency)

    def skill(name: str) -> Skill:
        world = layout.open_world(plan)
        questions = tuple(read_questions(material.questions_file(plan, name)))
        return Skill(name, questions, world_tools(world, layout.profile), world.name, world.fingerprint)

    return Sweep(
        MergeSettings(
            method=method,
            models=tuple(model_of(material, specialist(name)) for name in material.skills),
            base=model_of(material, ANCESTOR) if TRAITS[method].base else None,
        ),
        Axis.WEIGHT,
        config.sweep.values,
        tuple(skill(name) for name in material.skills),
        layout.profile,
        layout.clock(),
        open_policy,
        judge,
        JUDGE.name,
        settings.attempts,
        settings.seed,
        settings.concurrency,
    )
