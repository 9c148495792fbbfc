"""The report's tables: results, differences, curves, groups, endings, what attempts took. Computes no figure."""

from collections.abc import Callable, Iterator

from sanderling.evaluate.comparing.evidence import UNSCORED, ending_id, evidence_id, group_id, pair_id
from sanderling.evaluate.comparing.model import Pair, RunsReport, differing
from sanderling.evaluate.comparing.rows import Cell, Rows, table
from sanderling.evaluate.comparing.verdict_tables import verdict_tables
from sanderling.evaluate.resampling import Interval
from sanderling.evaluate.result import Estimate, EvalResult
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
