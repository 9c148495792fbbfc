"""A sweep: merges with different coefficients, each measured on several skills, and the best one kept.

    merging = MergeSettings(method=Method.LINEAR, models=(Path("a"), Path("b")))
    skills = {"people": Path("people.jsonl"), "things": Path("things.jsonl")}
    config = SweepConfig(merge=merging, skills=skills, agent=SweptAgent(worlds=(Path("worlds/validation"),)))
    report = run_sweep(config, Path("sweep"), command_line(), Report(Console()))

The inputs are measured first, so that one sees what a merge has to keep. One merged model is on the disk at a time; what was
measured is filed by the SHA-256 of its weights, so that equal weights (a point at the end of the axis is often an input, bit
for bit) are measured once. Killed, the same call goes on, amid an episode too.

The best point has the highest mean over skills of pass@1, each skill weighing the same; of equal ones, the nearest to the
middle of the swept values, and of two as near, the smaller. It is merged once more at the end and has to be the same.
"""

import asyncio
import hashlib
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from enum import StrEnum
from itertools import product
from math import dist
from pathlib import Path
from typing import Any

from pydantic import Field, ValidationError

from sanderling import __version__
from sanderling.agent.opening import AgentConfig, opened_agent, opened_places, profile_of
from sanderling.core.config import Frozen
from sanderling.core.errors import UserError
from sanderling.core.record import Question
from sanderling.core.types import Clock
from sanderling.data.questions import read_questions, require_distinct
from sanderling.evaluate.attempts import Counting, Progress
from sanderling.evaluate.result import EvalResult
from sanderling.evaluate.run import evaluate_async
from sanderling.judge.opening import JudgeConfig, opened_judges
from sanderling.merge.models import fingerprint, open_models
from sanderling.merge.report import SweepReport, gain, measured, page
from sanderling.merge.run import merge, read_merge, require_mergekit
from sanderling.merge.settings import MergeSettings, Method
from sanderling.policy import load
from sanderling.policy.budget import BudgetConfig, Spending
from sanderling.policy.contract import Policy
from sanderling.runs.files import replace_file
from sanderling.runs.progress import Report
from sanderling.runs.provenance import machine
from sanderling.runs.run import Run
from sanderling.runs.run_record import RunRecord

REPORT, PAGE = "sweep.json", "sweep.html"
_WAY_OUT = "choose another directory with --out"


class Axis(StrEnum):
    """The coefficient that is swept."""

    WEIGHT = "weight"
    """The second model's share, the first has what is left (slerp: t). Of more models each but the first takes every value, in
    all combinations that leave the first no less than 0."""
    SCALE = "scale"
    """λ of the methods with a base."""
    DENSITY = "density"


class SweptAgent(AgentConfig):
    """Who researches: each input and each merge in turn, in this process."""

    model: str = ""
    concurrency: int = Field(default=32, ge=1)


class SweepConfig(Frozen):
    """What is swept, and how every model is measured."""

    merge: MergeSettings
    over: Axis = Axis.WEIGHT
    values: tuple[float, ...] = (0.0, 0.25, 0.5, 0.75, 1.0)
    skills: dict[str, Path]
    """Files of questions, by what a model can do that answers them."""
    agent: SweptAgent = SweptAgent()
    attempts: int = Field(default=1, ge=1)
    """At each question."""
    judge: JudgeConfig = JudgeConfig(judges=("exact",))
    budget: BudgetConfig = BudgetConfig()


# -- points --------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Point:
    """One merge of a sweep."""

    at: tuple[float, ...]
    """Where it lies: the value, or the shares of more than two models."""
    settings: MergeSettings

    @property
    def name(self) -> str:
        return ":".join(f"{value:g}" for value in self.at)


