"""A sweep: merges along an axis, each measured on several skills, and the best one kept.

The inputs are measured first, so that one sees what a merge has to keep. One merged model is on the disk at a time; what was
measured is filed by the SHA-256 of its weights, so that equal weights (a point at the end of the axis is often an input, bit
for bit) are measured once. A point is finished when its file stands in ``points/``; killed, the same call goes on with the
attempts that are missing. The best model, by the rule of `axis`, is merged once more at the end and has to be the same.
"""

import hashlib
import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from sanderling import __version__
from sanderling.core.errors import UserError
from sanderling.evaluate.result import EvalResult
from sanderling.evaluate.run import Progress
from sanderling.merge.axis import RULE, Axis, at, check_axis, label
from sanderling.merge.extra import require_mergekit
from sanderling.merge.inputs import open_models
from sanderling.merge.measuring import Measuring, Skill, measure
from sanderling.merge.report import SweepReport, best_value, better_input, gain, measured
from sanderling.merge.run import merge, read_merge
from sanderling.merge.settings import MergeSettings
from sanderling.runs.files import replace_file
from sanderling.runs.locks import LOCK, locked
from sanderling.runs.provenance import machine

REPORT = "sweep.json"
_SETTINGS = "settings.json"

Results = dict[str, EvalResult]
OnProgress = Callable[[str, str, Progress], None]
"""``(model, skill, progress)``."""


@dataclass(frozen=True)
class Sweep:
    """What is swept, and on what it is measured."""

    settings: MergeSettings
    axis: Axis
    values: tuple[float, ...]
    skills: tuple[Skill, ...]
    how: Measuring
    judge: str
    """What judges, for the record."""


class _Point(BaseModel):
    """What stands for a point that is finished."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    value: float
    sha256: str


def run_sweep(sweep: Sweep, out: Path, command: str, on_progress: OnProgress | None = None) -> SweepReport:
    """Sweep, or go on; writes ``out/sweep.json`` and ``out/best``. Raises UserError as `merge` and `evaluate` do."""
    check_axis(sweep.settings, sweep.axis, sweep.values)
    require_mergekit()
    _check_skills(sweep.skills)
    inputs = _input_hashes(sweep.settings)
    if out.exists() and not out.is_dir():
        raise UserError(f"{out} is no directory: choose another with --out.")
    with locked(out):
        _claim(sweep, inputs, out)
        return _run(sweep, inputs, out, command, on_progress)


def _run(
    sweep: Sweep, inputs: Sequence[tuple[Path, str]], out: Path, command: str, on_progress: OnProgress | None
) -> SweepReport:
    started = time.monotonic()
    runner = _Runner(sweep, out, command, on_progress)
    of_inputs = [(str(path), sha, runner.measure(path, sha, str(path))) for path, sha in inputs]
    of_points = [(value, *runner.point(value)) for value in sweep.values]
    shutil.rmtree(out / "model", ignore_errors=True)
    told_inputs = tuple(measured(name, None, sha, results) for name, sha, results in of_inputs)
    told_points = tuple(measured(label(value), value, sha, results) for value, sha, results in of_points)
    value, rival = best_value(told_points), better_input(told_inputs)
    by_name = {name: results for name, _, results in of_inputs}
    found = {value: (sha, results) for value, sha, results in of_points}
    if value is not None:
        _keep(sweep, value, found[value][0], out / "best", command)
    else:
        shutil.rmtree(out / "best", ignore_errors=True)  # of other values: this report does not name it
    report = SweepReport(
        command=command,
        settings=sweep.settings,
        axis=sweep.axis,
        rule=RULE,
        profile=sweep.how.profile.name,
        judge=sweep.judge,
        attempts=sweep.how.attempts,
        seed=sweep.how.seed,
        device=sweep.how.device,
        run_dtype=sweep.how.dtype,
        search={skill.name: skill.search for skill in sweep.skills},
        inputs=told_inputs,
        points=told_points,
        best=value,
        gain=gain(found[value][1], by_name[rival.name], rival.name) if value is not None and rival is not None else None,
        model="best" if value is not None else "",
        version=__version__,
        machine=machine(),
        date=datetime.now(UTC).isoformat(timespec="seconds"),
        seconds=round(time.monotonic() - started, 1),
    )
    report.save(out / REPORT)
    return report


@dataclass(frozen=True)
class _Runner:
    """Merges and measures, unless that was done before."""

    sweep: Sweep
    out: Path
    command: str
    on_progress: OnProgress | None

    def point(self, value: float) -> tuple[str, Results]:
        """The weights' hash and the results at one point."""
        file = self.out / "points" / f"{label(value)}.json"
        if file.is_file():
            sha256 = _read(file).sha256
            if not self._missing(sha256):
                return sha256, self._results(sha256)
        model = self.out / "model"
        sha256 = merge(at(self.sweep.settings, self.sweep.axis, value), model, self.command).sha256
        results = self.measure(model, sha256, f"{self.sweep.axis} {label(value)}")
        replace_file(file, _Point(value=value, sha256=sha256).model_dump_json(indent=1) + "\n")
        return sha256, results

    def measure(self, model: Path, sha256: str, name: str) -> Results:
        """A model's results on every skill; it is opened only when one is missing."""
        missing = self._missing(sha256)
        if missing:
            policy = self.sweep.how.open_policy(model)
            for skill in missing:

                def show(progress: Progress, skill: Skill = skill) -> None:
                    if self.on_progress is not None:
                        self.on_progress(name, skill.name, progress)

                measure(self.sweep.how, policy, skill, self._place(sha256), sha256, self.command, show)
        return self._results(sha256)

    def _place(self, sha256: str) -> Path:
        return self.out / "measured" / sha256[:16]

    def _missing(self, sha256: str) -> list[Skill]:
        return [skill for skill in self.sweep.skills if not (self._place(sha256) / f"{skill.name}.json").is_file()]

    def _results(self, sha256: str) -> Results:
        return {skill.name: EvalResult.load(self._place(sha256) / f"{skill.name}.json") for skill in self.sweep.skills}


