"""Cleaning recipes: which steps are taken in which order, with which settings, and the cleaner that takes them.

A recipe is data, read from TOML. A step is a function of a draft and its settings: it changes the draft, or says that the
trajectory is dropped. It never raises for any trajectory, and taking it twice is taking it once.
"""

import difflib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Annotated, Any, Self

from pydantic import AfterValidator, model_validator

from sanderling.core.config import Frozen
from sanderling.core.errors import UserError
from sanderling.core.plugins import is_outside, resolve
from sanderling.core.profiles import Profile
from sanderling.core.record import Trajectory
from sanderling.data.cleaning import calls, filters, rewrites
from sanderling.data.cleaning.draft import Draft, Drop, Note, Reason
from sanderling.data.cleaning.report import CleanReport, StepReport

Step = Callable[[Draft, Any], Drop | None]

STEPS: dict[str, Step] = {
    "whole": filters.keep_whole,
    "forbidden": filters.forbid_tools,
    "truncate": rewrites.truncate,
    "normalise": rewrites.normalise,
    "names": rewrites.canonical_names,
    "results": rewrites.structured_results,
    "prune": calls.prune_tools,
    "repeats": calls.drop_repeats,
    "malformed": calls.mend_turns,
    "repeat_limit": filters.limit_repeats,
    "min_calls": filters.demand_calls,
    "tool_errors": filters.limit_errors,
    "artefacts": filters.limit_artefacts,
    "reasoning": filters.demand_reasoning,
    "short_answer": rewrites.shorten_answer,
    "length": filters.limit_length,
    "ids": rewrites.whole_ids,
    "validate": filters.validate,
}
"""What each step does; its settings are the section of a recipe that bears its name. A recipe may name others' own as well:
``file.py:name`` or ``package.module:name``, which get None for settings."""


def _is_step(name: str) -> str:
    if name in STEPS or is_outside(name):
        return name
    *others, last = map(repr, STEPS)
    raise ValueError(f"input should be {', '.join(others)} or {last}")


StepName = Annotated[str, AfterValidator(_is_step)]


class CleaningRecipe(Frozen):
    """What is done, in which order, and how.

    Example: ``CleaningRecipe(steps=("normalise", "validate"))``
    """

    steps: tuple[StepName, ...]
    """In this order, each once at most."""
    profile: str = "dr-venus-4b"
    """What is cleaned for, where nothing else is asked for."""
    forbidden: filters.ForbiddenSettings = filters.ForbiddenSettings()
    normalise: rewrites.NormaliseSettings = rewrites.NormaliseSettings()
    names: rewrites.NamesSettings = rewrites.NamesSettings()
    results: rewrites.ResultsSettings = rewrites.ResultsSettings()
    prune: calls.PruneSettings = calls.PruneSettings()
    repeats: calls.RepeatsSettings = calls.RepeatsSettings()
    malformed: calls.MalformedSettings = calls.MalformedSettings()
    repeat_limit: filters.RepeatLimitSettings = filters.RepeatLimitSettings()
    min_calls: filters.MinCallsSettings = filters.MinCallsSettings()
    tool_errors: filters.ToolErrorsSettings = filters.ToolErrorsSettings()
    artefacts: filters.ArtefactsSettings = filters.ArtefactsSettings()
    reasoning: filters.ReasoningSettings = filters.ReasoningSettings()
    short_answer: rewrites.ShortAnswerSettings = rewrites.ShortAnswerSettings()
    length: filters.LengthSettings = filters.LengthSettings()

    @model_validator(mode="after")
    def _each_once(self) -> Self:
        twice = [step for step in self.steps if self.steps.count(step) > 1]
        if twice:
            raise ValueError(f"the step {twice[0]} is named twice: a second time would change nothing")
        return self


