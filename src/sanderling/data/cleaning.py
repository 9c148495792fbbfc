"""Cleaning: raw trajectories to what may be imitated, by a recipe of named steps, each with its counts in a report.

A step is a function of a draft, whose keyword arguments are its settings: it changes the draft, or says that the trajectory is
dropped. It never raises for any trajectory, and taking it twice is taking it once.
"""

import difflib
import json
import tomllib
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, NamedTuple, get_type_hints

from pydantic import AfterValidator, create_model

from sanderling.core.config import Frozen, load_config, read_config, to_toml
from sanderling.core.errors import UserError
from sanderling.core.parse import ParseProblem
from sanderling.core.plugins import is_outside, resolve, takes
from sanderling.core.profiles import Profile
from sanderling.core.record import Trajectory, encode_record
from sanderling.data import cleaning_removals as removals
from sanderling.data import cleaning_rewrites as rewrites
from sanderling.data.cleaning_draft import Draft, Drop, Reason
from sanderling.runs.files import check_places, or_cannot, replace_file
from sanderling.runs.jsonl import Lines, write_trajectories

STEPS: dict[str, Callable[..., Drop | None]] = {
    "whole": removals.keep_whole,
    "forbidden": removals.forbid_tools,
    "truncate": rewrites.truncate,
    "normalise": rewrites.normalise,
    "names": rewrites.canonical_names,
    "results": rewrites.structured_results,
    "prune": removals.prune_tools,
    "repeats": removals.drop_repeats,
    "malformed": removals.mend_turns,
    "repeat_limit": removals.limit_repeats,
    "min_calls": removals.demand_calls,
    "tool_errors": removals.limit_errors,
    "artefacts": removals.limit_artefacts,
    "reasoning": removals.demand_reasoning,
    "short_answer": rewrites.shorten_answer,
    "length": removals.limit_length,
    "ids": rewrites.whole_ids,
    "validate": removals.validate,
}
"""A recipe may name others' own as well, ``file.py:name`` or ``package.module:name``: functions of a draft whose keyword
arguments have defaults."""
DROPPED_KEY = "dropped"  # where a dropped trajectory's step, reason and detail stand in its ``meta``
DROPPED, REPORT = ".dropped.jsonl", ".clean.json"  # suffixes of the files beside the kept ones


def _is_step(name: str) -> str:
    if name not in STEPS and not is_outside(name):
        raise ValueError(f"there is no step {name!r}: choose from {', '.join(STEPS)}")
    return name


class _Order(Frozen):
    steps: tuple[Annotated[str, AfterValidator(_is_step)], ...]
    profile: str = "dr-venus-4b"  # what is cleaned for, where nothing else is asked for


def _sections() -> Iterator[tuple[str, Any]]:
    """For each step that has settings a section of that name: a model of the function's keyword arguments."""
    for name, step in STEPS.items():
        kinds, defaults = get_type_hints(step, include_extras=True), step.__kwdefaults__ or {}
        fields: dict[str, Any] = {key: (kinds[key], value) for key, value in defaults.items()}
        if fields:
            section = create_model(name, __base__=Frozen, **fields)
            yield name, (section, section())


class CleaningRecipe(create_model("_Sections", __base__=_Order, **dict(_sections()))):
    """What is done, in which order, and how: a section for each step's settings."""


_NAMED = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
RECIPES = {name: CleaningRecipe.model_validate(values) for name, values in _NAMED.items()}


def get_recipe(name: str, overrides: Sequence[str] = ()) -> CleaningRecipe:
    """The recipe of that name, or of a TOML file. Raises UserError, also for settings that it does not have."""
    if name.endswith(".toml"):
        return read_config(CleaningRecipe, Path(name), overrides)
    if name in RECIPES:
        return load_config(CleaningRecipe, to_toml(RECIPES[name]), f"the recipe {name}", overrides)
    near = difflib.get_close_matches(name, RECIPES, n=1)
    hint = f"did you mean {near[0]!r}?" if near else f"choose one of {', '.join(RECIPES)}, or give a TOML file."
    raise UserError(f"There is no cleaning recipe {name!r}: {hint}")


class Dropped(NamedTuple):
    """The step that dropped a trajectory, and why."""

    step: str
    reason: Reason
    detail: str


@dataclass
class StepReport:
    """What one step did."""

    step: str
    came_in: int = 0
    changed: int = 0
    dropped: Counter[str] = field(default_factory=Counter)  # trajectories by reason
    notes: Counter[str] = field(default_factory=Counter)  # how often something was removed or rewritten, by code
    noted: Counter[str] = field(default_factory=Counter)  # in how many trajectories

    @property
    def went_out(self) -> int:
        return self.came_in - self.dropped.total()


