"""Cleaning trajectories one by one through a recipe's steps.

Contract: kept trajectories come out in the order in which they went in, and every other one is handed to ``on_dropped`` as it
came in, with its step and reason. Memory does not grow with their number. Knows no files.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from sanderling.core.profiles import Profile
from sanderling.core.record import Trajectory
from sanderling.data.cleaning.contract import Dropped, IsRight, Note, Outcome, Reason, Step, Target, recorded_verdict
from sanderling.data.cleaning.recipe import CleaningRecipe, StepName
from sanderling.data.cleaning.registry import steps_of
from sanderling.data.cleaning.report import CleanReport, StepReport

OnDropped = Callable[[Dropped], None]


@dataclass(frozen=True, slots=True)
class Stage:
    """One step's work on one trajectory."""

    step: StepName
    before: Trajectory
    outcome: Outcome

    @property
    def changed(self) -> bool:
        return self.outcome.trajectory is not None and self.outcome.trajectory is not self.before


class Cleaner:
    """A recipe, ready for trajectories, and the report of those it has seen.

    Example: ``cleaner = Cleaner(get_recipe("dr-venus"), Target(profile)); result = cleaner.clean(trajectory)``
    """

    def __init__(self, recipe: CleaningRecipe, target: Target) -> None:
        self._steps = steps_of(recipe, target)
        self.report = self.empty_report()

    def empty_report(self) -> CleanReport:
        """A report of nothing, with this recipe's steps."""
        return CleanReport(steps=[StepReport(step=name.value) for name, _ in self._steps])

    def clean(self, trajectory: Trajectory) -> Trajectory | Dropped:
        """The cleaned trajectory, or why there is none; both enter the report."""
        current, changed = trajectory, False
        self.report.came_in += 1
        for stage, entry in zip(self.stages(trajectory), self.report.steps, strict=False):
            outcome = stage.outcome
            if outcome.trajectory is None:
                reason = outcome.reason or Reason.UNREADABLE
                entry.lost(trajectory.id, reason, outcome.detail)
                return Dropped(trajectory, stage.step.value, reason, outcome.detail)
            entry.saw(trajectory.id, changed=stage.changed, notes=outcome.notes)
            current, changed = outcome.trajectory, changed or stage.changed
        self.report.kept += 1
        self.report.changed += changed
        return current

    def stages(self, trajectory: Trajectory) -> Iterator[Stage]:
        """Each step's work in order, up to the one that drops the trajectory."""
        for name, step in self._steps:
            outcome = _taken(step, trajectory)
            yield Stage(name, trajectory, outcome)
            if outcome.trajectory is None:
                return
            trajectory = outcome.trajectory


def _taken(step: Step, trajectory: Trajectory) -> Outcome:
    """A step's outcome; values nested deeper than Python goes are no data."""
    try:
        return step(trajectory)
    except RecursionError:
        return Outcome(None, (Note("nested_too_deeply"),), Reason.UNREADABLE, "values nested too deeply")


class CleanStream:
    """Kept trajectories, as they are asked for; ``report`` is complete once all of them were."""

    def __init__(self, trajectories: Iterable[Trajectory], cleaner: Cleaner, on_dropped: OnDropped | None) -> None:
        self._trajectories = trajectories
        self._cleaner = cleaner
        self._on_dropped = on_dropped

    @property
    def report(self) -> CleanReport:
        """What was done so far."""
        return self._cleaner.report

    def __iter__(self) -> Iterator[Trajectory]:
        for trajectory in self._trajectories:
            found = self._cleaner.clean(trajectory)
            if isinstance(found, Trajectory):
                yield found
            elif self._on_dropped is not None:
                self._on_dropped(found)


def clean_stream(
    trajectories: Iterable[Trajectory],
    recipe: CleaningRecipe,
    profile: Profile,
    *,
    is_right: IsRight = recorded_verdict,
    on_dropped: OnDropped | None = None,
) -> CleanStream:
    """Clean trajectories one by one.

    Example: ``stream = clean_stream(found, get_recipe("dr-venus"), profile); kept = list(stream); stream.report.reasons``
    """
    return CleanStream(trajectories, Cleaner(recipe, Target(profile, is_right)), on_dropped)
