"""What the recipe found: every model on both skills, and the differences that tell forgetting from keeping. Pure."""

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import BaseModel, ConfigDict

from sanderling.evaluate.result import EvalResult
from sanderling.evaluate.statistics import Interval, paired_difference
from sanderling.recipes.merge_tiny.models import ANCESTOR, BOTH, MERGED, specialist
from sanderling.report.numbers import chance, percent, points, span

MARGIN = 0.05
"""How far below a skill's specialist the merge may be: 5 points."""


class Part(BaseModel):
    """Base of the frozen models here."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class Cell(Part):
    """A model on a skill."""

    pass_at_1: float | None
    interval: Interval | None
    questions: int
    attempts: int
    unscored: int


class Difference(Part):
    """How far one model is above another on a skill, on the same questions."""

    skill: str
    model: str
    beside: str
    difference: float
    interval: Interval
    p_value: float
    questions: int

    @property
    def sentence(self) -> str:
        """In plain words."""
        low, high = self.interval
        side = "above" if low > 0 else "below" if high < 0 else "not to be told from"
        return (
            f"{self.model} is {side} {self.beside} on {self.skill}: {points(self.difference)} points (95% interval "
            f"{points(low)} to {points(high)}, {chance(self.p_value)}, {self.questions} questions)."
        )


class Verdict(Part):
    """What the differences come to, by what `merge-tiny.toml` says counts."""

    forgotten: dict[str, bool]
    """Of each specialist: whether it has forgotten the other skill."""
    keeps_both: bool

    @property
    def sentences(self) -> list[str]:
        """In plain words."""
        said = [f"{name} has {'' if lost else 'not '}forgotten the other skill." for name, lost in self.forgotten.items()]
        return [*said, f"The merge {'keeps both skills' if self.keeps_both else 'does not keep both skills'}."]


class Figures(Part):
    """Everything the recipe found."""

    command: str
    version: str
    mergekit: str
    machine: str
    date: str
    settings: dict[str, Any]
    stages: dict[str, float]
    """Seconds of each."""
    method: str
    weight: float | None
    """The second specialist's share in the merge that was chosen on the validation world."""
    validation: dict[str, dict[str, str]]
    """Every point of the sweep, as the terminal shows it; `sweep/sweep.json` has the numbers."""
    held_out: dict[str, dict[str, Cell]]
    differences: tuple[Difference, ...]
    verdict: Verdict


def compared(skills: Sequence[str]) -> tuple[tuple[str, str], ...]:
    """The model and what it is compared with, on both skills: what specialists forgot, and what their merge kept."""
    specialists = [specialist(skill) for skill in skills]
    forgot = [(name, ANCESTOR) for name in specialists]
    kept = [(MERGED, name) for name in (*specialists, ANCESTOR, BOTH)]
    return *forgot, *kept


def cells(results: Mapping[str, Mapping[str, EvalResult]]) -> dict[str, dict[str, Cell]]:
    """The figures of each model on each skill."""
    return {
        name: {
            skill: Cell(
                pass_at_1=result.pass_at_1.value,
                interval=result.pass_at_1.interval,
                questions=len(result.questions),
                attempts=result.attempts,
                unscored=result.unscored,
            )
            for skill, result in of_model.items()
        }
        for name, of_model in results.items()
    }


def differences(results: Mapping[str, Mapping[str, EvalResult]]) -> tuple[Difference, ...]:
    """Paired differences on every skill."""
    skills = list(results[ANCESTOR])
    return tuple(
        _difference(skill, model, results[model][skill], beside, results[beside][skill])
        for model, beside in compared(skills)
        for skill in skills
    )


def judged(skills: Sequence[str], differences: Sequence[Difference]) -> Verdict:
    """Forgotten: below the ancestor at the other skill, with the whole interval.

    Keeps both: at each skill above the specialist in the other one, with the whole interval, and at most `MARGIN` below the
    specialist in it.
    """
    found = {(item.skill, item.model, item.beside): item for item in differences}
    one, two = skills
    pairs = ((one, two), (two, one))
    return Verdict(
        forgotten={specialist(skill): found[other, specialist(skill), ANCESTOR].interval.high < 0 for skill, other in pairs},
        keeps_both=all(
            found[skill, MERGED, specialist(other)].interval.low > 0
            # Rounded: a mean that is exactly at the margin may be stored a hair beyond it.
            and round(found[skill, MERGED, specialist(skill)].difference, 9) >= -MARGIN
            for skill, other in pairs
        ),
    )


def _difference(skill: str, model: str, mine: EvalResult, beside: str, theirs: EvalResult) -> Difference:
    one, two = mine.per_question(), theirs.per_question()
    names = [name for name in one if name in two]
    found = paired_difference([one[name] for name in names], [two[name] for name in names], seed=0)
    return Difference(
        skill=skill,
        model=model,
        beside=beside,
        difference=found.difference,
        interval=found.interval,
        p_value=found.p_value,
        questions=found.questions,
    )


def shown(cell: Cell) -> str:
    """A cell as text."""
    return f"{percent(cell.pass_at_1)} ({span(cell.interval)})"
