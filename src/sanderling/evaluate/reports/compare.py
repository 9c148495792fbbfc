"""Runs compared: every figure of a report, as tables that are the same in the terminal and on the page.

Runs are paired by question: only questions of one id and one text that both have a scored attempt at are compared (files number
their questions alike: an id proves nothing), and how many those are stands beside. Of several comparisons the p-values are
adjusted (Holm).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from rich import box
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from sanderling.core.errors import UserError
from sanderling.core.record import Trajectory
from sanderling.core.text import visible
from sanderling.evaluate.figures import worlds_of
from sanderling.evaluate.log import About, RunLog
from sanderling.evaluate.peers import notes_of
from sanderling.evaluate.result import Estimate, EvalResult, Key
from sanderling.evaluate.statistics import PairedDifference, holm, paired_difference
from sanderling.report.numbers import MISSING, UNKNOWN, chance, ending_words, known, mean, money, percent, points, span


@dataclass(frozen=True)
class Run:
    """A finished run."""

    name: str
    store: str  # where its trajectories are, for the reader's own command line
    result: EvalResult
    verdicts: Mapping[Key, bool | None]  # None: not scored
    about: About | None = None
    records: Mapping[Key, Trajectory] = field(default_factory=dict[Key, Trajectory])  # some, to be read on the page
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


def open_runs(places: Sequence[Path], records: int = 4) -> list[Run]:
    """The runs, each with so many right, wrong and unscored attempts to read, named by the ends of paths that tell them apart.

    Raises UserError where one is no finished run, or given twice.
    """
    runs = [_open(place, records) for place in places]
    whole = [place.resolve().parts for place in places]
    if twice := next((place for place, parts in zip(places, whole, strict=True) if whole.count(parts) > 1), None):
        raise UserError(f"{twice} is given twice: give each run once.")
    enough = (size for size in range(1, max(map(len, whole)) + 1) if len({parts[-size:] for parts in whole}) == len(whole))
    size = next(enough)  # of the ends of their paths that tell them apart
    return [replace(run, name="/".join(parts[-size:])) for run, parts in zip(runs, whole, strict=True)]


def _open(place: Path, records: int) -> Run:
    log = RunLog(place)
    about, result = log.require().about, EvalResult.load(log.result_file)
    rows, judged = log.counted(result), {one.key: one.correct for one in log.verdicts()}
    verdicts = {key: judged.get(key) for key in sorted(rows)}
    of_outcomes = ([key for key, correct in verdicts.items() if correct is outcome] for outcome in (True, False, None))
    chosen = [key for keys in of_outcomes for key in keys[:records]]
    profile = log.made_with().get("profile", {})
    return Run(
        name=place.resolve().name,
        store=str(log.root),
        result=result,
        verdicts=verdicts,
        about=about,
        records={key: log.record(rows[key]) for key in chosen},
        profile=next((row.profile for row in rows.values() if row.profile), "") or str(profile.get("name", "")),
        texts={one.id: one.text for one in log.questions()} if log.questions_file.is_file() else {},
    )


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
    apart = [_apart(run, base) for run in others if run.name not in {pair.name for pair in pairs}]
    notes = [*_notes(runs, pairs), *apart]
    return RunsReport(tuple(runs), tuple(pairs), facts, tuple(notes))


def _apart(run: Run, base: Run) -> str:
    """Why a run is not compared."""
    ours, theirs = ({question.text_digest for question in one.result.questions} for one in (run, base))
    same, told = len(ours & theirs), f"{run.name} has no question in common with {base.name}"
    known = f"{same:,} texts are the same, under other ids: measure both on one file, with the same --benchmark and --questions"
    return f"{told}: {known}." if same else f"{told}."


def _pair(run: Run, base: Run) -> Pair | None:
    """None where no question can be compared."""
    ours, theirs = run.result.per_question(), base.result.per_question()
    asked, other = ({(q.id, q.text_digest) for q in one.result.questions} for one in (run, base))
    scored = sorted({id for id, _ in asked & other} & ours.keys() & theirs.keys())
    if not scored:
        return None
    by_id = {one.id: one for one in run.result.questions}
    worlds = worlds_of([by_id[id] for id in scored])
    found = paired_difference([ours[id] for id in scored], [theirs[id] for id in scored], seed=0, worlds=worlds)
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


def _notes(runs: Sequence[Run], pairs: Sequence[Pair]) -> list[str]:
    notes = [f"{run.name} is invalid: {run.result.invalid_because}" for run in runs if run.result.invalid_because]
    peers = [(run, run.about.peers) for run in runs if run.about is not None and run.about.peers is not None]
    notes += [f"{run.name}: {note}" for run, facts in peers for note in notes_of(facts)]
    for pair in (pair for pair in pairs if pair.left_out):
        on = f"{pair.name} and {pair.baseline} are compared on {pair.found.questions:,} questions"
        notes.append(f"{on}; {pair.left_out:,} are not in both with a scored attempt.")
    return notes


# Tables -------------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Rows:
    """One table; the first column is text, the others are numbers."""

    name: str
    title: str
    heads: Sequence[str]
    rows: Sequence[tuple[str, ...]]
    about: str = ""  # a sentence above it


def tables(report: RunsReport) -> Iterator[Rows]:
    """All tables, in the order of a report; one without rows is left out."""
    names = tuple(run.name for run in report.runs)
    unlike = [name for name, values in report.facts.items() if len(set(values)) > 1]
    facts = [(name + (" ≠" if name in unlike else ""), *values) for name, values in report.facts.items()]
    about = f"The runs differ in: {', '.join(unlike)}." if unlike else ""
    taken = [_taken(run.result) for run in report.runs]
    many = [(number, run) for number, run in enumerate(report.runs) if run.result.attempts > 1]
    found = (
        Rows("headline", "Results", _HEADLINE, [_headline(run) for run in report.runs]),
        Rows("differences", "Differences on the same questions", _PAIR, [_pair_row(pair) for pair in report.pairs]),
        *(Rows(f"curve-{number}", f"{run.name}: with more attempts", _CURVE, _by_k(run.result)) for number, run in many),
        *_groups(report),
        Rows("endings", "How attempts ended", ("ending", *names), [*_endings(report)]),
        Rows("took", "What an attempt takes", ("", *names), [(row, *(one[row] for one in taken)) for row in taken[0]]),
        Rows("judges", "Two judges of the same attempts", _JUDGES, [*_judges(report)],
             "The first judge decides every figure. Kappa is agreement beyond chance."),
        Rows("facts", "What was run", ("", *names), facts, about),
    )  # fmt: skip
    return (table for table in found if table.rows)


def _tries(result: EvalResult) -> str:
    """Attempts at each question: one number, or in others' runs from the fewest to the most."""
    found = {one.attempts for one in result.questions}
    return "–".join(map(str, sorted({min(found), max(found)}))) if found else str(result.attempts)


