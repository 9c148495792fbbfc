"""Several runs compared: every figure of a report, before any is written down for people.

Runs are paired by question: only questions of one id and one text that both have a scored attempt at are compared (files number
their questions alike: an id proves nothing), and how many those are stands beside. Of several comparisons the p-values are
adjusted (Holm).
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from sanderling.core.errors import UserError
from sanderling.core.types import Ending
from sanderling.evaluate.guarding import guard_counts
from sanderling.evaluate.log import About, RunLog
from sanderling.evaluate.peers.records import notes_of
from sanderling.evaluate.reports.reading import OUTCOMES, Outcome, Reading, reading_of
from sanderling.evaluate.result import EvalResult
from sanderling.evaluate.statistics import PairedDifference, holm, paired_difference
from sanderling.judge.verdict import Code
from sanderling.report.numbers import UNKNOWN, ending_words


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
    left_out: int  # questions of either run that the other lacks, asks something else by that id, or has no scored attempt at
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
    base = next((run for run in runs if baseline in ("", run.name)), None)
    if base is None:
        raise ValueError(f"{baseline!r} is none of the runs")
    others = [run for run in runs if run is not base]
    found = [pair for run in others if (pair := _pair(run, base)) is not None]
    adjusted = holm([pair.found.p_value for pair in found])
    pairs = [replace(pair, p_adjusted=p) for pair, p in zip(found, adjusted, strict=True)]
    of_each = [_facts(run) for run in runs]
    facts = {name: tuple(one[name] for one in of_each) for name in of_each[0]}
    apart = [run.name for run in others if run.name not in {pair.name for pair in pairs}]
    notes = [*_notes(runs, facts, pairs), *(f"{name} has no question in common with {base.name}." for name in apart)]
    return RunsReport(tuple(runs), tuple(pairs), facts, tuple(notes))


def _pair(run: Run, base: Run) -> Pair | None:
    """None where no question can be compared."""
    ours, theirs = run.result.per_question(), base.result.per_question()
    asked, other = ({(q.id, q.text_digest) for q in one.result.questions} for one in (run, base))
    scored = sorted({id for id, _ in asked & other} & ours.keys() & theirs.keys())
    if not scored:
        return None
    found = paired_difference([ours[id] for id in scored], [theirs[id] for id in scored], seed=0)
    ids = [one.id for one in run.result.questions if one.id in set(scored)]
    better, worse = tuple(id for id in ids if ours[id] > theirs[id]), tuple(id for id in ids if ours[id] < theirs[id])
    return Pair(run.name, base.name, found, found.p_value, len(asked | other) - len(scored), better, worse)


def _facts(run: Run) -> dict[str, str]:
    about, result = run.about, run.result
    chosen = f"{len(result.questions):,}" + (f" ({about.chosen})" if about and about.chosen != "all" else "")
    guard = UNKNOWN if about is None else "off"
    if about is not None and about.guard.on:
        how = "pages with the question too" if about.guard.verbatim else "addresses only"
        guard = f"on, {how} ({about.guard.fingerprint[:8]})"
    return {
        "benchmark": " ".join(filter(None, (about.benchmark, about.split))) if about else UNKNOWN,
        "questions": chosen,
        "attempts": str(result.attempts),
        "model": result.model or UNKNOWN,
        "profile": run.profile or UNKNOWN,
        "world": result.world or UNKNOWN,
        "guard": guard,
        "judge": result.judge or UNKNOWN,
        "second judge": result.second_judge or "none",
        "seed": str(result.seed),
        "version": result.version,
        "date": result.date,
    }


def differing(facts: dict[str, tuple[str, ...]]) -> list[str]:
    """Names of facts in which the runs are not alike."""
    return [name for name, values in facts.items() if len(set(values)) > 1]


def _notes(runs: Sequence[Run], facts: dict[str, tuple[str, ...]], pairs: Sequence[Pair]) -> list[str]:
    notes = [f"{run.name} is invalid: {run.result.invalid_because}" for run in runs if run.result.invalid_because]
    peers = [(run, run.about.peers) for run in runs if run.about is not None and run.about.peers is not None]
    notes += [f"{run.name}: {note}" for run, facts_of in peers for note in notes_of(facts_of)]
    differ = {
        "judge": "The runs have different judges: a difference may be the judges'.",
        "attempts": "The runs have different numbers of attempts: compare pass@k at the same k.",
        "guard": "The runs have different guards: what one could read was hidden from another.",
    }
    notes += [note for name, note in differ.items() if name in differing(facts)]
    for run in runs:
        read, curve = run.result.contamination, run.result.pass_at_k
        if read is not None and read.contaminated:
            notes.append(
                f"In {run.name} {read.contaminated:,} of {read.attempts:,} attempts read their question word for word."
            )
        if fewer := [k for k in curve if curve[k].questions < curve[1].questions]:
            first, last = fewer[0], fewer[-1]
            notes.append(
                f"In {run.name} not every question has as many scored attempts: pass@{first} rests on "
                f"{curve[first].questions:,} of {curve[1].questions:,} questions, pass@{last} on {curve[last].questions:,}. "
                "A rise may be theirs."
            )
    if len({run.about.questions_sha256 for run in runs if run.about is not None}) > 1:
        notes.append("The runs ask different questions: only those of the same id and text are compared.")
    notes += [f"{pair.name} and {pair.baseline} are compared on {pair.found.questions:,} questions; {pair.left_out:,} are not "
              "in both with a scored attempt." for pair in pairs if pair.left_out]  # fmt: skip
    return notes


# The attempts behind a figure ---------------------------------------------------------------------------------------------


UNSCORED, HIDDEN, CONTAMINATED, DISPUTED, BY_HAND = "unscored", "hidden", "contaminated", "disputed", "by-hand"
_KINDS: dict[str, tuple[str, Callable[[Attempted], bool]]] = {
    UNSCORED: ("Not scored", lambda one: one.outcome is Outcome.UNSCORED),
    HIDDEN: ("The guard hid something from them", lambda one: one.was_hidden),
    CONTAMINATED: ("They read their question word for word", lambda one: one.contaminated),
    DISPUTED: ("The judges differ", lambda one: one.is_disputed),
    BY_HAND: ("Judged by a person", lambda one: one.by_hand),
}


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


def _of_run(number: int, run: Run) -> Iterable[Evidence]:
    for kind, (title, holds) in _KINDS.items():
        yield Evidence(evidence_id(number, kind), number, title, by_question(filter(holds, run.attempts)))
    for ending in dict.fromkeys(one.ending for one in run.attempts):
        title = "Ending not recorded" if ending is None else f"Ended: {ending_words(ending)}"
        own = by_question(one for one in run.attempts if one.ending is ending)
        yield Evidence(ending_id(number, ending), number, title, own)
    for name, groups in run.result.groups.items():
        for place, group in enumerate(groups):
            ids = [one.id for one in run.result.questions if group in one.groups.get(name, ())]
            yield Evidence(evidence_id(number, name, str(place)), number, f"{name} {group}", dict.fromkeys(ids, ()))


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


def by_question(attempts: Iterable[Attempted]) -> dict[str, tuple[int, ...]]:
    """The numbers of attempts, in the order of questions."""
    found: dict[str, tuple[int, ...]] = {}
    for one in attempts:
        found[one.question] = (*found.get(one.question, ()), one.attempt)
    return found


# Opening runs -------------------------------------------------------------------------------------------------------------


def open_runs(places: Sequence[Path], readings: int = 12) -> list[Run]:
    """The runs, named by their directories. Raises UserError where one is no finished run, or two have one name."""
    runs = [_open(place, readings) for place in places]
    names = [run.name for run in runs]
    if twice := next((name for name in names if names.count(name) > 1), ""):
        raise UserError(f"Two runs are called {twice!r}: rename one of their directories.")
    return runs


def _open(place: Path, readings: int) -> Run:
    log = RunLog(place)
    about, result = log.require().about, EvalResult.load(log.result_file)
    rows, judged = log.counted(result), {one.key: one for one in log.verdicts()}
    hidden = guard_counts(log.guard_file).hidden_from
    looked_at = result.contamination is not None and result.contamination.applies
    listed: list[Attempted] = []
    chosen: dict[Outcome, list[Reading]] = {outcome: [] for outcome in Outcome}
    for key in sorted(rows):
        row, one = rows[key], judged.get(key)
        correct = one.correct if one is not None else None
        outcome = OUTCOMES[correct]
        second = one.second if one is not None and result.second_judge else None
        differs = correct is not None and second is not None and correct is not second
        by_hand = one is not None and one.code is Code.BY_HAND
        read = looked_at and bool(row.contaminated)
        listed.append(Attempted(row.id, *key, outcome, row.ending, read, key in hidden, differs, by_hand))
        if readings and len(chosen[outcome]) < max(1, readings // len(Outcome)):
            chosen[outcome].append(reading_of(log.record(row), outcome.title_of_one, correct=correct))
    profile = log.made_with().get("profile", {})
    return Run(
        name=place.resolve().name,
        store=str(log.root),
        result=result,
        attempts=tuple(listed),
        about=about,
        readings=tuple(reading for of_one in chosen.values() for reading in of_one),
        profile=next((row.profile for row in rows.values() if row.profile), "") or str(profile.get("name", "")),
        texts={one.id: one.text for one in log.questions()} if log.questions_file.is_file() else {},
    )
