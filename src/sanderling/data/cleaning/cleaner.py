"""Cleaning recipes, the cleaner that takes a recipe's steps, its report, and the files that come of it.

A step is a function of a draft, whose keyword arguments are its settings: it changes the draft, or says that the trajectory is
dropped. It never raises for any trajectory, and taking it twice is taking it once. Reports add up; of every code the first
example is kept, cut to a length that a person reads.
"""

import difflib
import inspect
import json
import tomllib
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Annotated, Any, NamedTuple, Self, get_type_hints

from pydantic import AfterValidator, BaseModel, Field, computed_field, create_model, model_validator

from sanderling.core.config import Frozen
from sanderling.core.errors import UserError
from sanderling.core.plugins import is_outside, resolve
from sanderling.core.profiles import Profile
from sanderling.core.record import Trajectory, decode_record, decode_trajectory, encode_trajectory
from sanderling.data.cleaning import calls, filters, rewrites
from sanderling.data.cleaning.draft import Draft, Drop, Note, Reason
from sanderling.runs.files import check_places
from sanderling.runs.jsonl import Lines, write_lines
from sanderling.runs.locks import in_processes
from sanderling.runs.parquet import write_parquet

STEPS: dict[str, Callable[..., Drop | None]] = {
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
"""What each step does. A recipe may name others' own as well, ``file.py:name`` or ``package.module:name``: functions of a draft
whose keyword arguments have defaults."""
DROPPED_KEY = "dropped"  # where a dropped trajectory's step, reason and detail stand in its ``meta``
_MOST_SHOWN = 400
_BATCH = 8
_KILLED = "A process that cleans trajectories was killed (often for want of memory): run again with fewer --workers."


def _is_step(name: str) -> str:
    if name in STEPS or is_outside(name):
        return name
    *others, last = map(repr, STEPS)
    raise ValueError(f"input should be {', '.join(others)} or {last}")


class _Order(Frozen):
    """What is done, in which order, and for whom."""

    steps: tuple[Annotated[str, AfterValidator(_is_step)], ...]
    profile: str = "dr-venus-4b"  # what is cleaned for, where nothing else is asked for

    @model_validator(mode="after")
    def _each_once(self) -> Self:
        twice = [step for step in self.steps if self.steps.count(step) > 1]
        if twice:
            raise ValueError(f"the step {twice[0]} is named twice: a second time would change nothing")
        return self


def _sections() -> dict[str, Any]:
    """For each step that has settings a section of that name: a model of the function's keyword arguments."""
    sections: dict[str, Any] = {}
    for name, step in STEPS.items():
        kinds, arguments = get_type_hints(step, include_extras=True), inspect.signature(step).parameters.values()
        fields: dict[str, Any] = {one.name: (kinds[one.name], one.default) for one in arguments if one.kind is one.KEYWORD_ONLY}
        if fields:
            section = create_model(name, __base__=Frozen, **fields)
            sections[name] = (section, section())
    return sections


class CleaningRecipe(create_model("_Sections", __base__=_Order, **_sections())):
    """What is done, in which order, and how: a section for each step's settings."""


_NAMED = tomllib.loads((Path(__file__).parent / "recipes.toml").read_text(encoding="utf-8"))
RECIPES = {name: CleaningRecipe.model_validate(values) for name, values in _NAMED.items()}


def get_recipe(name: str) -> CleaningRecipe:
    """The recipe of that name. Raises UserError, with the nearest name, when there is none."""
    if name in RECIPES:
        return RECIPES[name]
    near = difflib.get_close_matches(name, RECIPES, n=1)
    hint = f"did you mean {near[0]!r}?" if near else f"choose one of {', '.join(RECIPES)}, or give a TOML file."
    raise UserError(f"There is no cleaning recipe {name!r}: {hint}")


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
            settings = dict(getattr(recipe, name)) if name in CleaningRecipe.model_fields else {}
            self._steps.append((name, resolve(name, STEPS, "step of cleaning"), settings))
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
            drop = step(draft, **settings)
            after = draft.finish() if drop is None else None
            reason, detail = drop or (None, "")
            yield Outcome(name, trajectory, after, tuple(draft.notes), reason, detail)
            if after is None:
                return
            trajectory = after


class CleanedFile(NamedTuple):
    """What was written."""

    out: Path
    dropped: Path  # no file where nothing was
    report_file: Path
    report: CleanReport


def clean_file(
    trajectories: Iterable[Trajectory],
    out: Path,
    recipe: CleaningRecipe,
    profile: Profile,
    *,
    origin: Path,
    workers: int = 1,
    advance: Callable[[int], object] = lambda _: None,
) -> CleanedFile:
    """Clean trajectories of the file ``origin`` into ``out``: kept ones, and beside it dropped ones and the report.

    All three appear complete, the kept ones last, or what stood there stays; any number of processes writes the same bytes.
    ``advance`` is told how many more were cleaned. Raises UserError.
    """
    done = CleanedFile(out, out.with_suffix(".dropped.jsonl"), out.with_suffix(".clean.json"), CleanReport())
    check_places([origin], [done.out, done.dropped, done.report_file])
    settings, source = recipe.model_dump(mode="json"), iter(trajectories)
    clean, some = partial(_cleaned, settings, profile), iter(lambda: list(islice(source, _BATCH)), [])

    def kept() -> Generator[bytes, None, None]:
        """The lines to keep; what was dropped, and the report, are in their places when the last one was taken."""
        batches = map(clean, some) if workers == 1 else in_processes(clean, some, workers, killed=_KILLED)
        with Lines(done.dropped, keep_empty=False) as dropped:
            for batch, left_out, report in batches:
                for line in left_out:
                    dropped.add(line)
                yield from batch
                done.report.add(report)
                advance(report.came_in)
        about = {"origin": origin.name, "profile": profile.name, "recipe": settings}
        text = json.dumps(about | done.report.model_dump(mode="json"), ensure_ascii=False, indent=1)
        write_lines(done.report_file, [text.encode("utf-8", "backslashreplace")])

    with closing(kept()) as lines:
        if out.suffix == ".parquet":
            write_parquet(out, (decode_trajectory(decode_record(line)) for line in lines))
        else:
            write_lines(out, lines)
    return done


def _cleaned(
    settings: dict[str, Any], profile: Profile, trajectories: Sequence[Trajectory]
) -> tuple[list[bytes], list[bytes], CleanReport]:
    """Lines of a store, kept and dropped, of some trajectories, and their report."""
    cleaner = Cleaner(CleaningRecipe.model_validate(settings), profile)
    kept: list[bytes] = []
    dropped: list[bytes] = []
    for trajectory in trajectories:
        found = cleaner.clean(trajectory)
        if isinstance(found, Trajectory):
            kept.append(encode_trajectory(found))
        else:
            why = {DROPPED_KEY: {"step": found.step, "reason": found.reason, "detail": found.detail}}
            dropped.append(encode_trajectory(trajectory.model_copy(update={"meta": trajectory.meta | why})))
    return kept, dropped, cleaner.report
