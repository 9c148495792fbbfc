"""A report's tables, the same in the terminal, in Markdown and on the page, and the attempts behind their figures.

Computes no figure.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from sanderling.evaluate.agreement import FEW
from sanderling.evaluate.comparing.model import Attempted, Pair, Run, RunsReport, differing
from sanderling.evaluate.reading import Outcome
from sanderling.evaluate.result import Confidence, Estimate, EvalResult
from sanderling.evaluate.statistics import Interval
from sanderling.report.numbers import (
    MISSING,
    UNKNOWN,
    chance,
    duration,
    ending_words,
    known,
    mean,
    money,
    percent,
    points,
    span,
)
from sanderling.world.guard import GuardKind


@dataclass(frozen=True)
class Cell:
    """Text, and the name of the list of attempts behind it; empty: none."""

    text: str
    behind: str = ""
    spread: str = ""
    """Its interval, where that has no column."""

    @property
    def whole(self) -> str:
        """In one line."""
        return f"{self.text} ({self.spread})" if self.spread else self.text


@dataclass(frozen=True)
class Rows:
    """One table; the first column is text, the others are numbers."""

    name: str
    title: str
    heads: tuple[str, ...]
    cells: tuple[tuple[Cell, ...], ...]
    about: str = ""
    """A sentence above it."""

    run: int | None = None
    """The number of the run that it is of; None: of all."""

    @property
    def rows(self) -> tuple[tuple[str, ...], ...]:
        """As text alone."""
        return tuple(tuple(cell.whole for cell in row) for row in self.cells)


def table(
    name: str,
    title: str,
    heads: Sequence[str],
    rows: Sequence[tuple[str | Cell, ...]],
    about: str = "",
    *,
    run: int | None = None,
) -> Rows:
    """A table of texts and cells."""
    cells = tuple(tuple(cell if isinstance(cell, Cell) else Cell(cell) for cell in row) for row in rows)
    return Rows(name, title, tuple(heads), cells, about, run)


# The attempts behind a figure ---------------------------------------------------------------------------------------------


UNSCORED, HIDDEN, CONTAMINATED, DISPUTED, BY_HAND = "unscored", "hidden", "contaminated", "disputed", "by-hand"


@dataclass(frozen=True)
class Evidence:
    """Attempts at questions; of whole questions, which all attempts are meant by, none are named."""

    id: str
    run: int
    title: str
    attempts: dict[str, tuple[int, ...]]
    """By question; empty: all of them."""


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


# Tables -------------------------------------------------------------------------------------------------------------------


Row = tuple[str | Cell, ...]


def tables(report: RunsReport) -> Iterator[Rows]:
    """All tables, in the order of a report; one without rows is left out."""
    found = (
        _headline(report),
        _pairs(report),
        *_curves(report),
        *_groups(report),
        _endings(report),
        _took(report),
        *verdict_tables(report),
        _sheet(report),
    )
    return (table for table in found if table.cells)


def tries(result: EvalResult) -> str:
    """Attempts at each question: one number, or in others' runs from the fewest to the most."""
    found = {one.attempts for one in result.questions}
    return "–".join(map(str, sorted({min(found), max(found)}))) if found else str(result.attempts)


def _headline(report: RunsReport) -> Rows:
    rows: list[Row] = []
    for number, run in enumerate(report.runs):
        result, best = run.result, run.result.pass_at_1
        low, high = result.pass_at_1_bounds
        bounds = f"{percent(low)} to {percent(high)}" if result.unscored else MISSING
        size = f"{len(result.questions):,} × {tries(result)}"
        name = run.name + ("" if result.valid else " (invalid)")
        unscored = Cell(f"{result.unscored:,}", evidence_id(number, UNSCORED))
        rows.append((Cell(name, f"attempts-{number}"), size, percent(best.value), span(best.interval), unscored, bounds))
    heads = ("run", "questions", "avg@k", "95% interval", "unscored", "had they been wrong, right")
    return table("headline", "Results", heads, rows)


def _pairs(report: RunsReport) -> Rows:
    several = len(report.pairs) > 1
    rows = [_pair(place, pair, several=several) for place, pair in enumerate(report.pairs)]
    heads = ("comparison", "questions", "points", "95% interval", "better at", "worse at", "sign flips")
    return table("differences", "Differences on the same questions", (*heads, *(["adjusted"] if several else [])), rows)