def sweep_points(settings: MergeSettings, axis: Axis, values: Sequence[float]) -> list[Point]:
    """The merges of a sweep. Raises UserError for a sweep that is none."""
    if axis is Axis.WEIGHT and settings.weights:
        raise UserError("A sweep over weight sets the weights: leave --weight out.")
    if axis is Axis.WEIGHT and len(settings.models) < 2:
        raise UserError("A sweep over weight lies between models, and one was given: sweep scale.")
    if axis is not Axis.WEIGHT and not settings.traits.base:
        raise UserError(f"{settings.method} has no {axis}: sweep weight.")
    if axis is Axis.DENSITY and not settings.traits.density:
        raise UserError(f"{settings.method} has no density: sweep scale or weight.")
    if not values or len({f"{value:g}" for value in values}) != len(values):
        raise UserError("A sweep needs different values: write for example 0,0.25,0.5,0.75,1.")

    def point(at: tuple[float, ...], changed: dict[str, object]) -> Point:
        try:
            return Point(at, MergeSettings.model_validate({**settings.model_dump(exclude_unset=True), **changed}))
        except ValidationError as error:
            why = error.errors()[0]["msg"].removeprefix("Value error, ")
            where = ":".join(f"{value:g}" for value in at)
            raise UserError(f"There is no merge at {axis} {where} ({why}): choose other values.") from error

    if axis is not Axis.WEIGHT or settings.method is Method.SLERP:
        key = "t" if axis is Axis.WEIGHT else axis.value
        return [point((value,), {key: value}) for value in values]
    if len(settings.models) == 2:
        return [point((value,), {"weights": (1.0 - value, value)}) for value in values]
    if min(values) < 0:
        raise UserError("A sweep over the shares of more than two models needs values from 0 to 1.")
    shares = ((1.0 - sum(others), *others) for others in product(sorted(values), repeat=len(settings.models) - 1))
    found = [tuple(max(0.0, round(share, 9)) for share in one) for one in shares if one[0] > -1e-9]
    if not found:
        raise UserError("No combination of these values leaves the first model a share: add 0, or smaller ones.")
    return [point(one, {"weights": one}) for one in found]


def best(means: Mapping[tuple[float, ...], float | None]) -> tuple[float, ...] | None:
    """Where the best point lies, by the rule above; None when no point has a mean."""
    middle = [(min(values) + max(values)) / 2 for values in zip(*means, strict=True)]
    known = {at: mean for at, mean in means.items() if mean is not None}
    return min(known, key=lambda at: (-known[at], dist(at, middle), at), default=None)


# -- the sweep -----------------------------------------------------------------------------------------------------------


Results = dict[str, EvalResult]
"""By skill."""
OpenModel = Callable[..., Policy]
"""As `policy.load.open_policy`."""


def run_sweep(
    config: SweepConfig,
    out: Path,
    command: str,
    report: Report,
    *,
    clock: Clock | None = None,
    open_model: OpenModel | None = None,
) -> SweepReport:
    """Sweep, or go on; writes ``sweep.json``, ``sweep.html`` and ``best/``. Raises UserError as `merge` and `evaluate` do."""
    points = sweep_points(config.merge, config.over, config.values)
    require_mergekit()
    questions = {name: read_questions(file) for name, file in config.skills.items()}
    for asked in questions.values():
        require_distinct(asked)
    if not questions or not all(questions.values()):
        empty = next((name for name, asked in questions.items() if not asked), None)
        why = f"The skill {empty} has no questions" if empty else "A sweep needs skills"
        raise UserError(f"{why}: give --skill NAME=QUESTIONS, with a file that holds some.")
    inputs = [(model.path, fingerprint(model.path)) for model in open_models(config.merge.directories)]
    how = asyncio.run(_identity(config, [sha256 for _, sha256 in inputs], questions))
    RunRecord(out, "sweep").check_empty()
    started = time.monotonic()
    with Run(out) as run:
        run.claim(how, "sweep", _WAY_OUT)
        worker = _Worker(config, questions, run, command, report, clock, open_model or load.open_policy)
        of_inputs = [(str(path), sha256, worker.measure(path, sha256, str(path))) for path, sha256 in inputs]
        of_points = [(point, *worker.point(point)) for point in points]
        shutil.rmtree(out / "model", ignore_errors=True)
        shown_inputs = [measured(name, (), sha256, results) for name, sha256, results in of_inputs]
        shown = [measured(point.name, point.at, sha256, results) for point, sha256, results in of_points]
        place = best({one.at: one.mean.value if one.mean else None for one in shown})
        chosen = next(((point, sha256, results) for point, sha256, results in of_points if point.at == place), None)
        better = max((one for one in shown_inputs if one.mean), key=lambda one: one.mean_value, default=None)
        found = None
        if chosen is None:
            shutil.rmtree(out / "best", ignore_errors=True)  # of other values: this report does not name it
        else:
            worker.keep(chosen[0], chosen[1])
            rival = next((results for name, _, results in of_inputs if better and name == better.name), None)
            found = gain(chosen[2], rival, better.name) if better and rival else None
        finished = SweepReport(
            command=command,
            settings=config.merge,
            axis=config.over.value,
            how=how,
            inputs=tuple(shown_inputs),
            points=tuple(shown),
            best=place,
            gain=found,
            version=__version__,
            machine=machine(),
            date=datetime.now(UTC).isoformat(timespec="seconds"),
            seconds=round(time.monotonic() - started, 1),
        )
        replace_file(out / REPORT, finished.model_dump_json(indent=1) + "\n")
        replace_file(out / PAGE, page(finished))
    return finished


