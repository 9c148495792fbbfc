"""The cleaner, which takes a recipe's steps, and its report: for each step what it changed, and why it dropped what it dropped.

Reports add up. Of every code the first example is kept, cut to a length that a person reads.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from pydantic import BaseModel, Field, computed_field

from sanderling.core.plugins import resolve
from sanderling.core.profiles import Profile
from sanderling.core.record import Trajectory
from sanderling.data.cleaning.draft import Draft, Drop, Note, Reason
from sanderling.data.cleaning.recipe import STEPS, CleaningRecipe

_MOST_SHOWN = 400


class Outcome(NamedTuple):
    """What became of a trajectory in one step."""

    step: str
    before: Trajectory
    trajectory: Trajectory | None  # None: dropped; the very one before, where nothing changed
    notes: tuple[Note, ...]
    reason: Reason | None  # why it was dropped
    detail: str

    @property
    def changed(self) -> bool:
        return self.trajectory is not None and self.trajectory is not self.before


class Count(BaseModel):
    """How often a code was given, and in how many trajectories."""

    number: int = 0
    trajectories: int = 0
    example: dict[str, str] | None = None  # the first one: its ``trajectory``, and the text ``before`` and ``after``


class StepReport(BaseModel):
    """What one step did."""

    step: str
    came_in: int = 0
    changed: int = 0
    dropped: dict[str, Count] = Field(default_factory=dict)
    notes: dict[str, Count] = Field(default_factory=dict)

    @computed_field
    @property
    def went_out(self) -> int:
        return self.came_in - sum(count.trajectories for count in self.dropped.values())

    def enter(self, id: str, outcome: Outcome) -> None:
        """Count what became of a trajectory."""
        self.came_in += 1
        self.changed += outcome.changed
        table, notes = self.notes, outcome.notes
        if outcome.reason is not None:
            table, notes = self.dropped, (Note(outcome.reason.value, before=outcome.detail),)
        for note in notes:
            count = table.setdefault(note.code, Count())
            count.number += note.number
            if count.example is None:
                start = max(common_start(note.before, note.after) - _MOST_SHOWN // 4, 0)
                shown = {"before": _cut(note.before, start), "after": _cut(note.after, start)}
                count.example = {"trajectory": id, **shown}
        for code in {note.code for note in notes}:
            table[code].trajectories += 1


class CleanReport(BaseModel):
    """What a whole recipe did."""

    came_in: int = 0
    kept: int = 0
    changed: int = 0
    steps: list[StepReport] = Field(default_factory=list)

    @computed_field
    @property
    def dropped(self) -> int:
        return self.came_in - self.kept

    @computed_field
    @property
    def reasons(self) -> dict[str, int]:
        """Dropped trajectories by reason, over all steps."""
        counts: Counter[str] = Counter()
        for step in self.steps:
            counts.update({reason: count.trajectories for reason, count in step.dropped.items()})
        return dict(counts.most_common())

    def add(self, other: "CleanReport") -> None:
        """Add the report of later trajectories under the same recipe."""
        self.came_in += other.came_in
        self.kept += other.kept
        self.changed += other.changed
        self.steps = self.steps or [StepReport(step=step.step) for step in other.steps]
        for mine, theirs in zip(self.steps, other.steps, strict=True):
            mine.came_in += theirs.came_in
            mine.changed += theirs.changed
            for table, counts in ((mine.dropped, theirs.dropped), (mine.notes, theirs.notes)):
                for code, more in counts.items():
                    count = table.setdefault(code, Count())
                    count.number += more.number
                    count.trajectories += more.trajectories
                    count.example = count.example or more.example


def common_start(one: str, other: str) -> int:
    """How many characters two texts begin with in common."""
    pairs = zip(one, other, strict=False)
    return next((at for at, (mine, theirs) in enumerate(pairs) if mine != theirs), min(len(one), len(other)))


def _cut(text: str, start: int) -> str:
    piece = text[start : start + _MOST_SHOWN]
    shown = f"{'… ' if start else ''}{piece}{' …' if start + len(piece) < len(text) else ''}"
    return shown.encode("utf-8", "replace").decode("utf-8")


class Cleaner:
    """A recipe and the profile that it cleans for, ready for trajectories, and the report of those it has seen.

    Example: ``cleaner = Cleaner(get_recipe("dr-venus"), profile); last = cleaner.clean(trajectory); cleaner.report.reasons``
    """

    def __init__(self, recipe: CleaningRecipe, profile: Profile) -> None:
        self._profile = profile
        self._steps: list[tuple[str, Callable[..., Drop | None], dict[str, Any]]] = []
        for name in recipe.steps:
            step = resolve(name, STEPS, "step of cleaning")
            settings = dict(getattr(recipe, name)) if name in CleaningRecipe.model_fields else {}
            self._steps.append((name, step, settings))
        self.report = CleanReport(steps=[StepReport(step=name) for name in recipe.steps])

    def clean(self, trajectory: Trajectory) -> Trajectory | Outcome:
        """The cleaned trajectory, or the step that dropped it; both enter the report."""
        current = trajectory
        self.report.came_in += 1
        for outcome, entry in zip(self.steps(trajectory), self.report.steps, strict=False):
            entry.enter(trajectory.id, outcome)
            if outcome.trajectory is None:
                return outcome
            current = outcome.trajectory
        self.report.kept += 1
        self.report.changed += current is not trajectory
        return current

    def steps(self, trajectory: Trajectory) -> Iterator[Outcome]:
        """Each step's work in order, up to the one that drops the trajectory."""
        for name, step, settings in self._steps:
            draft = Draft(trajectory, self._profile)
            try:
                drop = step(draft, **settings)
                after = draft.finish() if drop is None else None
            except RecursionError:
                draft.notes = [Note("nested_too_deeply")]
                drop, after = Drop(Reason.UNREADABLE, "values nested too deeply"), None
            reason, detail = drop or (None, "")
            yield Outcome(name, trajectory, after, tuple(draft.notes), reason, detail)
            if after is None:
                return
            trajectory = after
