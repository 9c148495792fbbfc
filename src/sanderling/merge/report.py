"""What a sweep found, as data, and its figures made of results. Pure but for saving and loading."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from pydantic import BaseModel, ConfigDict, ValidationError

from sanderling.core.errors import UserError
from sanderling.evaluate.result import EvalResult
from sanderling.evaluate.statistics import FloatArray, Interval
from sanderling.merge.axis import Axis, best, mean_over_skills
from sanderling.merge.settings import MergeSettings
from sanderling.runs.files import replace_file


class Part(BaseModel):
    """Base of the frozen models here."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class Score(Part):
    """A share of right attempts with its 95% interval."""

    value: float
    interval: Interval
    questions: int
    unscored: int = 0
    """Attempts that ended in an outage: in no mean."""


class Measured(Part):
    """A model's figures."""

    name: str
    """Of an input: its directory. Of a point: its value."""
    value: float | None = None
    """Where on the axis it lies; None for an input."""
    sha256: str
    """Of its weights."""
    skills: dict[str, Score]
    mean: Score | None
    """Over skills, each weighing the same; None when a skill could not be measured."""
    invalid_because: str = ""


class Gain(Part):
    """How far the best point is above the better input, on the same questions, in the mean over skills."""

    over: str
    difference: float
    interval: Interval


class SweepReport(Part):
    """A finished sweep."""

    command: str
    settings: MergeSettings
    axis: Axis
    rule: str
    profile: str
    judge: str
    attempts: int
    seed: int
    device: str
    run_dtype: str
    """What models computed in."""
    search: dict[str, str]
    """How each skill's world was ranked."""
    inputs: tuple[Measured, ...]
    points: tuple[Measured, ...]
    best: float | None
    gain: Gain | None
    """None when no point, or no input, could be measured."""
    model: str
    """The directory of the best merged model."""
    version: str
    machine: str
    date: str
    seconds: float
    """Of the run that finished it."""

    def save(self, path: Path) -> None:
        """Write as JSON, whole or not at all."""
        replace_file(path, self.model_dump_json(indent=1) + "\n")

    @classmethod
    def load(cls, path: Path) -> "SweepReport":
        """Read what :meth:`save` wrote. Raises UserError."""
        try:
            return cls.model_validate_json(path.read_text(encoding="utf-8"))
        except OSError as error:
            raise UserError(f"Cannot read {path} ({error.strerror}): give a finished sweep's sweep.json.") from error
        except (ValidationError, UnicodeDecodeError) as error:
            raise UserError(f"{path} is not of this version: sweep again.") from error

    @property
    def chosen(self) -> Measured | None:
        """The best point."""
        return next((point for point in self.points if point.value == self.best), None)


def measured(name: str, value: float | None, sha256: str, results: Mapping[str, EvalResult]) -> Measured:
    """One model's figures from its results on every skill."""
    broken = [f"{skill}: {result.invalid_because}" for skill, result in results.items() if not result.valid]
    skills: dict[str, Score] = {}
    for skill, result in results.items():
        estimate = result.pass_at_1
        if estimate.value is not None and estimate.interval is not None:
            skills[skill] = Score(
                value=estimate.value, interval=estimate.interval, questions=estimate.questions, unscored=result.unscored
            )
    mean = None
    if not broken and len(skills) == len(results):
        figure, interval = mean_over_skills([_each(result) for result in results.values()])
        mean = Score(value=figure, interval=interval, questions=sum(score.questions for score in skills.values()))
    return Measured(name=name, value=value, sha256=sha256, skills=skills, mean=mean, invalid_because=" ".join(broken))


def best_value(points: Sequence[Measured]) -> float | None:
    """By the rule of `axis`."""
    return best({point.value: point.mean.value if point.mean else None for point in points if point.value is not None})


def better_input(inputs: Sequence[Measured]) -> Measured | None:
    """The input with the highest mean; the first of equal ones."""
    told = [item for item in inputs if item.mean is not None]
    return max(told, key=lambda item: item.mean.value if item.mean else 0.0, default=None)


def gain(chosen: Mapping[str, EvalResult], other: Mapping[str, EvalResult], over: str) -> Gain:
    """The paired difference of two models over the questions that both have a scored attempt at."""
    skills: list[FloatArray] = []
    for skill, result in chosen.items():
        mine, theirs = result.per_question(), other[skill].per_question()
        skills.append(np.array([mine[name] - theirs[name] for name in mine if name in theirs], dtype=np.float64))
    difference, interval = mean_over_skills(skills)
    return Gain(over=over, difference=difference, interval=interval)


def _each(result: EvalResult) -> FloatArray:
    return np.array(list(result.per_question().values()), dtype=np.float64)
