"""A world's fidelity for people: figures in words and units, and one HTML page that needs nothing else. Computes none."""

from pathlib import Path

from sanderling.evaluate.fidelity.measure import FidelityReport, Figure, Part
from sanderling.report import charts
from sanderling.report.charts import Bar, figure
from sanderling.report.numbers import MISSING, Interval, percent
from sanderling.report.page import render
from sanderling.runs.files import replace_file

HTML_NAME = "fidelity.html"
JSON_NAME = "fidelity.json"
_BARS = {
    "Ranked lists, with 95% intervals over queries": {
        "overlap": "overlap@k",
        "overlap_floor": "… another query",
        "rbo": "rank-biased overlap",
        "rbo_floor": "… another query",
        "coverage": "URLs held at all",
        "found_of_held": "listed, of those held",
    },
    "Answers in lists, with 95% intervals over queries": {
        "gold_listed_recorded": "answer page, recorded",
        "gold_listed_world": "answer page, world",
        "leak_recorded": "snippet leak, recorded",
        "leak_world": "snippet leak, world",
    },
}
_HEADS = ("Measure", "n", "Mean", "95% over queries", "95% over questions")


def number(figure: Figure) -> str:
    """A figure as a person reads it: shares in percent, words and results as counts, entropies in bits."""
    return _written(figure.name, figure.value)


def interval(name: str, found: Interval | None) -> str:
    """An interval in the unit of its figure."""
    return MISSING if found is None else f"{_written(name, found[0])} to {_written(name, found[1])}"


def _written(name: str, value: float | None) -> str:
    if value is None:
        return MISSING
    if name.startswith("entropy"):
        return f"{value:.2f} bits"
    if "_rr_" in name:
        return f"{value:.3f}"
    return f"{value:.1f}" if "words" in name or name.startswith("results") else percent(value)


def sentence(part: Part, k: int) -> str:
    """What the part shows, in one sentence made of its numbers."""
    by_name = {figure.name: figure for figure in part.figures}
    overlap, coverage, floor = (by_name[name] for name in ("overlap", "coverage", "overlap_floor"))
    if overlap.value is None:
        return f"On {part.label} trajectories no recorded list could be compared."
    return (
        f"On {part.label} trajectories ({overlap.n:,} queries of {part.questions} questions) the world's first {k} results "
        f"share {number(overlap)} of their URLs with the recorded ones (95% interval {interval('overlap', overlap.interval)}; "
        f"over questions {interval('overlap', overlap.interval_by_question)}), where it holds {number(coverage)} of them "
        f"at all and a query of another question would share {number(floor)}."
    )


def figure_rows(part: Part) -> list[tuple[Figure, str, str, str, str]]:
    """Every figure with what stands in its row of a table."""
    return [
        (one, f"{one.n:,}", number(one), interval(one.name, one.interval), interval(one.name, one.interval_by_question))
        for one in (*part.figures, *part.domains)
    ]


def write_fidelity(report: FidelityReport, directory: Path) -> Path:
    """Write the JSON and the page, each whole or not at all; returns the path of the page. The same report, the same page."""
    replace_file(directory / JSON_NAME, report.model_dump_json(indent=1) + "\n")
    page = render(
        "fidelity.html",
        f"Fidelity of {report.world}",
        report=report,
        sentences=[sentence(part, int(report.settings["k"])) for part in report.parts],
        parts=[(part, _plots(part), figure_rows(part)) for part in report.parts],
        table_heads=_HEADS,
        parameters=", ".join(f"{name.replace('_', ' ')} {value:g}" for name, value in report.settings.items()),
    )
    replace_file(directory / HTML_NAME, page)
    return directory / HTML_NAME


def _plots(part: Part) -> list[str]:
    by_name = {one.name: one for one in part.figures}
    return [
        figure(title, charts.bars([Bar(label, by_name[name].value, by_name[name].interval) for name, label in names.items()],
                                  title=title))
        for title, names in _BARS.items()
    ]  # fmt: skip
