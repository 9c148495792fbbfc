"""A world's fidelity for people: figures in words and units, and one HTML page that needs nothing else. Computes none."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from markupsafe import Markup

from sanderling.evaluate.fidelity.measure import STEP, FidelityReport, Figure, Part
from sanderling.report import charts
from sanderling.report.charts import Bar, Line, figure, legend, note
from sanderling.report.charts import Part as Segment
from sanderling.report.numbers import MISSING, Interval, percent
from sanderling.report.page import render
from sanderling.runs.files import replace_file

HTML_NAME = "fidelity.html"
JSON_NAME = "fidelity.json"
_BARS = {
    "overlap": "overlap@k",
    "overlap_floor": "… another query",
    "rbo": "rank-biased overlap",
    "rbo_floor": "… another query",
    "coverage": "URLs held at all",
    "found_of_held": "listed, of those held",
}
_SUBJECTS: Mapping[str, tuple[str, ...]] = {
    "Ranked lists": ("overlap", "rbo", "coverage", "found_of_held", "results"),
    "Answers in lists": ("gold", "leak"),
    "Snippets": ("snippet",),
    "Sites and copies": ("domains", "duplicates", "top1", "top5", "entropy"),
    "Visits": ("visit", "extract"),
}
"""Subject -> how its figures' names begin."""
_HEADS = ("Measure", "n", "Recorded", "World, or both", "95% over queries", "95% over questions")
_RECORDED, _WORLD = "_recorded", "_world"


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


def write_fidelity(report: FidelityReport, directory: Path) -> Path:
    """Write the JSON and the page, each whole or not at all; returns the path of the page. The same report, the same page."""
    replace_file(directory / JSON_NAME, report.model_dump_json(indent=1) + "\n")
    page = render(
        "fidelity.html",
        f"Fidelity of {report.world}",
        report=report,
        sentences=[sentence(part, int(report.settings["k"])) for part in report.parts],
        parts=[_section(part) for part in report.parts],
        table_heads=_HEADS,
        parameters=", ".join(f"{name.replace('_', ' ')} {value:g}" for name, value in report.settings.items()),
    )
    replace_file(directory / HTML_NAME, page)
    return directory / HTML_NAME


def _section(part: Part) -> dict[str, Any]:
    by_name = {found.name: found for found in (*part.figures, *part.domains)}
    return {
        "part": part,
        "plots": _plots(part, by_name),
        "gold": _gold(part, by_name) if part.gold_ranks_recorded else [],
        "table": list(_table(by_name)),
        "empty": [name for name, found in by_name.items() if not found.n],
    }


def _plots(part: Part, by_name: Mapping[str, Figure]) -> list[Markup]:
    bars = [Bar(label, by_name[name].value, by_name[name].interval) for name, label in _BARS.items()]
    lines = [
        Line(name, [STEP * index for index in range(len(side.cumulative))], side.cumulative)
        for name, side in (("recorded", part.snippets_recorded), ("world", part.snippets_world))
        if side.cumulative
    ]
    snippets = charts.curves(lines, title="Snippet length", x_label="words", y_label="share of snippets", percent=True)
    apart = "" if part.snippet_distance is None else f" Greatest distance of the curves: {percent(part.snippet_distance)}."
    sizes = f"{part.snippets_recorded.n:,} recorded snippets, {part.snippets_world.n:,} of the world.{apart}"
    statuses = sorted({*part.visits_recorded, *part.visits_world} - {"ok"})
    styles = {"ok": "s0"} | {status: f"s{1 + index % 5}" for index, status in enumerate(statuses)}
    visits = [
        (label, [Segment(name.replace("_", " "), counts.get(name, 0), style) for name, style in styles.items()])
        for label, counts in (("recorded", part.visits_recorded), ("world", part.visits_world))
    ]
    outcomes = charts.stacks(visits, words=True) if part.visits else note("No visit was recorded.")
    return [
        figure("Ranked lists, with 95% intervals over queries", charts.bars(bars, title="Agreement of ranked lists")),
        figure("Length of snippets", snippets, legend([line.name for line in lines]), note(sizes)),
        figure("What became of the same visits", outcomes),
    ]


def _gold(part: Part, by_name: Mapping[str, Figure]) -> list[Markup]:
    """Where answering pages rank, and how often a list gives the answer away."""
    total = sum(part.gold_ranks_recorded)
    lines = [
        Line(side, list(range(1, len(counts))), [sum(counts[:rank]) / total for rank in range(1, len(counts))])
        for side, counts in (("recorded", part.gold_ranks_recorded), ("world", part.gold_ranks_world))
    ]
    title = "First answering page within the first ranks"
    ranks = charts.curves(lines, title=title, x_label="rank", y_label="share of lists", percent=True)
    said_of = f"{total:,} lists of the {part.gold_questions} questions of which an answering page is known, found by words."
    leaks = [
        Bar(f"{what}, {side}", by_name[f"{name}_{side}"].value, by_name[f"{name}_{side}"].interval)
        for name, what in (("gold_listed", "answer page"), ("leak", "snippet leak"))
        for side in ("recorded", "world")
    ]
    return [
        figure(title, ranks, legend([line.name for line in lines]), note(said_of)),
        figure("Answers in lists, with 95% intervals over queries", charts.bars(leaks, title="Answers in lists")),
    ]


def _table(by_name: Mapping[str, Figure]) -> Iterator[tuple[str, list[dict[str, str]]]]:
    """Rows by subject; of a recorded figure and the world's one row, whose intervals are the world's."""
    for subject, begins in _SUBJECTS.items():
        shown = [one for name, one in by_name.items() if one.n and name.startswith(begins)]
        if rows := list(_rows(shown, by_name)):
            yield subject, rows


def _rows(shown: Sequence[Figure], by_name: Mapping[str, Figure]) -> Iterator[dict[str, str]]:
    for one in shown:
        recorded, world = None, one
        if one.name.endswith(_RECORDED):
            twin = by_name.get(one.name.removesuffix(_RECORDED) + _WORLD)
            recorded, world = (one, twin) if twin is not None and twin.n else (None, one)
        elif (other := by_name.get(one.name.removesuffix(_WORLD) + _RECORDED)) and other.n and one.name.endswith(_WORLD):
            continue  # stands in the row of the recorded one
        yield {
            "name": one.name if recorded is None else one.name.removesuffix(_RECORDED),
            "meaning": one.meaning,
            "n": f"{world.n:,}" if recorded is None or recorded.n == world.n else f"{recorded.n:,} · {world.n:,}",
            "recorded": MISSING if recorded is None else number(recorded),
            "value": number(world),
            "over_queries": interval(world.name, world.interval),
            "over_questions": interval(world.name, world.interval_by_question),
        }