def _pair(place: int, pair: Pair, *, several: bool) -> Row:
    found = pair.found
    # A difference that is the same at every question has no spread to draw from: a point would pass for certainty.
    low, high = (points(value) for value in found.interval) if found.has_spread else (MISSING, MISSING)
    better, worse = (
        Cell(f"{len(pair.better):,}", pair_id(place, "better")),
        Cell(f"{len(pair.worse):,}", pair_id(place, "worse")),
    )
    name = f"{pair.name} over {pair.baseline}"
    row = (name, f"{found.questions:,}", points(found.difference), f"{low} to {high}", better, worse, chance(found.p_value))
    return (*row, chance(pair.p_adjusted)) if several else row


def _curves(report: RunsReport) -> Iterator[Rows]:
    """For each run pass@k, the majority and pass^k; where attempts have scores, the best of k by each."""
    for number, run in enumerate(report.runs):
        result = run.result
        if result.attempts == 1:
            continue
        rows: list[Row] = []
        for k in sorted(result.majority or result.pass_at_k):
            some, vote = result.pass_at_k[k], _estimate(result.majority.get(k))
            rows.append((str(k), f"{some.questions:,}", *_estimate(some), *vote, percent(result.pass_hat_k[k].value)))
        heads = ("k", "questions", "pass@k", "95% interval", "majority of k", "95% interval", "pass^k")
        yield table(f"curve-{number}", f"{run.name}: with more attempts", heads, rows, run=number)
        if result.best_of:
            heads = ["k", *(head for name in result.best_of for head in (name, "95% interval"))]
            chosen: list[Row] = [
                (str(k), *(cell for curve in result.best_of.values() for cell in _estimate(curve.get(k))))
                for k in sorted(next(iter(result.best_of.values())))
            ]
            about = "Of k attempts the one with the highest score is handed in; one without an answer only if all are."
            yield table(f"best-{number}", f"{run.name}: the best of k by a score", heads, chosen, about, run=number)


def _estimate(one: Estimate | None) -> tuple[str, str]:
    return (percent(one.value), span(one.interval)) if one is not None else (MISSING, MISSING)


def _groups(report: RunsReport) -> Iterator[Rows]:
    names = dict.fromkeys(name for run in report.runs for name in run.result.groups)
    for name in names:
        groups = dict.fromkeys(group for run in report.runs for group in run.result.groups.get(name, {}))
        rows: list[Row] = []
        for group in groups:
            cells: list[str | Cell] = []
            for number, run in enumerate(report.runs):
                one = run.result.groups.get(name, {}).get(group)
                count = one.pass_at_1.questions + one.pass_at_1.too_few if one else 0
                behind = Cell(f"{count:,}", group_id(report, number, name, group))
                cells += [behind, *_estimate(one.pass_at_1)] if one else [MISSING] * 3
            rows.append((group, *cells))
        heads = [name]
        for run in report.runs:
            heads += [f"{run.name}: n", "avg@k", "95% interval"]
        yield table(f"by-{name}", f"By {name}", heads, rows)


def _endings(report: RunsReport) -> Rows:
    endings = dict.fromkeys(ending for run in report.runs for ending in run.result.endings)
    rows: list[Row] = [
        (ending_words(e), *(_count(run.result.endings.get(e, 0), ending_id(n, e)) for n, run in enumerate(report.runs)))
        for e in endings
    ]
    silent = [run.result.made - sum(run.result.endings.values()) for run in report.runs]
    if any(silent):
        rows.append((UNKNOWN, *(_count(count, ending_id(n, None)) for n, count in enumerate(silent))))
    return table("endings", "How attempts ended", ("ending", *(run.name for run in report.runs)), rows)


def _count(count: int, behind: str) -> Cell:
    return Cell(f"{count:,}", behind)


def _took(report: RunsReport) -> Rows:
    facts = [_spent(run.result) for run in report.runs]
    rows: list[Row] = [(name, *(fact[name] for fact in facts)) for name in facts[0]]
    about = "A right answer takes what all attempts took, the wrong ones too, over the number of right ones."
    return table("took", "What an attempt takes", ("", *(run.name for run in report.runs)), rows, about)