async def _identity(config: SweepConfig, inputs: Sequence[str], questions: Mapping[str, Sequence[Question]]) -> dict[str, Any]:
    """What all figures depend on, and no path."""
    everything = [question for asked in questions.values() for question in asked]
    profile = profile_of(config.agent)
    async with opened_places(config.agent, profile, everything) as places:
        worlds = {place.name: place.fingerprint for place in places.values()}
    asked = {
        name: hashlib.sha256("\n".join(one.model_dump_json() for one in of_it).encode()).hexdigest()
        for name, of_it in questions.items()
    }
    return {
        "merge": config.merge.model_dump(mode="json", exclude={"models", "base", "tokenizer"}),
        "over": config.over.value,
        "weights of inputs": list(inputs),
        "questions": asked,
        "worlds": worlds,
        "profile": profile.model_dump(mode="json", exclude={"source"}),
        "agent": config.agent.model_dump(mode="json", include={"search", "seed", "device", "dtype", "tools", "filters"})
        | {"reader": config.agent.reader.model},
        "attempts": config.attempts,
        "judges": list(config.judge.judges),
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
    open_model: OpenModel

    def point(self, point: Point) -> tuple[str, Results]:
        """The hash of the weights and the results at one point."""
        done = self.run.table("points")
        sha256 = done.get(point.name)
        if sha256 is not None and not self._missing(sha256):
            return sha256, self._results(sha256)
        model = self.run.directory / "model"
        sha256 = merge(point.settings, model, self.command).sha256
        results = self.measure(model, sha256, f"{self.config.over} {point.name}")
        done.put(point.name, sha256)
        return sha256, results

    def measure(self, model: Path, sha256: str, name: str) -> Results:
        """A model's results on every skill; it is opened only when one is missing."""
        missing, agent = self._missing(sha256), self.config.agent
        if missing:
            how = {"device": agent.device, "dtype": agent.dtype, "max_batch": agent.concurrency}
            policy = self.open_model(str(model), **how)
            for skill in missing:
                result = asyncio.run(self._measure(policy, model, sha256, name, skill))
                self.run.table("results").put(f"{sha256} {skill}", None, blob=result.model_dump_json().encode())
        return self._results(sha256)

    async def _measure(self, policy: Policy, model: Path, sha256: str, name: str, skill: str) -> EvalResult:
        """The figures of one model on one skill; unfinished episodes of other weights are not gone on with."""
        config, asked = self.config, self.questions[skill]
        agent = config.agent.model_copy(update={"model": str(model)})
        spending = Spending(self.run.directory, config.budget)
        total, seen = len(asked) * config.attempts, 0
        with self.report.task(f"{name}: {skill}", total) as advance:

            def show(now: Progress) -> None:
                nonlocal seen
                advance(now.done - seen)
                seen = now.done

            async with (
                opened_agent(agent, asked, policy=policy, clock=self.clock) as researcher,
                opened_judges(config.judge, spending, concurrency=agent.concurrency) as (judge, _),
            ):
                if judge is None:
                    raise UserError("No judge is named: give --judge.")
                return await evaluate_async(
                    replace(researcher, place=sha256),  # not when and where the weights were merged
                    asked,
                    judge,
                    self.run.directory / "measured" / sha256[:16] / skill,
                    attempts=config.attempts,
                    seed=agent.seed,
                    concurrency=agent.concurrency,
                    weights=f"{sha256} over {researcher.fingerprint}",
                    command=self.command,
                    watch=Counting(total, show),
                )

    def keep(self, point: Point, sha256: str) -> None:
        """Merge the best point once more, unless it is there."""
        place = self.run.directory / "best"
        if (place / "merge.json").is_file() and read_merge(place).sha256 == sha256:
            return
        if merge(point.settings, place, self.command).sha256 != sha256:
            raise UserError(
                f"{place} came out otherwise than the model that was measured: the inputs were changed, so sweep again."
            )

    def _missing(self, sha256: str) -> list[str]:
        done = self.run.table("results")
        return [skill for skill in self.questions if f"{sha256} {skill}" not in done]

    def _results(self, sha256: str) -> Results:
        done = self.run.table("results")
        return {skill: EvalResult.model_validate_json(done.blob(f"{sha256} {skill}") or b"null") for skill in self.questions}
