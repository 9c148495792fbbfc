"""Tables of figures, the same in the terminal and on the page. Computes no figure."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from rich import box
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from sanderling.core.text import visible
from sanderling.evaluate.reports.compare import (
    BY_HAND,
    CONTAMINATED,
    DISPUTED,
    HIDDEN,
    UNSCORED,
    Pair,
    Run,
    RunsReport,
    differing,
    ending_id,
    evidence_id,
    group_id,
    pair_id,
)
from sanderling.evaluate.result import Estimate, EvalResult
from sanderling.report.numbers import (
    MISSING,
    UNKNOWN,
    Interval,
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


def table(name: str, title: str, heads: Sequence[str], rows: Iterable[Row], about: str = "", *, run: int | None = None) -> Rows:
    """A table of texts and cells."""
    cells = tuple(tuple(cell if isinstance(cell, Cell) else Cell(cell) for cell in row) for row in rows)
    return Rows(name, title, tuple(heads), cells, about, run)


def tables(report: RunsReport) -> Iterator[Rows]:
    """All tables, in the order of a report; one without rows is left out."""
    unlike = differing(report.facts)
    facts = [(name + (" ≠" if name in unlike else ""), *values) for name, values in report.facts.items()]
    found = (
        _headline(report),
        _pairs(report),
        *_curves(report),
        *_groups(report),
        _endings(report),
        _by_run(report, "took", "What an attempt takes", [_taken(run.result) for run in report.runs], _TAKEN),
        _by_run(report, "guard", "Leaks of the benchmark", [_guarded(*one) for one in enumerate(report.runs)], _GUARDED),
        _judges(report),
        table("facts", "What was run", ("", *(run.name for run in report.runs)), facts,
              f"The runs differ in: {', '.join(unlike)}." if unlike else ""),
    )  # fmt: skip
    return (table for table in found if table is not None and table.cells)


def _by_run(report: RunsReport, name: str, title: str, columns: Sequence[Mapping[str, str | Cell]], about: str = "") -> Rows:
    """A column for each run."""
    rows = [
        (row, *(column.get(row, MISSING) for column in columns)) for row in dict.fromkeys(row for one in columns for row in one)
    ]
    return table(name, title, ("", *(run.name for run in report.runs)), rows, about)


def tries(result: EvalResult) -> str:
    """Attempts at each question: one number, or in others' runs from the fewest to the most."""
    found = {one.attempts for one in result.questions}
    return "–".join(map(str, sorted({min(found), max(found)}))) if found else str(result.attempts)


def _headline(report: RunsReport) -> Rows:
    rows: list[Row] = []
    for number, run in enumerate(report.runs):
        result, best = run.result, run.result.pass_at_1
        name = Cell(run.name + ("" if result.valid else " (invalid)"), f"attempts-{number}")
        unscored = Cell(f"{result.unscored:,}", evidence_id(number, UNSCORED))
        rows.append((name, f"{len(result.questions):,} × {tries(result)}", *_estimate(best), unscored))
    heads = ("run", "questions", "avg@k", "95% interval", "unscored")
    return table("headline", "Results", heads, rows)


def _pairs(report: RunsReport) -> Rows:
    heads = ("comparison", "questions", "points", "95% interval", "better at", "worse at", "sign flips", "adjusted")
    rows = [_pair(place, pair) for place, pair in enumerate(report.pairs)]
    return table("differences", "Differences on the same questions", heads, rows)


def _pair(place: int, pair: Pair) -> Row:
    found = pair.found
    # A difference that is the same at every question has no spread to draw from: a point would pass for certainty.
    low, high = (points(value) for value in found.interval) if found.has_spread else (MISSING, MISSING)
    sides = (Cell(f"{len(ids):,}", pair_id(place, kind)) for kind, ids in (("better", pair.better), ("worse", pair.worse)))
    name = f"{pair.name} over {pair.baseline}"
    figures = (f"{found.questions:,}", points(found.difference), f"{low} to {high}")
    return (name, *figures, *sides, chance(found.p_value), chance(pair.p_adjusted))


_CURVE = ("k", "questions", "pass@k", "95% interval", "majority of k", "95% interval", "pass^k")


def _curves(report: RunsReport) -> Iterator[Rows]:
    """For each run pass@k, the majority and pass^k."""
    for number, run in enumerate(report.runs):
        if run.result.attempts > 1:
            yield table(f"curve-{number}", f"{run.name}: with more attempts", _CURVE, _by_k(run.result), run=number)


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
    for name in dict.fromkeys(name for run in report.runs for name in run.result.groups):
        rows: list[Row] = []
        for group in dict.fromkeys(group for run in report.runs for group in run.result.groups.get(name, {})):
            cells: list[str | Cell] = []
            for number, run in enumerate(report.runs):
                one = run.result.groups.get(name, {}).get(group)
                asked = MISSING if one is None else f"{one.pass_at_1.questions + one.pass_at_1.too_few:,}"
                cells += [Cell(asked, group_id(report, number, name, group)), *_estimate(one and one.pass_at_1)]
            rows.append((group, *cells))
        heads = (head for run in report.runs for head in (f"{run.name}: n", "avg@k", "95% interval"))
        yield table(f"by-{name}", f"By {name}", (name, *heads), rows)


def _endings(report: RunsReport) -> Rows:
    rows: list[Row] = []
    for ending in dict.fromkeys(ending for run in report.runs for ending in run.result.endings):
        counts = (run.result.endings.get(ending, 0) for run in report.runs)
        rows.append((ending_words(ending), *(Cell(f"{count:,}", ending_id(n, ending)) for n, count in enumerate(counts))))
    silent = [run.result.made - sum(run.result.endings.values()) for run in report.runs]
    if any(silent):
        rows.append((UNKNOWN, *(Cell(f"{count:,}", ending_id(n, None)) for n, count in enumerate(silent))))
    return table("endings", "How attempts ended", ("ending", *(run.name for run in report.runs)), rows)