def _spent(result: EvalResult) -> dict[str, str | Cell]:
    spent, browse, took, cost = result.spending, result.browse, result.latency, result.cost
    prices = f"{cost.prompt_price:g} and {cost.sampled_price:g}" if cost else UNKNOWN
    return {
        "turns": mean(result.mean_turns),
        "tool calls": mean(result.mean_calls),
        "visits among calls": percent(browse.overall, 0),
        "… in right attempts": percent(browse.correct, 0),
        "… in wrong attempts": percent(browse.wrong, 0),
        "turns that keep the grammar": known(result.format_accuracy, percent),
        "time of an attempt, mean": known(took and took.mean, duration),
        "… median": known(took and took.median, duration),
        "… of right ones, mean": known(took and took.right_mean, duration),
        "… of right ones, median": known(took and took.right_median, duration),
        "… of which the model": known(took and took.model, duration),
        "… of which the tools": known(took and took.tools, duration),
        "time for each right answer": _each(spent and spent.seconds, spent and spent.seconds_interval, duration),
        "tokens sampled for each right answer": _each(spent and spent.sampled_tokens, spent and spent.sampled_interval, _whole),
        "prompt tokens for each right answer": _each(spent and spent.prompt_tokens, spent and spent.prompt_interval, _whole),
        "price of a million prompt and sampled tokens": prices,
        "cost of all attempts": money(cost and cost.total),
        "cost of an attempt": money(cost and cost.attempt),
        "cost of each right answer": _each(cost and cost.right, cost and cost.right_interval, money),
        "standard error, questions as clusters": percent(result.clustered_error),
        "… of it by attempts, not questions": percent(result.attempts_error),
    }


def _whole(value: float) -> str:
    """A count, to three digits: no interval supports more."""
    digits = len(f"{value:.0f}")
    return f"{round(value, min(0, 3 - digits)):,.0f}"


def _each(value: float | None, interval: Interval | None, write: Callable[[float], str]) -> Cell:
    if value is None:
        return Cell(UNKNOWN)
    return Cell(write(value), spread=f"{write(interval.low)} – {write(interval.high)}" if interval else "")


def _sheet(report: RunsReport) -> Rows:
    unlike = differing(report.facts)
    rows: list[Row] = [(name + (" ≠" if name in unlike else ""), *values) for name, values in report.facts.items()]
    told = [name for name in report.facts if name in unlike]
    about = f"The runs differ in: {', '.join(told)}." if told else ""
    return table("facts", "What was run", ("", *(run.name for run in report.runs)), rows, about)


# Tables of verdicts -------------------------------------------------------------------------------------------------------


_HIDDEN = {
    GuardKind.ADDRESS: "hidden by address",
    GuardKind.VERBATIM: "hidden word for word",
    GuardKind.CANARY: "hidden by canary",
    GuardKind.REPORTED: "shown, quoting a part of the question",
}
_BY_HAND = "by hand"


def verdict_tables(report: RunsReport) -> Iterator[Rows]:
    """In their order; some may have no rows."""
    yield _guard(report)
    yield _judges(report)
    yield _grades(report)
    for number, run in enumerate(report.runs):
        if run.result.confidence is not None:
            yield _confidence(number, run.name, run.result.confidence)


def _guard(report: RunsReport) -> Rows:
    told = [_guarded(number, run.result, is_on=run.about is not None and run.about.guard.on)
            for number, run in enumerate(report.runs)]  # fmt: skip
    rows: list[tuple[str | Cell, ...]] = [(name, *(one[name] for one in told)) for name in told[0]]
    about = "A contaminated attempt read its question word for word, and perhaps its answer; it counts as it was judged."
    return table("guard", "Leaks of the benchmark", ("", *(run.name for run in report.runs)), rows, about)


def _guarded(number: int, result: EvalResult, *, is_on: bool) -> dict[str, str | Cell]:
    guard, read = result.guard, result.contamination
    found: dict[str, str | Cell] = {"guard": "on" if is_on else "off"}
    for kind, words in _HIDDEN.items():
        found[words] = f"{guard.kinds.get(kind, 0):,}" if guard else UNKNOWN if is_on else MISSING
    unguarded = UNKNOWN if is_on else MISSING
    found["attempts from which something was hidden"] = (
        Cell(f"{guard.attempts:,}", evidence_id(number, HIDDEN)) if guard else unguarded
    )
    looked = read is not None and read.applies
    found["attempts looked at afterwards"] = f"{read.attempts:,}" if read and looked else "none" if read else UNKNOWN
    found["contaminated attempts"] = (
        Cell(f"{read.contaminated:,}", evidence_id(number, CONTAMINATED)) if read and looked else MISSING
    )
    found["avg@k with them"] = _figure(result.pass_at_1)
    found["avg@k without them"] = _figure(read.without) if read and read.without else MISSING
    return found