_HEADLINE = ("run", "questions", "avg@k", "95% interval", "unscored")


def _headline(run: Run) -> tuple[str, ...]:
    result, name = run.result, run.name + ("" if run.result.valid else " (invalid)")
    asked = f"{len(result.questions):,} × {_tries(result)}"
    return (name, asked, *_estimate(result.pass_at_1), f"{result.unscored:,}")


_PAIR = ("comparison", "questions", "points", "95% interval", "better at", "worse at", "sign flips", "adjusted")


def _pair_row(pair: Pair) -> tuple[str, ...]:
    found = pair.found
    # A difference that is the same at every question has no spread to draw from: a point would pass for certainty.
    low, high = (points(value) for value in found.interval) if found.has_spread else (MISSING, MISSING)
    figures = (f"{found.questions:,}", points(found.difference), f"{low} to {high}")
    sides = (f"{len(pair.better):,}", f"{len(pair.worse):,}")
    return (f"{pair.name} over {pair.baseline}", *figures, *sides, chance(found.p_value), chance(pair.p_adjusted))


_CURVE = ("k", "questions", "pass@k", "95% interval", "pass^k")


def _by_k(result: EvalResult) -> list[tuple[str, ...]]:
    """pass@k and pass^k at powers of two and at all attempts."""
    ks = [k for k in result.pass_at_k if k & (k - 1) == 0 or k == result.attempts]
    curve = ((k, result.pass_at_k[k]) for k in ks)
    return [(str(k), f"{one.questions:,}", *_estimate(one), percent(result.pass_hat_k[k].value)) for k, one in curve]


def _estimate(one: Estimate | None) -> tuple[str, str]:
    return (percent(one.value), span(one.interval)) if one is not None else (MISSING, MISSING)


def _groups(report: RunsReport) -> Iterator[Rows]:
    heads = [head for run in report.runs for head in (f"{run.name}: n", "avg@k", "95% interval")]
    for name in dict.fromkeys(name for run in report.runs for name in run.result.groups):
        of_runs, rows = [run.result.groups.get(name, {}) for run in report.runs], list[tuple[str, ...]]()
        for group in dict.fromkeys(group for of_run in of_runs for group in of_run):
            found = [of_run[group].pass_at_1 if group in of_run else None for of_run in of_runs]
            asked = (MISSING if one is None else f"{one.questions + one.too_few:,}" for one in found)
            rows.append((group, *(cell for n, one in zip(asked, found, strict=True) for cell in (n, *_estimate(one)))))
        yield Rows(f"by-{name}", f"By {name}", (name, *heads), rows)


