"""A sweep: merges with different coefficients, each measured on several skills, and the best one kept.

The inputs are measured first, so that one sees what a merge has to keep. One merged model is on the disk at a time; what was
measured is filed by the SHA-256 of its weights, so that equal weights are measured once. A killed call resumes, amid an
episode too; further values are added to those measured.

The best point has the highest mean over skills of pass@1, each skill weighing the same; of equal ones, the nearest to the
middle of the measured values, and of two as near, the smaller. It is merged once more at the end and has to be the same.
"""

import asyncio
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Any

from pydantic import Field, ValidationError
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from sanderling import __version__
from sanderling.agent.opening import AgentConfig, opened_agent, profile_of
from sanderling.agent.places import world_directories
from sanderling.core.config import Frozen
from sanderling.core.errors import UserError
from sanderling.core.plugins import code_of
from sanderling.core.record import Question
from sanderling.core.types import Clock
from sanderling.data.questions import read_questions, require_distinct
from sanderling.evaluate.log import sha256_of_questions
from sanderling.evaluate.result import Estimate, EvalResult
from sanderling.evaluate.run import evaluate_async
from sanderling.judge.opening import JudgeConfig, check_judges, opened_judges
from sanderling.merge.run import check_models, fingerprint, merge, read_merge, require_mergekit
from sanderling.merge.settings import MergeSettings, Method
from sanderling.policy import load
from sanderling.policy.budget import BudgetConfig, Spending
from sanderling.policy.contract import Policy
from sanderling.report.numbers import percent, span
from sanderling.runs.files import replace_file
from sanderling.runs.progress import Report
from sanderling.runs.run import Run
from sanderling.runs.stages import RunRecord
from sanderling.world.disk.store import read_manifest

REPORT = "sweep.json"


class Axis(StrEnum):
    """The coefficient that is swept."""

    WEIGHT = "weight"  # the second of two models' share, the first has what is left (slerp: t)
    SCALE = "scale"
    DENSITY = "density"


class SweptAgent(AgentConfig):
    """Who researches: each input and each merge in turn, in this process."""

    model: str = ""
    concurrency: int = Field(default=32, ge=1)


class SweepConfig(Frozen):
    """What is swept, and how every model is measured."""

    merge: MergeSettings
    over: Axis = Axis.WEIGHT  # the coefficient that is swept
    values: tuple[float, ...] = (0.0, 0.25, 0.5, 0.75, 1.0)  # its values
    skills: dict[str, Path]  # files of questions, by what a model can do that answers them
    agent: SweptAgent = SweptAgent()
    attempts: int = Field(default=1, ge=1)  # attempts at each question
    judge: JudgeConfig = JudgeConfig(judges=("exact",))
    budget: BudgetConfig = BudgetConfig()


class Measured(Frozen):
    """A model's figures: pass@1 by skill, and the mean, each skill weighing the same (None where one has no figure)."""

    name: str  # of an input: its directory. Of a point: its value.
    at: float | None = None
    sha256: str
    skills: dict[str, Estimate]
    mean: float | None


class SweepReport(Frozen):
    """A finished sweep: its inputs, and every point that was measured, the values of earlier calls included."""

    command: str
    settings: MergeSettings
    axis: Axis
    how: dict[str, Any]  # all that figures depend on: questions, worlds, profile, agent, judges, attempts
    inputs: tuple[Measured, ...]
    points: tuple[Measured, ...]
    best: float | None
    version: str
    date: str

    @property
    def chosen(self) -> Measured | None:
        return next((point for point in self.points if point.at == self.best), None)

    def table(self) -> Table:
        """Inputs and points with every skill, intervals, and the mean."""
        skills = list(self.inputs[0].skills)
        table = Table(self.axis, *map(escape, skills), "mean", header_style="bold")
        for item in (*self.inputs, *self.points):
            name = item.name + (" (best)" if item == self.chosen else "")
            cells = [f"{percent(item.skills[skill].value)} ({span(item.skills[skill].interval)})" for skill in skills]
            table.add_row(*map(Text, (name, *cells, percent(item.mean))), style="bold" if item == self.chosen else "")
        return table


