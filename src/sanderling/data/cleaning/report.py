"""What cleaning did: for each step what came in and went out, what it changed, and why it dropped what it dropped.

What came in is what was kept and what was dropped, in every step and on the whole. Reports add up: that of two halves is that
of the whole. Of every code the first example is kept, cut to a length that a person reads.
"""

from collections import Counter
from collections.abc import Iterable
from typing import Any

from pydantic import BaseModel, Field

from sanderling.data.cleaning.draft import Note, Reason

_MOST_SHOWN = 400


class Example(BaseModel):
    """One place where a code was given."""

    trajectory: str
    before: str = ""
    after: str = ""

    @classmethod
    def of(cls, trajectory: str, before: str, after: str) -> "Example":
        """Both texts cut to what is shown, from a little before the place where they part."""
        start = max(common_start(before, after) - _MOST_SHOWN // 4, 0) if before and after else 0
        return cls(trajectory=trajectory, before=_cut(before, start), after=_cut(after, start))


class Count(BaseModel):
    """How often a code was given, and in how many trajectories."""

    number: int = 0
    trajectories: int = 0
    example: Example | None = None

    def add(self, number: int, trajectories: int, example: Example | None) -> None:
        """Add what was counted of other trajectories, later ones."""
        self.number += number
        self.trajectories += trajectories
        self.example = self.example or example


class StepReport(BaseModel):
    """What one step did."""

    step: str
    came_in: int = 0
    changed: int = 0
    dropped: dict[str, Count] = Field(default_factory=dict)
    notes: dict[str, Count] = Field(default_factory=dict)

    @property
    def went_out(self) -> int:
        return self.came_in - sum(count.trajectories for count in self.dropped.values())

    def saw(self, id: str, *, changed: bool, notes: Iterable[Note]) -> None:
        """Enter a trajectory that went on."""
        self.came_in += 1
        self.changed += changed
        first: dict[str, Note] = {}
        numbers: Counter[str] = Counter()
        for note in notes:
            first.setdefault(note.code, note)
            numbers[note.code] += note.number
        for code, number in numbers.items():
            count = self.notes.setdefault(code, Count())
            count.add(number, 1, None if count.example else Example.of(id, first[code].before, first[code].after))

    def lost(self, id: str, reason: Reason, detail: str) -> None:
        """Enter a trajectory that was dropped."""
        self.came_in += 1
        count = self.dropped.setdefault(reason.value, Count())
        count.add(1, 1, None if count.example else Example.of(id, detail, ""))

    def add(self, other: "StepReport") -> None:
        """Add what the same step did to other trajectories, later ones."""
        self.came_in += other.came_in
        self.changed += other.changed
        for mine, theirs in ((self.dropped, other.dropped), (self.notes, other.notes)):
            for code, count in theirs.items():
                mine.setdefault(code, Count()).add(count.number, count.trajectories, count.example)


class CleanReport(BaseModel):
    """What a whole recipe did."""

    came_in: int = 0
    kept: int = 0
    changed: int = 0
    steps: list[StepReport] = Field(default_factory=list)

    @property
    def dropped(self) -> int:
        return self.came_in - self.kept

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
        if not self.steps:
            self.steps = [StepReport(step=step.step) for step in other.steps]
        for mine, theirs in zip(self.steps, other.steps, strict=True):
            mine.add(theirs)

    def as_json(self) -> dict[str, Any]:
        """All of it as JSON values, the derived figures too."""
        value = self.model_dump(mode="json") | {"dropped": self.dropped, "reasons": self.reasons}
        for step, shown in zip(self.steps, value["steps"], strict=True):
            shown["went_out"] = step.went_out
        return value


def common_start(one: str, other: str) -> int:
    """How many characters two texts begin with in common."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if one[low:middle] == other[low:middle] else (low, middle - 1)
    return low


def _cut(text: str, start: int) -> str:
    piece = text[start : start + _MOST_SHOWN]
    shown = f"{'… ' if start else ''}{piece}{' …' if start + len(piece) < len(text) else ''}"
    return shown.encode("utf-8", "replace").decode("utf-8")