@dataclass
class CleanReport:
    """What a whole recipe did."""

    steps: list[StepReport]
    came_in: int = 0
    kept: int = 0
    changed: int = 0

    @property
    def dropped(self) -> int:
        return self.came_in - self.kept

    @property
    def reasons(self) -> dict[str, int]:
        """Dropped trajectories by reason, over all steps."""
        return dict(sum((step.dropped for step in self.steps), Counter()).most_common())

    def as_json(self) -> dict[str, Any]:
        steps = [vars(step) | {"went_out": step.went_out} for step in self.steps]
        return vars(self) | {"dropped": self.dropped, "reasons": self.reasons, "steps": steps}


class Cleaner:
    """A recipe and the profile that it cleans for, ready for trajectories, and the report of those it has seen.

    Example: ``cleaner = Cleaner(get_recipe("dr-venus"), profile); last = cleaner.clean(trajectory); cleaner.report.reasons``
    """

    def __init__(self, recipe: CleaningRecipe, profile: Profile) -> None:
        self._profile = profile
        self._steps: list[tuple[Callable[..., Drop | None], dict[str, Any]]] = []
        for name in recipe.steps:
            settings = dict(getattr(recipe, name)) if name in CleaningRecipe.model_fields else {}
            step = resolve(name, STEPS, "step of cleaning")
            takes(name, step, "draft", **settings)
            self._steps.append((step, settings))
        self.report = CleanReport([StepReport(name) for name in recipe.steps])

    def clean(self, trajectory: Trajectory) -> Trajectory | Dropped:
        """The cleaned trajectory (the same object where nothing changed), or the step that dropped it; the report counts it."""
        report, draft = self.report, Draft(trajectory, self._profile)
        report.came_in += 1
        for (step, settings), counts in zip(self._steps, report.steps, strict=True):
            counts.came_in += 1
            drop = step(draft, **settings)
            if drop is not None:
                if not isinstance(drop, Drop):
                    raise UserError(f"{counts.step} returned {drop!r}: a step returns a Drop, or None to keep.")
                counts.dropped[drop.reason] += 1
                return Dropped(counts.step, *drop)
            after = draft.finish()
            if draft.notes:
                counts.notes += draft.notes
                counts.noted += Counter((+draft.notes).keys())
                draft.notes.clear()
            if after is not draft.trajectory:
                counts.changed += 1
                draft = Draft(after, self._profile)
        found = draft.trajectory
        # What cannot be read is a call as well.
        called = any(turn.calls or ParseProblem.UNREADABLE_CALL in turn.problems for turn in trajectory.turns())
        if found is not trajectory and called and not any(turn.calls for turn in found.turns()):
            last = report.steps[-1]
            last.dropped[Reason.NO_CALL_LEFT] += 1
            return Dropped(last.step, Reason.NO_CALL_LEFT, "its answer would rest on nothing")
        report.kept += 1
        report.changed += found is not trajectory
        return found


def clean_file(
    trajectories: Iterable[Trajectory],
    out: Path,
    recipe: CleaningRecipe,
    profile: Profile,
    *,
    origin: Path,
    advance: Callable[[int], object] = lambda _: None,
) -> CleanReport:
    """Clean trajectories of the file ``origin`` into ``out``; dropped ones and the report go beside it.

    All three appear complete, the kept ones last, or what stood there stays. ``advance`` is told how many more were cleaned.
    Raises UserError.
    """
    dropped_file, report_file = out.with_suffix(DROPPED), out.with_suffix(REPORT)
    check_places([origin], [out, dropped_file, report_file])
    cleaner = Cleaner(recipe, profile)

    def kept() -> Generator[Trajectory, None, None]:
        with Lines(dropped_file, keep_empty=False) as dropped:
            for trajectory in trajectories:
                found = cleaner.clean(trajectory)
                if isinstance(found, Trajectory):
                    yield found
                else:
                    why = {DROPPED_KEY: found._asdict()}
                    dropped.add(encode_record(trajectory.model_copy(update={"meta": trajectory.meta | why})))
                advance(1)
        about = {"origin": origin.name, "profile": profile.name, "recipe": recipe.model_dump(mode="json")}
        with or_cannot(f"write {report_file}"):
            replace_file(report_file, json.dumps(about | cleaner.report.as_json(), ensure_ascii=False, indent=1) + "\n")

    with closing(kept()) as left:
        write_trajectories(out, left)
    return cleaner.report
