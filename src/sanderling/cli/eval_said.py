"""What a result says beyond right and wrong, a line of the terminal each; nothing where there is nothing to say. Thin."""

from collections.abc import Iterator

from sanderling.evaluate.agreement import FEW
from sanderling.evaluate.result import Confidence, Contamination, Estimate, EvalResult
from sanderling.report.numbers import ending_words, mean, percent, span


def said_lines(result: EvalResult) -> Iterator[str]:
    """Grades, sets, scores, confidence, contamination, the best of k, cost."""
    if result.grades is not None:
        grades = result.grades
        yield (
            f"Grades: {_counted(grades.counts)}; right of those attempted {_figure(grades.given_attempted)}, "
            f"F1 of that and avg {_figure(grades.f1)}."
        )
    if result.sets is not None:
        sets = result.sets
        yield (
            f"Sets: {_counted(sets.counts)}; question by question precision {_figure(sets.precision)}, recall "
            f"{_figure(sets.recall)}, F1 {_figure(sets.f1)}."
        )
    elif result.score is not None:
        yield f"Mean score {_figure(result.score)}; right is only what has the whole score."
    if result.confidence is not None:
        yield _confidence(result.confidence)
    if result.contamination is not None and result.contamination.contaminated:
        yield _contamination(result.contamination)
    for name, curve in result.best_of.items():
        yield f"The best of {max(curve)} by {name}: {_figure(curve[max(curve)])}."
    if result.cost is not None and result.cost.total is not None:
        right = "" if result.cost.right is None else f", {result.cost.right:,.4g} for each right answer"
        yield f"The agent's tokens cost {result.cost.total:,.4g}{right}."


def _confidence(found: Confidence) -> str:
    interval = "" if found.error_interval is None else f" (95% {found.error_interval.low:.1f}–{found.error_interval.high:.1f})"
    few = f"; fewer than {FEW} say little" if found.answers < FEW else ""
    left = f"; {found.left_out:,} claim none, or one on an unknown scale" if found.left_out else ""
    return f"Confidence: off by {mean(found.error)} points{interval} over {found.answers:,} answers{few}{left}."


def _contamination(found: Contamination) -> str:
    without = "" if found.without is None else f"; without them avg {_figure(found.without)}"
    return (
        f"{found.contaminated:,} of {found.attempts:,} attempts read their question word for word, and perhaps its answer"
        f"{without}."
    )


def _counted(counts: dict[str, int]) -> str:
    return ", ".join(f"{count:,} {ending_words(grade)}" for grade, count in counts.items())


def _figure(estimate: Estimate) -> str:
    return f"{percent(estimate.value)} (95% {span(estimate.interval)})" if estimate.interval else percent(estimate.value)