def _judges(report: RunsReport) -> Rows:
    """Two judges of a run, or a judge and a person, a row each."""
    rows: list[tuple[str | Cell, ...]] = []
    for number, run in enumerate(report.runs):
        for one in run.result.agreement:
            behind = evidence_id(number, BY_HAND if one.second == _BY_HAND else DISPUTED)
            judged = one.both + one.neither + one.first_only + one.second_only
            rows.append(
                (
                    f"{run.name}: {one.first} and {one.second}",
                    f"{judged:,}",
                    Cell(percent(one.agreed), spread=span(one.agreed_interval) if one.agreed_interval else ""),
                    Cell(known(one.kappa, "{:.2f}".format), spread=_plain_span(one.kappa_interval)),
                    Cell(f"{one.first_only:,}", behind),
                    Cell(f"{one.second_only:,}", behind),
                    percent(one.first_average),
                    percent(one.second_average),
                )
            )
    heads = (
        "judges",
        "attempts",
        "agree",
        "kappa",
        "right by the first alone",
        "by the second alone",
        "avg by the first",
        "second",
    )
    about = "The first judge decides every figure. Kappa is agreement beyond chance."
    return table("judges", "Two judges of the same attempts", heads, rows, about)


def _grades(report: RunsReport) -> Rows:
    told = [_graded(run.result) for run in report.runs]
    names = dict.fromkeys(name for one in told for name in one)
    rows: list[tuple[str | Cell, ...]] = [(name, *(one.get(name, MISSING) for one in told)) for name in names]
    return table("grades", "Beyond right and wrong", ("", *(run.name for run in report.runs)), rows)


def _graded(result: EvalResult) -> dict[str, str | Cell]:
    found: dict[str, str | Cell] = {}
    if result.score is not None:
        found["mean score"] = _figure(result.score)
    if result.grades is not None:
        grades = result.grades
        found |= {f"graded {ending_words(grade)}": f"{count:,}" for grade, count in grades.counts.items()}
        found["attempted"] = _figure(grades.attempted)
        found["right of those attempted"] = _figure(grades.given_attempted)
        found["F1 of right and right of those attempted"] = _figure(grades.f1)
    if result.sets is not None:
        sets = result.sets
        found |= {f"graded {ending_words(grade)}": f"{count:,}" for grade, count in sets.counts.items()}
        found["precision, mean over questions"] = _figure(sets.precision)
        found["recall, mean over questions"] = _figure(sets.recall)
        found["F1, mean over questions"] = _figure(sets.f1)
    return found


def _confidence(number: int, name: str, found: Confidence) -> Rows:
    rows: list[tuple[str | Cell, ...]] = [
        (f"{one.low:.0f}–{one.high:.0f}%", f"{one.answers:,}", f"{one.confidence:.0f}%", f"{one.right:.0f}%")
        for one in found.bins
        if one.confidence is not None and one.right is not None
    ]
    spread = f" ({_plain_span(found.error_interval, digits=1)})" if found.error_interval else ""
    error = known(found.error, "{:.1f}".format) + spread
    about = f"Expected calibration error {error} points over {found.answers:,} answers"
    about += f"; {found.left_out:,} claim none, or on an unknown scale." if found.left_out else "."
    about += f" Few: below {FEW} answers this says little." if found.answers < FEW else ""
    heads = ("claimed", "answers", "mean claim", "right")
    return table(f"confidence-{number}", f"{name}: how sure answers are, and how right", heads, rows, about, run=number)


def _figure(one: Estimate) -> Cell:
    return Cell(percent(one.value), spread=span(one.interval) if one.interval else "")


def _plain_span(interval: tuple[float, float] | None, digits: int = 2) -> str:
    return f"{interval[0]:.{digits}f} – {interval[1]:.{digits}f}" if interval else ""