_TAKEN = "A right answer takes what all attempts took, the wrong ones too, over the number of right ones."


def _taken(result: EvalResult) -> dict[str, str | Cell]:
    spent, cost = result.spending, result.cost
    return {
        "turns": mean(result.mean_turns),
        "tool calls": mean(result.mean_calls),
        "visits among calls": percent(result.visit_share, 0),
        "tokens sampled": known(result.mean_sampled_tokens, _whole),
        "time for each right answer": _each(spent and spent.seconds, spent and spent.seconds_interval, duration),
        "tokens sampled for each right answer": _each(spent and spent.sampled_tokens, spent and spent.sampled_interval, _whole),
        "prompt tokens for each right answer": _each(spent and spent.prompt_tokens, spent and spent.prompt_interval, _whole),
        "cost of all attempts": money(cost and cost.total),
        "cost of an attempt": money(cost and cost.attempt),
        "cost of each right answer": _each(cost and cost.right, cost and cost.right_interval, money),
        "standard error, questions as clusters": percent(result.clustered_error),
    }


def _whole(value: float) -> str:
    """A count, to three digits: no interval supports more."""
    return f"{round(value, min(0, 3 - len(f'{value:.0f}'))):,.0f}"


def _each(value: float | None, interval: Interval | None, write: Callable[[float], str]) -> Cell:
    if value is None:
        return Cell(UNKNOWN)
    return Cell(write(value), spread=f"{write(interval[0])} – {write(interval[1])}" if interval else "")


# Verdicts -----------------------------------------------------------------------------------------------------------------


_GUARDED = "A contaminated attempt read its question word for word, and perhaps its answer; it counts as it was judged."


def _guarded(number: int, run: Run) -> dict[str, str | Cell]:
    guard, read = run.result.guard, run.result.contamination
    looked = read if read is not None and read.applies else None
    absent = UNKNOWN if run.about is not None and run.about.guard.on else MISSING
    contaminated = f"{looked.contaminated:,} of {looked.attempts:,}" if looked else ""
    hidden = Cell(f"{guard.attempts:,}", evidence_id(number, HIDDEN)) if guard else absent
    return {
        "attempts from which something was hidden": hidden,
        "contaminated attempts": Cell(contaminated, evidence_id(number, CONTAMINATED)) if looked else MISSING,
        "avg@k without them": _figure(looked.without) if looked and looked.without else MISSING,
    }


def _judges(report: RunsReport) -> Rows:
    """Two judges of a run, or a judge and a person, a row each."""
    rows: list[Row] = []
    for number, run in enumerate(report.runs):
        for one in run.result.agreement:
            behind = evidence_id(number, DISPUTED if one.second == run.result.second_judge else BY_HAND)
            rows.append((
                f"{run.name}: {one.first} and {one.second}",
                f"{one.both + one.neither + one.first_only + one.second_only:,}",
                percent(one.agreed),
                known(one.kappa, "{:.2f}".format),
                Cell(f"{one.first_only:,}", behind),
                Cell(f"{one.second_only:,}", behind),
            ))  # fmt: skip
    heads = ("judges", "attempts", "agree", "kappa", "right by the first alone", "by the second alone")
    about = "The first judge decides every figure. Kappa is agreement beyond chance."
    return table("judges", "Two judges of the same attempts", heads, rows, about)


def _figure(one: Estimate, level: str = "") -> Cell:
    return Cell(percent(one.value), spread=level + span(one.interval) if one.interval else "")


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
    """A result: the headline, the curves, groups, contamination and cost, what it took."""
    best, count = result.pass_at_1, tries(result)
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
    if (read := result.contamination) is not None and read.contaminated:
        without = "" if read.without is None else f"; without them avg {_figure(read.without, '95% ').whole}"
        counts = f"{read.contaminated:,} of {read.attempts:,} attempts"
        yield Text(f"{counts} read their question word for word, and perhaps its answer{without}.")
    if result.cost is not None and result.cost.total is not None:
        right = "" if result.cost.right is None else f", {result.cost.right:,.4g} for each right answer"
        yield Text(f"The agent's tokens cost {result.cost.total:,.4g}{right}.")
    if result.mean_turns is not None:
        spent, visits = result.spending, percent(result.visit_share, 0)
        parts = [f"{mean(result.mean_turns)} turns", f"{mean(result.mean_calls)} calls, {visits} of them visits"]
        if spent is not None and spent.seconds is not None:
            parts.append(f"{duration(spent.seconds)} for each right answer")
        if spent is not None and spent.sampled_tokens is not None:
            parts.append(f"{spent.sampled_tokens:,.0f} tokens sampled for each")
        yield Text("An attempt: " + "; ".join(parts) + ".")


def _drawn(heads: Sequence[str], rows: Sequence[Sequence[str]], title: str = "") -> Table:
    named = Text(visible(title), style="bold") if title else None
    shown = Table(title=named, title_justify="left", box=box.SIMPLE_HEAD, padding=(0, 1))
    for place, head in enumerate(heads):
        justify, width = ("right", None) if place else ("left", min(24, max(len(row[0]) for row in rows)))
        shown.add_column(Text(visible(head)), justify=justify, min_width=width)
    for row in rows:
        shown.add_row(*(Text(visible(cell)) for cell in row))
    return shown
