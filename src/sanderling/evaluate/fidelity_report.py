"""The report of a world's fidelity: one HTML page that needs nothing else, and the same figures as JSON. Computes none."""

from collections.abc import Iterator
from pathlib import Path

from sanderling.evaluate.bars import Bar, bars, said, stack
from sanderling.evaluate.bars import Part as Segment
from sanderling.evaluate.fidelity import STEP, Part
from sanderling.evaluate.fidelity_run import FidelityReport
from sanderling.evaluate.fidelity_table import interval, number, table_of
from sanderling.evaluate.format import duration, memory, percent
from sanderling.evaluate.markup import Html, join, tag
from sanderling.evaluate.page import figure, page, section
from sanderling.evaluate.plots import Line, curves, legend
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


def write_fidelity(report: FidelityReport, directory: Path) -> Path:
    """Write the JSON and the page, each whole or not at all; returns the path of the page."""
    replace_file(directory / JSON_NAME, report.model_dump_json(indent=1) + "\n")
    replace_file(directory / HTML_NAME, render_fidelity(report))
    return directory / HTML_NAME


def render_fidelity(report: FidelityReport) -> str:
    """The page. The same report gives the same page."""
    title = f"Fidelity of {report.world}"
    sections = [_verdict(report)]
    for place, part in enumerate(report.parts):
        sections.append(section(f"part{place}", f"Figures: {part.label}", *_part(part)))
    sections.append(section("limits", "What this cannot show", tag("ul", *[tag("li", limit) for limit in report.limits])))
    return page(title, _header(report, title), tag("main", *sections), _footer(report))


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


def _header(report: FidelityReport, title: str) -> Html:
    run = report.run
    summary = f"{report.pages:,} pages, built from {report.world_source}, beside recorded calls."
    return tag(
        "header",
        tag("p", "Sanderling · fidelity of a world", class_="eyebrow"),
        tag("h1", title),
        tag("p", summary, class_="summary"),
        tag("p", " · ".join([run.date, f"sanderling {run.version}", f"seed {run.seed}", run.machine]), class_="meta"),
    )


def _verdict(report: FidelityReport) -> Html:
    k = int(report.settings["k"])
    lines = [tag("p", sentence(part, k), class_="lead" if index == 0 else None) for index, part in enumerate(report.parts)]
    lines += [tag("p", remark) for remark in report.remarks]
    if report.same_question:
        lines.append(tag("p", f"{report.same_question} trajectories are in no figure: the world saw their questions."))
    lines.append(tag("p", "It says nothing about the live web; the limits are below."))
    return section("verdict", "What this shows", tag("div", *lines, class_="verdict open"))


def _part(part: Part) -> Iterator[Html]:
    counts = (
        f"{part.trajectories} trajectories, {part.questions} questions, {part.searches:,} result lists "
        f"({part.distinct_queries:,} distinct queries, {part.empty_lists} empty lists), {part.visits:,} visited pages"
    )
    dropped = f"; {part.asked_before} lists left out, as the build knew their very query" if part.asked_before else ""
    yield tag("p", f"{part.remark} {counts}{dropped}.", class_="quiet")
    yield tag("div", *_plots(part), class_="grid2")
    if part.gold_ranks_recorded:
        yield tag("div", *_gold(part), class_="grid2")
    yield tag("div", table_of([*part.figures, *part.domains]), class_="scroll")


def _plots(part: Part) -> list[Html]:
    by_name = {found.name: found for found in part.figures}
    shown = [Bar(label, by_name[name].value, by_name[name].interval) for name, label in _BARS.items()]
    lines = [
        Line(name, [STEP * index for index in range(len(side.cumulative))], side.cumulative)
        for name, side in (("recorded", part.snippets_recorded), ("world", part.snippets_world))
        if side.cumulative
    ]
    snippets = curves(lines, title="Snippet length", x_label="words", y_label="share of snippets", percent=True)
    apart = "" if part.snippet_distance is None else f" Greatest distance of the curves: {percent(part.snippet_distance)}."
    sizes = f"{part.snippets_recorded.n:,} recorded snippets, {part.snippets_world.n:,} of the world.{apart}"
    return [
        figure("Ranked lists, with 95% intervals over queries", bars(shown, title="Agreement of ranked lists")),
        figure("Length of snippets", snippets, legend([line.name for line in lines]), tag("p", sizes, class_="quiet")),
        figure("What became of the same visits", _outcomes(part)),
    ]


def _gold(part: Part) -> list[Html]:
    """Where answering pages rank, and how often a list gives the answer away."""
    by_name = {found.name: found for found in part.figures}
    total = sum(part.gold_ranks_recorded)
    lines = [
        Line(side, list(range(1, len(counts))), [sum(counts[:rank]) / total for rank in range(1, len(counts))])
        for side, counts in (("recorded", part.gold_ranks_recorded), ("world", part.gold_ranks_world))
    ]
    title = "First answering page within the first ranks"
    ranks = curves(lines, title=title, x_label="rank", y_label="share of lists", percent=True)
    said_of = f"{total:,} lists of the {part.gold_questions} questions of which an answering page is known, found by words."
    leaks = [
        Bar(f"{what}, {side}", by_name[f"{name}_{side}"].value, by_name[f"{name}_{side}"].interval)
        for name, what in (("gold_listed", "answer page"), ("leak", "snippet leak"))
        for side in ("recorded", "world")
    ]
    return [
        figure(title, ranks, legend([line.name for line in lines]), tag("p", said_of, class_="quiet")),
        figure("Answers in lists, with 95% intervals over queries", bars(leaks, title="Answers in lists")),
    ]


def _outcomes(part: Part) -> Html:
    if not part.visits:
        return tag("p", "No visit was recorded.", class_="quiet")
    statuses = sorted({*part.visits_recorded, *part.visits_world} - {"ok"})
    styles = {"ok": "s0"} | {status: f"s{1 + index % 5}" for index, status in enumerate(statuses)}
    rows: list[Html] = []
    for label, counts in (("recorded", part.visits_recorded), ("world", part.visits_world)):
        segments = [Segment(name.replace("_", " "), counts.get(name, 0), style) for name, style in styles.items()]
        words = ", ".join(said(segment) for segment in segments if segment.count)
        rows.append(join(tag("dt", label), tag("dd", stack(segments), tag("span", words, class_="below"))))
    return tag("dl", *rows, class_="stacks")


def _footer(report: FidelityReport) -> Html:
    run, settings = report.run, report.settings
    parameters = ", ".join(f"{name.replace('_', ' ')} {value:g}" for name, value in settings.items())
    return tag(
        "footer",
        tag("p", "Made by ", tag("code", run.command), f" in {duration(run.seconds)}, {memory(run.peak_memory_mb)} at most."),
        tag(
            "p",
            f"Settings: {parameters}. World {report.fingerprint[:16]}. With p = {settings['p']:g} the first "
            f"{settings['k']:g} ranks carry {percent(report.weight_of_top_k)} of the weight of rank-biased overlap; agreement "
            "beyond them is extrapolated. "
            "Intervals over queries take queries as independent, which those of one question are not: trust those over "
            "questions. Intervals of shares that are all 0 or all 1 are Wilson's. Figures of visits resample visits. "
            f"The same figures for machines: {JSON_NAME}.",
        ),
    )
