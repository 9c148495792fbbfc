"""Tables of figures, the same in the terminal, in Markdown and on the page. Computes no figure."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from rich import box
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from sanderling.core.text import visible
from sanderling.evaluate.agreement import FEW
from sanderling.evaluate.recorded_calls import share_told
from sanderling.evaluate.reports.compare import (
    BY_HAND,
    CONTAMINATED,
    DISPUTED,
    HIDDEN,
    UNSCORED,
    Pair,
    RunsReport,
    differing,
    ending_id,
    evidence_id,
    group_id,
    pair_id,
)
from sanderling.evaluate.result import Confidence, Contamination, Estimate, EvalResult
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
    """Text, the name of the list of attempts behind it (empty: none), and its interval where that has no column."""

    text: str
    behind: str = ""
    spread: str = ""

    @property
    def whole(self) -> str:
        """In one line."""
        return f"{self.text} ({self.spread})" if self.spread else self.text


Row = tuple[str | Cell, ...]


@dataclass(frozen=True)
class Rows:
    """One table; the first column is text, the others are numbers."""

    name: str
    title: str
    heads: tuple[str, ...]
    cells: tuple[tuple[Cell, ...], ...]
    about: str = ""  # a sentence above it
    run: int | None = None  # the number of the run that it is of; None: of all

    @property
    def rows(self) -> tuple[tuple[str, ...], ...]:
        """As text alone."""
        return tuple(tuple(cell.whole for cell in row) for row in self.cells)


def table(name: str, title: str, heads: Sequence[str], rows: Sequence[Row], about: str = "", *, run: int | None = None) -> Rows:
    """A table of texts and cells."""
    cells = tuple(tuple(cell if isinstance(cell, Cell) else Cell(cell) for cell in row) for row in rows)
    return Rows(name, title, tuple(heads), cells, about, run)


# Tables -------------------------------------------------------------------------------------------------------------------


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
    heads = ("k", "questions", "pass@k", "95% interval", "majority of k", "95% interval", "pass^k")
    for number, run in enumerate(report.runs):
        result = run.result
        if result.attempts == 1:
            continue
        yield table(f"curve-{number}", f"{run.name}: with more attempts", heads, _by_k(result), run=number)
        if best := result.best_of:
            of_k = ["k", *(head for name in best for head in (name, "95% interval"))]
            chosen: list[Row] = [
                (str(k), *(cell for curve in best.values() for cell in _estimate(curve.get(k))))
                for k in sorted(next(iter(best.values())))
            ]
            about = "Of k attempts the one with the highest score is handed in; one without an answer only if all are."
            yield table(f"best-{number}", f"{run.name}: the best of k by a score", of_k, chosen, about, run=number)


def _by_k(result: EvalResult) -> list[tuple[str, ...]]:
    """pass@k, the majority and pass^k at powers of two and at all attempts."""
    rows = []
    for k in sorted(result.majority or result.pass_at_k):
        some, vote = result.pass_at_k[k], _estimate(result.majority.get(k))
        rows.append((str(k), f"{some.questions:,}", *_estimate(some), *vote, percent(result.pass_hat_k[k].value)))
    return rows


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
                if one is None:
                    cells += [MISSING] * 3
                else:
                    behind = Cell(_asked(one.pass_at_1), group_id(report, number, name, group))
                    cells += [behind, *_estimate(one.pass_at_1)]
            rows.append((group, *cells))
        heads = [name]
        for run in report.runs:
            heads += [f"{run.name}: n", "avg@k", "95% interval"]
        yield table(f"by-{name}", f"By {name}", heads, rows)


def _asked(one: Estimate) -> str:
    return f"{one.questions + one.too_few:,}"


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


def _figure(one: Estimate, level: str = "") -> Cell:
    return Cell(percent(one.value), spread=level + span(one.interval) if one.interval else "")


def _plain_span(interval: tuple[float, float] | None, digits: int = 2) -> str:
    return f"{interval[0]:.{digits}f} – {interval[1]:.{digits}f}" if interval else ""


# In the terminal ----------------------------------------------------------------------------------------------------------

_NAME = 24
"""Characters of a row's name that stay on a line."""


def terminal(report: RunsReport) -> Iterator[RenderableType]:
    """Notes and tables of a comparison."""
    for note in report.notes:
        yield Text(visible(note), style="yellow")
    for rows in tables(report):
        shown = Table(title=Text(visible(rows.title), style="bold"), title_justify="left", box=box.SIMPLE_HEAD, padding=(0, 1))
        named = min(_NAME, max(len(row[0]) for row in rows.rows))
        for place, head in enumerate(rows.heads):
            justify, width = ("left", named) if place == 0 else ("right", None)
            shown.add_column(Text(visible(head)), justify=justify, min_width=width)
        for row in rows.rows:
            shown.add_row(*(Text(visible(cell)) for cell in row))
        yield shown
        if rows.about:
            yield Text(visible(rows.about), style="dim")


