"""Several runs compared: every figure of a report, before any is written down for people.

Runs are paired by question: only questions of one id and one text that both have a scored attempt at are compared, and how many
those are stands beside. Of several comparisons the p-values are adjusted (Holm).
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from sanderling.core.errors import UserError
from sanderling.core.types import Ending
from sanderling.evaluate.episodes import Episode, JudgedAttempt
from sanderling.evaluate.guarding import guard_counts
from sanderling.evaluate.log import About, Kind, RunLog
from sanderling.evaluate.peers.records import notes_of
from sanderling.evaluate.recorded_calls import share_told
from sanderling.evaluate.reports.reading import Outcome, Reading, reading_of
from sanderling.evaluate.result import EvalResult
from sanderling.evaluate.statistics import PairedDifference, holm, paired_difference
from sanderling.judge.verdict import Code
from sanderling.report.numbers import ending_words


class Common(NamedTuple):
    """The questions of two results: those of one id and one text. Files number their questions alike: an id proves nothing."""

    scored: tuple[str, ...]  # ids of those that both have, with a scored attempt in each; in their order
    left_out: int  # all others of either
    other_texts: int  # ids that both have and that mean different questions


def in_common(one: EvalResult, other: EvalResult) -> Common:
    """Compare ids and texts."""
    ours, theirs = ({(q.id, q.text_digest) for q in result.questions} for result in (one, other))
    both = {id for id, _ in ours & theirs}
    found = sorted(both & one.per_question().keys() & other.per_question().keys())
    shared = {id for id, _ in ours} & {id for id, _ in theirs}
    return Common(tuple(found), len(ours | theirs) - len(found), len(shared) - len(both))


# Runs and what is compared ------------------------------------------------------------------------------------------------


_SEED = 0


@dataclass(frozen=True)
class Attempted:
    """One attempt, as a report lists it."""

    id: str  # of its trajectory
    question: str
    attempt: int
    outcome: Outcome
    ending: Ending | None = None  # None: the record does not say
    contaminated: bool = False  # it read its question word for word
    was_hidden: bool = False  # the guard hid something from it
    is_disputed: bool = False  # the second judge says otherwise
    by_hand: bool = False  # a person decided


@dataclass(frozen=True)
class Run:
    """A finished run."""

    name: str
    store: str  # where its trajectories are, for the reader's own command line
    result: EvalResult
    attempts: tuple[Attempted, ...]
    about: About | None = None
    readings: tuple[Reading, ...] = ()
    profile: str = ""
    budgets: Mapping[str, Any] = field(default_factory=dict)  # of the profile that it was begun with, as JSON; empty: not known
    texts: Mapping[str, str] = field(default_factory=dict)  # questions by id

    @property
    def private(self) -> bool:
        """Whether its questions and answers are not to be published."""
        return self.about is not None and self.about.private


@dataclass(frozen=True)
class Pair:
    """One run against the baseline."""

    name: str
    baseline: str
    found: PairedDifference
    p_adjusted: float  # for all comparisons of the report
    left_out: int
    """Questions of either run that are not compared: the other lacks them, asks something else by that id, or has no scored
    attempt."""
    better: tuple[str, ...] = ()  # questions at which the run is better
    worse: tuple[str, ...] = ()


@dataclass(frozen=True)
class RunsReport:
    """Everything a report says."""

    runs: tuple[Run, ...]
    pairs: tuple[Pair, ...]
    facts: dict[str, tuple[str, ...]]  # what each run was made with, by name; a value for each run
    notes: tuple[str, ...]  # what a reader has to know before believing a figure, a sentence each


def compared(runs: Sequence[Run], baseline: str = "") -> RunsReport:
    """Compare runs with one of them, the first unless it is named. Raises ValueError without runs or for an unknown name."""
    names = [run.name for run in runs]
    base = next((run for run in runs if run.name == (baseline or names[0])), None) if runs else None
    if base is None:
        raise ValueError(f"{baseline!r} is none of the runs")
    common = {run.name: in_common(run.result, base.result) for run in runs if run is not base}
    kept = [(run, _difference(run, base, common[run.name])) for run in runs if run is not base and common[run.name].scored]
    adjusted = holm([found.p_value for _, (found, _, _) in kept])
    pairs = [
        Pair(run.name, base.name, found, p, common[run.name].left_out, better, worse)
        for (run, (found, better, worse)), p in zip(kept, adjusted, strict=True)
    ]
    told = [_facts(run) for run in runs]
    facts = {name: tuple(one[name] for one in told) for name in told[0]}
    notes = [*_notes(runs, facts, pairs), *(note for run in runs if run is not base for note in _paired(run, base, common))]
    return RunsReport(tuple(runs), tuple(pairs), facts, tuple(notes))


def differing(facts: dict[str, tuple[str, ...]]) -> set[str]:
    """Names of facts in which the runs are not alike."""
    return {name for name, values in facts.items() if len(set(values)) > 1}


def _of_one(run: Run) -> list[str]:
    """What a reader has to know of one run."""
    found = run.result.contamination
    notes = []
    if found is not None and found.contaminated:
        notes.append(f"In {run.name} {found.contaminated:,} of {found.attempts:,} attempts read their question word for word.")
    curve = run.result.pass_at_k
    fewer = [k for k in curve if curve[k].questions < curve[1].questions]
    if fewer:
        first, last = fewer[0], fewer[-1]
        notes.append(
            f"In {run.name} not every question has as many scored attempts: pass@{first} rests on {curve[first].questions:,} "
            f"of {curve[1].questions:,} questions, pass@{last} on {curve[last].questions:,}. A rise may be theirs."
        )
    for name, curve in run.result.best_of.items():
        short = curve[1].too_few - run.result.pass_at_1.too_few
        if short:
            notes.append(f"In {run.name} {short:,} questions have an answer without {name}, and are in no best of k by it.")
    return notes


def _difference(run: Run, base: Run, common: Common) -> tuple[PairedDifference, tuple[str, ...], tuple[str, ...]]:
    """The difference, the questions at which a run is better than another, and those at which it is worse."""
    ours, theirs = run.result.per_question(), base.result.per_question()
    found = paired_difference([ours[id] for id in common.scored], [theirs[id] for id in common.scored], seed=_SEED)
    scored = set(common.scored)
    ids = [one.id for one in run.result.questions if one.id in scored]
    return found, tuple(id for id in ids if ours[id] > theirs[id]), tuple(id for id in ids if ours[id] < theirs[id])


_BENCHMARK, _QUESTIONS, _ATTEMPTS, _JUDGE = "benchmark", "questions", "attempts", "judge"
_UNKNOWN = "not known"


def _facts(run: Run) -> dict[str, str]:
    about, result = run.about, run.result
    chosen = f"{len(result.questions):,}" + (f" ({about.chosen})" if about and about.chosen != "all" else "")
    turns, context = run.budgets.get("max_turns"), run.budgets.get("max_context_tokens")
    return {
        "made by": "others" if about is not None and about.kind is Kind.PEERS else "this program",
        _BENCHMARK: " ".join(filter(None, (about.benchmark, about.split))) if about else _UNKNOWN,
        _QUESTIONS: chosen,
        _ATTEMPTS: str(result.attempts),
        "model": result.model or _UNKNOWN,
        "profile": run.profile or _UNKNOWN,
        "most turns": f"{turns:,}" if isinstance(turns, int) else _UNKNOWN,
        "most tokens of context": f"{context:,}" if isinstance(context, int) else _UNKNOWN,
        "world": result.world or _UNKNOWN,
        "guard": _guard(about),
        _JUDGE: result.judge or _UNKNOWN,
        "second judge": result.second_judge or "none",
        "seed": str(result.seed),
        "version": result.version,
        "date": result.date,
    }


def _guard(about: About | None) -> str:
    if about is None:
        return _UNKNOWN
    if not about.guard.on:
        return "off"
    return f"on, {'pages with the question too' if about.guard.verbatim else 'addresses only'} ({about.guard.fingerprint[:8]})"


def _paired(run: Run, base: Run, common: Mapping[str, Common]) -> list[str]:
    """What has to be known of how a run was compared with the baseline."""
    found, notes = common[run.name], []
    if not found.scored:
        notes.append(f"{run.name} has no question in common with {base.name}.")
    if found.other_texts:
        notes.append(
            f"{found.other_texts:,} ids of {run.name} and {base.name} mean different questions, which are not compared."
        )
    return notes


def _notes(runs: Sequence[Run], facts: dict[str, tuple[str, ...]], pairs: Sequence[Pair]) -> list[str]:
    notes = [f"{run.name} is invalid: {run.result.invalid_because}" for run in runs if run.result.invalid_because]
    recorded = [(run.name, run.result.recorded) for run in runs]
    notes += [f"{name} met a recorded world: {share_told(share)}" for name, share in recorded if share is not None]
    peers = [(run, run.about.peers) for run in runs if run.about is not None and run.about.peers is not None]
    notes += [f"{run.name}: {note}" for run, facts_of in peers for note in notes_of(facts_of, run.result)]
    if len(set(facts[_JUDGE])) > 1:
        notes.append("The runs have different judges: a difference may be the judges'.")
    if len(set(facts[_ATTEMPTS])) > 1:
        notes.append("The runs have different numbers of attempts: compare pass@k at the same k.")
    if len(set(facts["guard"])) > 1:
        notes.append("The runs have different guards: what one could read was hidden from another.")
    notes += [note for run in runs for note in _of_one(run)]
    hashes = {run.about.questions_sha256 for run in runs if run.about is not None}
    if len(hashes) > 1:
        notes.append("The runs ask different questions: only those of the same id and text are compared.")
    files = {run.about.file_sha256 for run in runs if run.about is not None}
    if len(hashes) == 1 and len(files) > 1:
        notes.append("The runs read different files of the benchmark: accepted answers may have changed between them.")
    notes += [f"{pair.name} and {pair.baseline} are compared on {pair.found.questions:,} questions; {pair.left_out:,} are not "
              "in both with a scored attempt." for pair in pairs if pair.left_out]  # fmt: skip
    return notes


# The attempts behind a figure ---------------------------------------------------------------------------------------------


UNSCORED, HIDDEN, CONTAMINATED, DISPUTED, BY_HAND = "unscored", "hidden", "contaminated", "disputed", "by-hand"


@dataclass(frozen=True)
class Evidence:
    """Attempts at questions; of whole questions, which all attempts are meant by, none are named."""

    id: str
    run: int
    title: str
    attempts: dict[str, tuple[int, ...]]  # by question; empty: all of them


def evidence(report: RunsReport) -> list[Evidence]:
    """All lists that have something in them."""
    found = [one for number, run in enumerate(report.runs) for one in _of_run(number, run)]
    names = [run.name for run in report.runs]
    for place, pair in enumerate(report.pairs):
        for kind, questions in (("better", pair.better), ("worse", pair.worse)):
            title = f"{pair.name} is {kind} than {pair.baseline}"
            found.append(Evidence(pair_id(place, kind), names.index(pair.name), title, dict.fromkeys(questions, ())))
    return [one for one in found if one.attempts]


def evidence_id(run: int, kind: str, value: str = "") -> str:
    """The name under which a page lists them."""
    return f"e{run}-{kind}" + (f"-{value}" if value else "")


def group_id(report: RunsReport, run: int, name: str, group: str) -> str:
    """Of a level, topic or the like, by its place: its own name may be anything."""
    groups = report.runs[run].result.groups.get(name, {})
    return evidence_id(run, name, str(list(groups).index(group))) if group in groups else ""


def ending_id(run: int, ending: str | None) -> str:
    """Of an ending; None: the record does not say."""
    return evidence_id(run, "ending", ending or "unknown")


def pair_id(place: int, kind: str) -> str:
    """Of a comparison's questions."""
    return f"pair{place}-{kind}"