def _keep(sweep: Sweep, value: float, sha256: str, place: Path, command: str) -> None:
    """Merge the best point once more, unless it is there."""
    if (place / "merge.json").is_file() and read_merge(place).sha256 == sha256:
        return
    if merge(at(sweep.settings, sweep.axis, value), place, command).sha256 != sha256:
        raise UserError(
            f"{place} came out otherwise than the model that was measured: the inputs were changed, so sweep again."
        )


def _input_hashes(settings: MergeSettings) -> list[tuple[Path, str]]:
    """Every input with the hash of its weights, the base first. Raises UserError where they do not go together."""
    from sanderling.merge.weights import fingerprint

    return [(model.path, fingerprint(model.path)) for model in open_models(settings.directories)]


def _check_skills(skills: Sequence[Skill]) -> None:
    names = [skill.name for skill in skills]
    if not names or len(set(names)) != len(names):
        raise UserError("A sweep needs skills with different names: give --skill NAME=QUESTIONS for each.")
    empty = next((skill.name for skill in skills if not skill.questions), None)
    if empty is not None:
        raise UserError(f"The skill {empty} has no questions: give a file that holds some.")


def _claim(sweep: Sweep, inputs: Sequence[tuple[Path, str]], out: Path) -> None:
    """Keep two sweeps from mixing. Raises UserError where another one's results lie."""
    skills = {
        skill.name: [
            skill.world_sha256,
            skill.search,
            hashlib.sha256("\n".join(question.model_dump_json() for question in skill.questions).encode()).hexdigest(),
        ]
        for skill in sweep.skills
    }
    how = sweep.how
    told = [
        sweep.settings.model_dump_json(exclude={"models", "base", "tokenizer"}),
        sweep.axis.value,
        [sha for _, sha in inputs],
        skills,
        [how.profile.name, how.attempts, how.seed, how.device, how.dtype, sweep.judge],
    ]
    mark = hashlib.sha256(repr(told).encode()).hexdigest()
    file = out / _SETTINGS
    if file.is_file():
        if file.read_text(encoding="utf-8").strip() != mark:
            raise UserError(
                f"{out} holds a sweep with other models, questions or settings: choose another directory with --out."
            )
    elif any(path.name != LOCK for path in out.iterdir()):
        raise UserError(f"{out} holds something that is no sweep: choose another directory with --out.")
    replace_file(file, mark + "\n")


def _read(file: Path) -> _Point:
    try:
        return _Point.model_validate_json(file.read_text(encoding="utf-8"))
    except (ValidationError, UnicodeDecodeError) as error:
        raise UserError(f"{file} is damaged: delete it, and its point is measured again.") from error