def settings_along(settings: MergeSettings, axis: Axis, values: Sequence[float]) -> dict[float, MergeSettings]:
    """The merge at each point of a sweep. Raises UserError for a sweep that is none."""
    if axis is Axis.WEIGHT and settings.weights:
        raise UserError("A sweep over weight sets the weights: leave --weight out.")
    if axis is Axis.WEIGHT and len(settings.models) != 2:
        raise UserError(f"A sweep over weight lies between two models, and {len(settings.models)} were given: give two.")
    if axis is not Axis.WEIGHT and not getattr(settings.traits, "base" if axis is Axis.SCALE else "density"):
        raise UserError(f"{settings.method} has no {axis}: sweep another coefficient.")
    if not values or len({f"{value:g}" for value in values}) != len(values):
        raise UserError("A sweep needs different values: write for example [0, 0.25, 0.5, 0.75, 1].")
    return {at: _settings_at(settings, axis, at) for at in values}


def _settings_at(settings: MergeSettings, axis: Axis, at: float) -> MergeSettings:
    changed: dict[str, Any] = {axis.value: at}
    if axis is Axis.WEIGHT:
        changed = {"t": at} if settings.method is Method.SLERP else {"weights": (1.0 - at, at)}
    try:
        return MergeSettings.model_validate({**settings.model_dump(exclude_unset=True), **changed})
    except ValidationError as error:
        why = error.errors()[0]["msg"].removeprefix("Value error, ")
        raise UserError(f"There is no merge at {axis} {at:g} ({why}): choose other values.") from error


def best(means: Mapping[float, float | None]) -> float | None:
    """Where the best point lies, by the rule above; None when no point has a mean."""
    known = {at: mean for at, mean in means.items() if mean is not None}
    middle = (min(means) + max(means)) / 2 if means else 0.0
    return min(known, key=lambda at: (-known[at], abs(at - middle), at), default=None)


def run_sweep(config: SweepConfig, out: Path, command: str, report: Report, *, clock: Clock | None = None) -> SweepReport:
    """Sweep, or go on; writes ``sweep.json`` and ``best/``. Raises UserError as `merge` and `evaluate` do."""
    asked = settings_along(config.merge, config.over, config.values)
    require_mergekit()
    questions = {name: read_questions(file) for name, file in config.skills.items()}
    for of_skill in questions.values():
        require_distinct(of_skill)
    if not questions:
        raise UserError("A sweep needs skills, each with questions: give --skill NAME=QUESTIONS.")
    if silent := [one.id for of_skill in questions.values() for one in of_skill if not one.answers]:
        raise UserError(f"Question {silent[0]!r} has no accepted answer: add one, or leave the question out.")
    check_judges(config.judge)
    check_models(config.merge.directories)
    inputs = {path: fingerprint(path) for path in config.merge.directories}
    how = _identity(config, list(inputs.values()), questions)
    RunRecord(out, "sweep").check_empty()
    with Run(out) as run:
        run.claim(how, "sweep", "choose another directory with --out")
        worker = _Worker(config, questions, run, command, report, clock)
        of_inputs = tuple(worker.measure(path, sha256, str(path)) for path, sha256 in inputs.items())
        for at, settings in asked.items():
            worker.point(at, settings)
        shutil.rmtree(out / "model", ignore_errors=True)
        points = tuple(sorted(worker.points(), key=lambda point: point.at or 0.0))
        chosen = best({point.at: point.mean for point in points if point.at is not None})
        if chosen is not None:
            worker.keep(chosen)
        told = {"command": command, "version": __version__, "date": datetime.now(UTC).isoformat(timespec="seconds"), "how": how}
        found = {"settings": config.merge, "axis": config.over, "inputs": of_inputs, "points": points, "best": chosen}
        finished = SweepReport.model_validate(told | found)
        replace_file(out / REPORT, finished.model_dump_json(indent=1) + "\n")
    return finished