def ranges(numbers: Sequence[int]) -> str:
    """Numbers in order as they are written briefly.

    Example: ``ranges([0, 1, 2, 5]) == "0–2, 5"``
    """
    parts: list[list[int]] = []
    for number in sorted(numbers):
        if parts and number == parts[-1][1] + 1:
            parts[-1][1] = number
        else:
            parts.append([number, number])
    return ", ".join(str(low) if low == high else f"{low}–{high}" for low, high in parts)


def by_question(attempts: Iterable[Attempted]) -> dict[str, tuple[int, ...]]:
    """The numbers of attempts, in the order of questions."""
    found: dict[str, list[int]] = {}
    for one in attempts:
        found.setdefault(one.question, []).append(one.attempt)
    return {question: tuple(numbers) for question, numbers in found.items()}


def _of_run(number: int, run: Run) -> list[Evidence]:
    kinds: list[tuple[str, str, Callable[[Attempted], bool]]] = [
        (UNSCORED, "Not scored", lambda one: one.outcome is Outcome.UNSCORED),
        (HIDDEN, "The guard hid something from them", lambda one: one.was_hidden),
        (CONTAMINATED, "They read their question word for word", lambda one: one.contaminated),
        (DISPUTED, "The judges differ", lambda one: one.is_disputed),
        (BY_HAND, "Judged by a person", lambda one: one.by_hand),
    ]
    found = [
        Evidence(evidence_id(number, kind), number, title, by_question(filter(holds, run.attempts)))
        for kind, title, holds in kinds
    ]
    for ending in dict.fromkeys(one.ending for one in run.attempts):
        title = "Ending not recorded" if ending is None else f"Ended: {ending_words(ending)}"
        own = by_question(one for one in run.attempts if one.ending is ending)
        found.append(Evidence(ending_id(number, ending), number, title, own))
    for name, groups in run.result.groups.items():
        for place, group in enumerate(groups):
            own = [one.id for one in run.result.questions if group in one.groups.get(name, ())]
            title = f"{name} {group}"
            found.append(Evidence(evidence_id(number, name, str(place)), number, title, dict.fromkeys(own, ())))
    return found


