"""A sweep: merges with different coefficients, each measured on several skills, and the best one kept.

    sweep = Sweep(settings, Axis.WEIGHT, (0, 0.25, 0.5, 0.75, 1), skills, ...)
    report = run_sweep(sweep, Path("sweep"), command_line())

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
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from itertools import product
from math import dist
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from sanderling import __version__
from sanderling.agent.agent import Agent
from sanderling.core.errors import UserError
from sanderling.core.profiles import Profile
from sanderling.core.record import Question
from sanderling.core.types import Clock
from sanderling.evaluate.attempts import Counting, Progress
from sanderling.evaluate.result import EvalResult
from sanderling.evaluate.run import evaluate_async
from sanderling.judge.verdict import Judge
from sanderling.merge.models import fingerprint, open_models
from sanderling.merge.report import SweepReport, gain, measured, page
from sanderling.merge.run import merge, read_merge, require_mergekit
from sanderling.merge.settings import MergeSettings, Method
from sanderling.policy.contract import Policy
from sanderling.runs.files import replace_file
from sanderling.runs.provenance import machine
from sanderling.runs.run import Run
from sanderling.runs.run_record import RunRecord
from sanderling.tools.contract import Tool

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
class Sweep:
    """What is swept, and how every model is measured, the same for all."""

    settings: MergeSettings
    axis: Axis
    values: tuple[float, ...]
    skills: tuple[Skill, ...]
    profile: Profile
    clock: Clock
    open_policy: Callable[[Path], Policy]
    open_judge: Callable[[], AbstractAsyncContextManager[Judge]]
    judge: str
    """What judges, for the record."""
    attempts: int = 1
    seed: int = 0
    concurrency: int = 8
    device: str = "cpu"
    """Where models run and what they compute in, as `open_policy` has it: a record says it, and sweeps are told apart by it."""
    dtype: str = "float32"


@dataclass(frozen=True)
class Point:
    """One merge of a sweep."""

    at: tuple[float, ...]
    """Where it lies: the value, or the shares of more than two models."""
    settings: MergeSettings

    @property
    def name(self) -> str:
        return ":".join(f"{value:g}" for value in self.at)


Results = dict[str, EvalResult]
"""By skill."""
OnProgress = Callable[[str, str, Progress], None]
"""``(model, skill, progress)``."""


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
    if axis is not Axis.WEIGHT or settings.method is Method.SLERP:
        key = "t" if axis is Axis.WEIGHT else axis.value
        return [Point((value,), _with(settings, axis, value, {key: value})) for value in values]
    if len(settings.models) == 2:
        return [Point((value,), _with(settings, axis, value, {"weights": (1.0 - value, value)})) for value in values]
    if min(values) < 0:
        raise UserError("A sweep over the shares of more than two models needs values from 0 to 1.")
    shares = ((1.0 - sum(others), *others) for others in product(sorted(values), repeat=len(settings.models) - 1))
    found = [tuple(max(0.0, round(share, 9)) for share in one) for one in shares if one[0] > -1e-9]
    if not found:
        raise UserError("No combination of these values leaves the first model a share: add 0, or smaller ones.")
    return [Point(one, _with(settings, axis, one[1], {"weights": one})) for one in found]


def _with(settings: MergeSettings, axis: Axis, value: float, changed: dict[str, object]) -> MergeSettings:
    """The merge at one point. Raises UserError for a value that cannot be one."""
    try:
        return MergeSettings.model_validate({**settings.model_dump(exclude_unset=True), **changed})
    except ValidationError as error:
        why = error.errors()[0]["msg"].removeprefix("Value error, ")
        raise UserError(f"There is no merge at {axis} {value:g} ({why}): choose other values.") from error


def best(means: Mapping[tuple[float, ...], float | None]) -> tuple[float, ...] | None:
    """Where the best point lies, by the rule above; None when no point has a mean."""
    middle = [(min(values) + max(values)) / 2 for values in zip(*means, strict=True)]
    known = {at: mean for at, mean in means.items() if mean is not None}
    return min(known, key=lambda at: (-known[at], dist(at, middle), at), default=None)


def run_sweep(sweep: Sweep, out: Path, command: str, on_progress: OnProgress | None = None) -> SweepReport:
    """Sweep, or go on; writes ``sweep.json``, ``sweep.html`` and ``best/``. Raises UserError as `merge` and `evaluate` do."""
    points = sweep_points(sweep.settings, sweep.axis, sweep.values)
    require_mergekit()
    names = [skill.name for skill in sweep.skills]
    if not names or len(set(names)) != len(names):
        raise UserError("A sweep needs skills with different names: give --skill NAME=QUESTIONS for each.")
    empty = next((skill.name for skill in sweep.skills if not skill.questions), None)
    if empty is not None:
        raise UserError(f"The skill {empty} has no questions: give a file that holds some.")
    inputs = [(model.path, fingerprint(model.path)) for model in open_models(sweep.settings.directories)]
    RunRecord(out, "sweep").check_empty()
    started = time.monotonic()
    with Run(out) as run:
        how = identity(sweep, [sha256 for _, sha256 in inputs])
        run.claim(how, "sweep", _WAY_OUT)
        worker = _Worker(sweep, run, command, on_progress)
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
            _keep(chosen[0], chosen[1], out / "best", command)
            rival = next((results for name, _, results in of_inputs if better and name == better.name), None)
            found = gain(chosen[2], rival, better.name) if better and rival else None
        report = SweepReport(
            command=command,
            settings=sweep.settings,
            axis=sweep.axis.value,
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
        replace_file(out / REPORT, report.model_dump_json(indent=1) + "\n")
        replace_file(out / PAGE, page(report))
    return report


def identity(sweep: Sweep, inputs: Sequence[str]) -> dict[str, Any]:
    """What all figures depend on, and no path."""
    asked = {
        skill.name: hashlib.sha256("\n".join(one.model_dump_json() for one in skill.questions).encode()).hexdigest()
        for skill in sweep.skills
    }
    return {
        "merge": sweep.settings.model_dump(mode="json", exclude={"models", "base", "tokenizer"}),
        "over": sweep.axis.value,
        "weights of inputs": list(inputs),
        "questions": asked,
        "worlds": {skill.name: [skill.world_sha256, skill.search] for skill in sweep.skills},
        "profile": sweep.profile.name,
        "attempts": sweep.attempts,
        "seed": sweep.seed,
        "device": sweep.device,
        "dtype": sweep.dtype,
        "judge": sweep.judge,
    }


@dataclass(frozen=True)
class _Worker:
    """Merges and measures, unless that was done before."""

    sweep: Sweep
    run: Run
    command: str
    on_progress: OnProgress | None

    def point(self, point: Point) -> tuple[str, Results]:
        """The hash of the weights and the results at one point."""
        done = self.run.table("points")
        sha256 = done.get(point.name)
        if sha256 is not None and not self._missing(sha256):
            return sha256, self._results(sha256)
        model = self.run.directory / "model"
        sha256 = merge(point.settings, model, self.command).sha256
        results = self.measure(model, sha256, f"{self.sweep.axis} {point.name}")
        done.put(point.name, sha256)
        return sha256, results

    def measure(self, model: Path, sha256: str, name: str) -> Results:
        """A model's results on every skill; it is opened only when one is missing."""
        missing = self._missing(sha256)
        policy = self.sweep.open_policy(model) if missing else None
        for skill in missing:
            assert policy is not None

            def show(progress: Progress, skill: Skill = skill) -> None:
                if self.on_progress is not None:
                    self.on_progress(name, skill.name, progress)

            place = self.run.directory / "measured" / sha256[:16] / skill.name
            result = asyncio.run(measure(self.sweep, policy, skill, place, sha256, self.command, show))
            key = _key(sha256, skill)
            self.run.table("results").put(key, result.pass_at_1.value, blob=result.model_dump_json().encode())
        return self._results(sha256)

    def _missing(self, sha256: str) -> list[Skill]:
        return [skill for skill in self.sweep.skills if _key(sha256, skill) not in self.run.table("results")]

    def _results(self, sha256: str) -> Results:
        table = self.run.table("results")
        return {
            skill.name: EvalResult.model_validate_json(table.blob(_key(sha256, skill)) or b"") for skill in self.sweep.skills
        }