def _endings(report: RunsReport) -> Iterator[tuple[str, ...]]:
    for ending in dict.fromkeys(ending for run in report.runs for ending in run.result.endings):
        yield (ending_words(ending), *(f"{run.result.endings.get(ending, 0):,}" for run in report.runs))
    silent = [run.result.made - sum(run.result.endings.values()) for run in report.runs]
    if any(silent):
        yield (UNKNOWN, *(f"{count:,}" for count in silent))


def _taken(result: EvalResult) -> dict[str, str]:
    cost, guard = result.cost, result.guard
    return {
        "turns": mean(result.mean_turns),
        "tool calls": mean(result.mean_calls),
        "visits among calls": percent(result.visit_share, 0),
        "tokens sampled": known(result.mean_sampled_tokens, "{:,.0f}".format),
        "seconds": mean(result.episode_seconds / result.made if result.made else None),
        "cost of all attempts": money(cost and cost.total),
        "cost of an attempt": money(cost and cost.attempt),
        "cost of each right answer": money(cost and cost.right),
        "attempts from which the guard hid something": f"{guard.attempts:,}" if guard else MISSING,
    }


_JUDGES = ("judges", "attempts", "agree", "kappa", "right by the first alone", "by the second alone")


def _judges(report: RunsReport) -> Iterator[tuple[str, ...]]:
    """Two judges of a run, or a judge and a person, a row each."""
    for name, one in ((run.name, one) for run in report.runs for one in run.result.agreement):
        both = f"{one.both + one.neither + one.first_only + one.second_only:,}"
        agreed = (percent(one.agreed), known(one.kappa, "{:.2f}".format))
        yield (f"{name}: {one.first} and {one.second}", both, *agreed, f"{one.first_only:,}", f"{one.second_only:,}")


# In the terminal ----------------------------------------------------------------------------------------------------------


def terminal(report: RunsReport) -> Iterator[RenderableType]:
    """Notes and tables of a comparison."""
    for note in report.notes:
        yield Text(visible(note), style="yellow")
    for rows in tables(report):
        yield _drawn(rows.heads, rows.rows, rows.title)
        if rows.about:
            yield Text(visible(rows.about), style="dim")


def result_shown(result: EvalResult) -> Iterator[RenderableType]:
    """A result: the headline, the curve over attempts, groups, cost, what it took."""
    best, count = result.pass_at_1, _tries(result)
    over = f" {percent(best.value)} (95% {span(best.interval)}) over {len(result.questions):,} questions × {count}"
    unscored = f"; {result.unscored:,} unscored" if result.unscored else ""
    yield Text.assemble((f"avg@{count}", "bold"), over, unscored, visible(f". Judge: {result.judge}."))
    if result.invalid_because:
        yield Text(f"This run is invalid: {result.invalid_because}", style="red")
    if result.attempts > 1 and best.value is not None:
        yield _drawn(_CURVE, _by_k(result))
    for name, groups in result.groups.items():
        means = ((group, one, one.pass_at_1) for group, one in groups.items())
        rows = [(group, f"{avg.questions + avg.too_few:,}", *_estimate(avg), f"{one.unscored:,}") for group, one, avg in means]
        yield _drawn((name, "questions", "pass@1", "95% interval", "unscored"), rows)
    if result.cost is not None and result.cost.total is not None:
        right = "" if result.cost.right is None else f", {result.cost.right:,.4g} for each right answer"
        yield Text(f"The agent's tokens cost {result.cost.total:,.4g}{right}.")
    if result.mean_turns is not None:
        calls = f"{mean(result.mean_calls)} calls, {percent(result.visit_share, 0)} of them visits"
        tokens = "" if result.mean_sampled_tokens is None else f"; {result.mean_sampled_tokens:,.0f} tokens sampled"
        yield Text(f"An attempt: {mean(result.mean_turns)} turns; {calls}{tokens}.")


def _drawn(heads: Sequence[str], rows: Sequence[Sequence[str]], title: str = "") -> Table:
    named = Text(visible(title), style="bold") if title else None
    shown = Table(title=named, title_justify="left", box=box.SIMPLE_HEAD, padding=(0, 1))
    for place, head in enumerate(heads):
        justify, width = ("right", None) if place else ("left", min(24, max(len(row[0]) for row in rows)))
        shown.add_column(Text(visible(head)), justify=justify, min_width=width)
    for row in rows:
        shown.add_row(*(Text(visible(cell)) for cell in row))
    return shown