def _identity(config: SweepConfig, inputs: Sequence[str], questions: Mapping[str, Sequence[Question]]) -> dict[str, Any]:
    """What all figures depend on, and no path."""
    everything, agent = [question for asked in questions.values() for question in asked], config.agent
    return {
        "merge": config.merge.model_dump(mode="json", exclude={"models", "base"}),
        "over": config.over.value,
        "weights of inputs": list(inputs),
        "questions": {name: sha256_of_questions(asked) for name, asked in questions.items()},
        "worlds": [read_manifest(path).fingerprint for path in world_directories(agent.worlds, everything).values()],
        "profile": profile_of(agent).model_dump(mode="json", exclude={"source"}),
        "agent": agent.model_dump(mode="json", include={"search", "seed", "device", "dtype", "tools", "filters"})
        | {"reader": agent.reader.model},
        "attempts": config.attempts,
        "judges": list(config.judge.judges),
        "code": code_of([*agent.tools, *agent.filters, agent.reader.model, *config.judge.judges]),
    }


@dataclass(frozen=True)
class _Worker:
    """Merges and measures, unless that was done before."""

    config: SweepConfig
    questions: Mapping[str, Sequence[Question]]
    run: Run
    command: str
    report: Report
    clock: Clock | None

    def point(self, at: float, settings: MergeSettings) -> None:
        done, model = self.run.table("points"), self.run.directory / "model"
        if f"{at:g}" not in done:
            sha256 = merge(settings, model, self.command).sha256
            self.measure(model, sha256, f"{self.config.over} {at:g}")
            done.put(f"{at:g}", [sha256, at])

    def points(self) -> list[Measured]:
        return [self._figures(name, sha256, at) for name, (sha256, at) in self.run.table("points").items()]

    def measure(self, model: Path, sha256: str, name: str) -> Measured:
        """A model's figures on every skill; it is opened only when one is missing."""
        done, agent = self.run.table("results"), self.config.agent
        missing = [skill for skill in self.questions if f"{sha256} {skill}" not in done]
        if missing:
            policy = load.open_policy(str(model), device=agent.device, dtype=agent.dtype, max_batch=agent.concurrency)
            for skill in missing:
                result = asyncio.run(self._measure(policy, model, sha256, name, skill))
                nothing = result.pass_at_1.model_copy(update={"value": None, "interval": None})
                done.put(f"{sha256} {skill}", (result.pass_at_1 if result.valid else nothing).model_dump(mode="json"))
        return self._figures(name, sha256)

    def _figures(self, name: str, sha256: str, at: float | None = None) -> Measured:
        done = self.run.table("results")
        skills = {skill: Estimate.model_validate(done.get(f"{sha256} {skill}")) for skill in self.questions}
        values = [score.value for score in skills.values() if score.value is not None]
        mean = sum(values) / len(values) if len(values) == len(skills) else None
        return Measured(name=name, at=at, sha256=sha256, skills=skills, mean=mean)

    async def _measure(self, policy: Policy, model: Path, sha256: str, name: str, skill: str) -> EvalResult:
        """One model on one skill; unfinished episodes of other weights are not gone on with."""
        config, asked = self.config, self.questions[skill]
        agent = config.agent.model_copy(update={"model": str(model)})
        spending = Spending(self.run.directory, config.budget)
        self.report.say(f"{name}: {skill}, {len(asked) * config.attempts} attempts")
        async with (
            opened_agent(agent, asked, policy=policy, clock=self.clock) as researcher,
            opened_judges(config.judge, spending, concurrency=agent.concurrency) as (judge, _),
        ):
            assert judge is not None
            place = self.run.directory / "measured" / sha256[:16] / skill
            how = {"attempts": config.attempts, "seed": agent.seed, "concurrency": agent.concurrency, "command": self.command}
            researcher = replace(researcher, place=sha256)  # not when and where the weights were merged
            weights = f"{sha256} over {researcher.fingerprint}"
            return await evaluate_async(researcher, asked, judge, place, weights=weights, **how)

    def keep(self, at: float) -> None:
        """Merge the best point once more, unless it is there."""
        place, sha256 = self.run.directory / "best", self.run.table("points").get(f"{at:g}")[0]
        if (place / "merge.json").is_file() and read_merge(place).sha256 == sha256:
            return
        if merge(_settings_at(self.config.merge, self.config.over, at), place, self.command).sha256 != sha256:
            raise UserError(f"{place} is not the model that was measured: the inputs were changed, so sweep again.")