def _key(sha256: str, skill: Skill) -> str:
    return f"{sha256} {skill.name}"


async def measure(
    sweep: Sweep,
    policy: Policy,
    skill: Skill,
    place: Path,
    sha256: str,
    command: str,
    on_progress: Callable[[Progress], None],
) -> EvalResult:
    """The figures of one model on one skill; unfinished episodes of other weights are not gone on with."""
    agent = Agent(policy, skill.tools, sweep.profile, sweep.clock, skill.world, skill.world_sha256)
    async with sweep.open_judge() as judge:
        return await evaluate_async(
            agent,
            skill.questions,
            judge,
            place,
            attempts=sweep.attempts,
            seed=sweep.seed,
            concurrency=sweep.concurrency,
            weights=f"{sha256} over {skill.world_sha256}",
            command=command,
            watch=Counting(len(skill.questions) * sweep.attempts, on_progress),
        )


def _keep(point: Point, sha256: str, place: Path, command: str) -> None:
    """Merge the best point once more, unless it is there."""
    if (place / "merge.json").is_file() and read_merge(place).sha256 == sha256:
        return
    if merge(point.settings, place, command).sha256 != sha256:
        raise UserError(
            f"{place} came out otherwise than the model that was measured: the inputs were changed, so sweep again."
        )
