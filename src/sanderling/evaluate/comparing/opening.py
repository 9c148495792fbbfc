"""A run's directory as a report needs it: its result, its attempts in short, a few of them to read.

Rows of the index tell what became of attempts; whole trajectories are read only where they are shown. Which are shown follows a
rule, not a hand. Knows no layout.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path

from sanderling.core.errors import UserError
from sanderling.evaluate.comparing.model import Attempted, Run
from sanderling.evaluate.guarding import hidden_from
from sanderling.evaluate.judged import JudgedAttempt, read_judged
from sanderling.evaluate.reading import Outcome, Reading, reading_of
from sanderling.evaluate.result import EvalResult
from sanderling.evaluate.rows import AttemptRow
from sanderling.evaluate.run_directory import RunDirectory
from sanderling.judge.verdict import Code, verdict_in

READINGS = 12
_OUTCOMES = {True: Outcome.CORRECT, False: Outcome.WRONG, None: Outcome.UNSCORED}
_TITLES = {Outcome.CORRECT: "A right answer", Outcome.WRONG: "A wrong answer", Outcome.UNSCORED: "Not scored"}


def open_runs(places: Sequence[Path], readings: int = READINGS) -> list[Run]:
    """The runs, named by their directories. Raises UserError where one is no finished run, or two have one name."""
    runs = [_open(place, readings) for place in places]
    names = [run.name for run in runs]
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise UserError(f"Two runs are called {twice!r}: rename one of their directories.")
    return runs


def _open(place: Path, readings: int) -> Run:
    directory = RunDirectory(place)
    file = directory.require()
    result = EvalResult.load(directory.result_file)
    asked = {one.id for one in result.questions}
    rows = {row.key: row for row in directory.attempts.rows() if row.key[0] in asked and row.key[1] < result.attempts}
    judged = {one.key: one for one in read_judged(directory.judged_file)}
    hidden = hidden_from(directory.guard_file)
    listed = [_attempted(rows[key], judged.get(key), result, was_hidden=key in hidden) for key in sorted(rows)]
    made_with = directory.made_with()
    profile = made_with.get("profile", {})
    return Run(
        name=place.resolve().name,
        store=str(directory.store.path),
        result=result,
        attempts=tuple(listed),
        about=file.about,
        readings=tuple(_readings(directory, listed, rows, readings)),
        profile=next((row.profile for row in rows.values() if row.profile), "") or str(profile.get("name", "")),
        budgets=profile.get("budgets") if isinstance(profile.get("budgets"), dict) else {},
        texts={one.id: one.text for one in directory.questions()} if directory.questions_file.is_file() else {},
    )


def _attempted(row: AttemptRow, judged: JudgedAttempt | None, result: EvalResult, *, was_hidden: bool) -> Attempted:
    correct = judged.correct if judged is not None else _recorded(row, result.judge)
    differs = judged is not None and bool(result.second_judge) and None not in (judged.correct, judged.second)
    applies = result.contamination is not None and result.contamination.applies
    return Attempted(
        id=row.id,
        question=row.key[0],
        attempt=row.key[1],
        outcome=_OUTCOMES[correct],
        ending=row.ending,
        contaminated=applies and bool(row.episode.contaminated),
        was_hidden=was_hidden,
        is_disputed=differs and judged is not None and judged.correct is not judged.second,
        by_hand=judged is not None and judged.code is Code.BY_HAND,
    )


def _recorded(row: AttemptRow, judge: str) -> bool | None:
    """Of a run of before verdicts stood in a file of their own."""
    return verdict_in(row.verdict, judge) if row.ending is not None and row.ending.scored else None


def _readings(
    directory: RunDirectory, listed: Iterable[Attempted], rows: dict[tuple[str, int], AttemptRow], most: int
) -> list[Reading]:
    """The first ones of each outcome, a third of all at most, in the order of outcomes."""
    each = max(1, most // len(Outcome)) if most else 0
    by_outcome: dict[Outcome, list[Attempted]] = {outcome: [] for outcome in Outcome}
    for one in listed:
        if len(by_outcome[one.outcome]) < each:
            by_outcome[one.outcome].append(one)
    correct = {outcome: value for value, outcome in _OUTCOMES.items()}
    return [
        reading_of(directory.store.at(rows[one.question, one.attempt].line), _TITLES[outcome], correct=correct[outcome])
        for outcome, chosen in by_outcome.items()
        for one in chosen
    ]