# Opening runs -------------------------------------------------------------------------------------------------------------


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
    directory = RunLog(place)
    file = directory.require()
    result = EvalResult.load(directory.result_file)
    rows = directory.counted(result)
    judged = {one.key: one for one in directory.verdicts()}
    hidden = guard_counts(directory.guard_file).hidden_from
    listed = [_attempted(rows[key], judged.get(key), result, was_hidden=key in hidden) for key in sorted(rows)]
    made_with = directory.made_with()
    profile = made_with.get("profile", {})
    return Run(
        name=place.resolve().name,
        store=str(directory.root),
        result=result,
        attempts=tuple(listed),
        about=file.about,
        readings=tuple(_readings(directory, listed, rows, readings)),
        profile=next((row.profile for row in rows.values() if row.profile), "") or str(profile.get("name", "")),
        budgets=profile.get("budgets") if isinstance(profile.get("budgets"), dict) else {},
        texts={one.id: one.text for one in directory.questions()} if directory.questions_file.is_file() else {},
    )


def _attempted(row: Episode, judged: JudgedAttempt | None, result: EvalResult, *, was_hidden: bool) -> Attempted:
    correct = judged.correct if judged is not None else None
    differs = judged is not None and bool(result.second_judge) and None not in (judged.correct, judged.second)
    applies = result.contamination is not None and result.contamination.applies
    return Attempted(
        id=row.id,
        question=row.key[0],
        attempt=row.key[1],
        outcome=_OUTCOMES[correct],
        ending=row.ending,
        contaminated=applies and bool(row.contaminated),
        was_hidden=was_hidden,
        is_disputed=differs and judged is not None and judged.correct is not judged.second,
        by_hand=judged is not None and judged.code is Code.BY_HAND,
    )


def _readings(directory: RunLog, listed: Iterable[Attempted], rows: dict[tuple[str, int], Episode], most: int) -> list[Reading]:
    """The first ones of each outcome, a third of all at most, in the order of outcomes."""
    each = max(1, most // len(Outcome)) if most else 0
    by_outcome: dict[Outcome, list[Attempted]] = {outcome: [] for outcome in Outcome}
    for one in listed:
        if len(by_outcome[one.outcome]) < each:
            by_outcome[one.outcome].append(one)
    correct = {outcome: value for value, outcome in _OUTCOMES.items()}
    return [
        reading_of(directory.record(rows[one.question, one.attempt]), _TITLES[outcome], correct=correct[outcome])
        for outcome, chosen in by_outcome.items()
        for one in chosen
    ]