def result_shown(result: EvalResult) -> Iterator[RenderableType]:
    """A result: the headline with its bounds, the curves, groups, what judges said beyond right and wrong, what it took."""
    yield _headline_of(result)
    if result.invalid_because:
        yield Text(f"This run is invalid: {result.invalid_because}", style="red")
    if result.recorded is not None:
        yield Text(f"The world is a recording: {share_told(result.recorded)}", style="yellow")
    if result.attempts > 1 and result.pass_at_1.value is not None:
        heads = ("k", "questions", "pass@k", "95% interval", "majority of k", "95% interval", "pass^k")
        yield _plain_table(heads, _by_k(result))
    for name, groups in result.groups.items():
        rows = [
            (
                visible(group),
                f"{one.pass_at_1.questions + one.pass_at_1.too_few:,}",
                *_estimate(one.pass_at_1),
                f"{one.unscored:,}",
            )
            for group, one in groups.items()
        ]
        yield _plain_table((name, "questions", "pass@1", "95% interval", "unscored"), rows)
    yield from (Text(visible(line)) for line in said_lines(result))
    if result.mean_turns is not None:
        yield Text(_what_it_took(result))


def said_lines(result: EvalResult) -> Iterator[str]:
    """Grades, sets, scores, confidence, contamination, the best of k, cost: a line each, nothing where nothing is known."""
    if (grades := result.grades) is not None:
        right, f1 = _figure(grades.given_attempted, "95% "), _figure(grades.f1, "95% ")
        yield f"Grades: {_counted(grades.counts)}; right of those attempted {right.whole}, F1 of that and avg {f1.whole}."
    if (sets := result.sets) is not None:
        precision, recall, f1 = (_figure(one, "95% ").whole for one in (sets.precision, sets.recall, sets.f1))
        yield f"Sets: {_counted(sets.counts)}; question by question precision {precision}, recall {recall}, F1 {f1}."
    elif result.score is not None:
        yield f"Mean score {_figure(result.score, '95% ').whole}; right is only what has the whole score."
    if result.confidence is not None:
        yield _confidence_line(result.confidence)
    if result.contamination is not None and result.contamination.contaminated:
        yield _contamination_line(result.contamination)
    for name, curve in result.best_of.items():
        yield f"The best of {max(curve)} by {name}: {_figure(curve[max(curve)], '95% ').whole}."
    if result.cost is not None and result.cost.total is not None:
        right = "" if result.cost.right is None else f", {result.cost.right:,.4g} for each right answer"
        yield f"The agent's tokens cost {result.cost.total:,.4g}{right}."


def _headline_of(result: EvalResult) -> Text:
    best, (low, high) = result.pass_at_1, result.pass_at_1_bounds
    bounds = f"; between {percent(low)} and {percent(high)} had the {result.unscored:,} unscored attempts been wrong or right"
    return Text.assemble(
        ("avg@" + tries(result), "bold"),
        f" {percent(best.value)} (95% {span(best.interval)}) over {len(result.questions):,} questions × {tries(result)}",
        bounds if result.unscored else "",
        visible(f". Judge: {result.judge}."),
    )


def _confidence_line(found: Confidence) -> str:
    interval = "" if found.error_interval is None else f" (95% {found.error_interval.low:.1f}–{found.error_interval.high:.1f})"
    few = f"; fewer than {FEW} say little" if found.answers < FEW else ""
    left = f"; {found.left_out:,} claim none, or one on an unknown scale" if found.left_out else ""
    return f"Confidence: off by {mean(found.error)} points{interval} over {found.answers:,} answers{few}{left}."


def _contamination_line(found: Contamination) -> str:
    without = "" if found.without is None else f"; without them avg {_figure(found.without, '95% ').whole}"
    read = f"{found.contaminated:,} of {found.attempts:,} attempts read their question word for word"
    return f"{read}, and perhaps its answer{without}."


def _counted(counts: dict[str, int]) -> str:
    return ", ".join(f"{count:,} {ending_words(grade)}" for grade, count in counts.items())


def _what_it_took(result: EvalResult) -> str:
    spent, visits = result.spending, percent(result.browse.overall, 0)
    parts = [f"{mean(result.mean_turns)} turns", f"{mean(result.mean_calls)} calls, {visits} of them visits"]
    if result.format_accuracy is not None:
        parts.append(f"{percent(result.format_accuracy)} of turns keep the grammar")
    if spent is not None and spent.seconds is not None:
        parts.append(f"{duration(spent.seconds)} for each right answer")
    if spent is not None and spent.sampled_tokens is not None:
        parts.append(f"{spent.sampled_tokens:,.0f} tokens sampled for each")
    return "An attempt: " + "; ".join(parts) + "."


def _plain_table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> Table:
    shown = Table(box=box.SIMPLE_HEAD, header_style="bold", padding=(0, 1))
    for place, head in enumerate(heads):
        shown.add_column(head, justify="left" if place == 0 else "right")
    for row in rows:
        shown.add_row(*map(Text, row))
    return shown
