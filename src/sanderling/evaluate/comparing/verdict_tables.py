"""The report's tables of what stands behind verdicts: judges, grades, confidence, what the guard hid. Computes no figure."""

from collections.abc import Iterator

from sanderling.evaluate.comparing.evidence import BY_HAND, CONTAMINATED, DISPUTED, HIDDEN, evidence_id
from sanderling.evaluate.comparing.model import RunsReport
from sanderling.evaluate.comparing.rows import Cell, Rows, table
from sanderling.evaluate.result import EvalResult
from sanderling.evaluate.result_parts import Confidence, Estimate
from sanderling.judge.agreement import FEW
from sanderling.report.numbers import MISSING, UNKNOWN, ending_words, known, percent, span
from sanderling.world.guard import GuardKind

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