# Filters stand after the steps that take something away, so that what passes once passes again.
RECIPES: dict[str, CleaningRecipe] = {
    # The order of its released cleaner.
    "dr-venus": CleaningRecipe(
        steps=("normalise", "names", "results", "prune", "repeats", "malformed", "ids", "validate"),
    ),
    # arXiv 2604.17931, filters and cleaning of SFT data; its numbers are the settings' defaults.
    "literesearcher": CleaningRecipe(
        steps=(
            *("forbidden", "truncate", "normalise", "names", "reasoning", "short_answer", "results", "prune", "malformed"),
            *("repeat_limit", "min_calls", "tool_errors", "artefacts", "ids", "validate"),
        ),
        profile="literesearcher-4b",
    ),
    # arXiv 2602.06485: extreme trajectories, noise of the environment, errors of form are filtered out.
    "agentcpm": CleaningRecipe(
        steps=(
            *("normalise", "names", "results", "prune", "malformed", "repeat_limit", "tool_errors", "ids", "length"),
            "validate",
        ),
        profile="agentcpm-explore-4b",
        length=filters.LengthSettings(
            most_characters=84_000
        ),  # its SFT code drops 21,000 tokens and more; four characters each
        repeat_limit=filters.RepeatLimitSettings(most=4),  # its RL scripts stop an agent after four repeats
    ),
    # For records of our own loop: nothing is rewritten.
    "minimal": CleaningRecipe(steps=("whole",), profile="tiny"),
}


def get_recipe(name: str) -> CleaningRecipe:
    """The recipe of that name. Raises UserError, with the nearest name, when there is none."""
    found = RECIPES.get(name)
    if found is not None:
        return found
    near = difflib.get_close_matches(name, RECIPES, n=1)
    hint = f"did you mean {near[0]!r}?" if near else f"choose one of {', '.join(RECIPES)}, or give a TOML file."
    raise UserError(f"There is no cleaning recipe {name!r}: {hint}")


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a trajectory in one step."""

    step: str
    before: Trajectory
    trajectory: Trajectory | None
    """None: dropped. The very object that stood before, where nothing was changed."""
    notes: tuple[Note, ...] = ()
    reason: Reason | None = None
    detail: str = ""

    @property
    def changed(self) -> bool:
        return self.trajectory is not None and self.trajectory is not self.before


@dataclass(frozen=True, slots=True)
class Dropped:
    """A trajectory that was left out: as it came in, and why."""

    trajectory: Trajectory
    step: str
    reason: Reason
    detail: str = ""


class Cleaner:
    """A recipe and the profile that it cleans for, ready for trajectories, and the report of those it has seen.

    Example: ``cleaner = Cleaner(get_recipe("dr-venus"), profile); result = cleaner.clean(trajectory); cleaner.report.reasons``
    """

    def __init__(self, recipe: CleaningRecipe, profile: Profile) -> None:
        self._steps = [(name, resolve(name, STEPS, "step of cleaning"), getattr(recipe, name, None)) for name in recipe.steps]
        self._profile = profile
        self.report = self.empty_report()

    def empty_report(self) -> CleanReport:
        """A report of nothing, with this recipe's steps."""
        return CleanReport(steps=[StepReport(step=name) for name, _, _ in self._steps])

    def clean(self, trajectory: Trajectory) -> Trajectory | Dropped:
        """The cleaned trajectory, or why there is none; both enter the report."""
        current, changed = trajectory, False
        self.report.came_in += 1
        for outcome, entry in zip(self.steps(trajectory), self.report.steps, strict=False):
            if outcome.trajectory is None:
                reason = outcome.reason or Reason.UNREADABLE
                entry.lost(trajectory.id, reason, outcome.detail)
                return Dropped(trajectory, outcome.step, reason, outcome.detail)
            entry.saw(trajectory.id, changed=outcome.changed, notes=outcome.notes)
            current, changed = outcome.trajectory, changed or outcome.changed
        self.report.kept += 1
        self.report.changed += changed
        return current

    def steps(self, trajectory: Trajectory) -> Iterator[Outcome]:
        """Each step's work in order, up to the one that drops the trajectory."""
        for name, step, settings in self._steps:
            outcome = self._taken(name, step, settings, trajectory)
            yield outcome
            if outcome.trajectory is None:
                return
            trajectory = outcome.trajectory

    def _taken(self, name: str, step: Step, settings: Any, trajectory: Trajectory) -> Outcome:
        """One step's work; values nested deeper than Python goes are no data."""
        try:
            draft = Draft(trajectory, self._profile)
            drop = step(draft, settings)
            if drop is not None:
                return Outcome(name, trajectory, None, tuple(draft.notes), *drop)
            after = draft.finish()
            return Outcome(name, trajectory, after, tuple(draft.notes))
        except RecursionError:
            return Outcome(name, trajectory, None, (Note("nested_too_deeply"),), Reason.UNREADABLE, "values nested too deeply")
