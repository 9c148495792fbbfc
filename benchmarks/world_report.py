"""The figures of `world.py` for people: tables in Markdown, and growth as a plot in SVG, written by hand."""

import math
from collections.abc import Callable, Sequence
from html import escape
from typing import Any

_WIDTH, _HEIGHT = 640, 400
_LEFT, _RIGHT, _TOP, _BOTTOM = 70, 40, 40, 60
_COLOURS = ("#1f5fa8", "#b5472f", "#2e7d4f", "#7a5aa6")
_QUOTED = (
    "LiteResearcher reports 150 ms a search and 170 ms a page over 32 million pages, over HTTP, hybrid and on other machines: "
    "quoted, not compared."
)


def table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table, numbers to the right."""
    marks = ["---", *["---:"] * (len(heads) - 1)]
    return "\n".join("| " + " | ".join(row) + " |" for row in (heads, marks, *rows))


def markdown(data: dict[str, Any]) -> str:
    """Everything that was measured."""
    parts = [f"`{data['command']}`; {data['machine']}; {data['date']}.\n"]
    makers: dict[str, Callable[[Any], str]] = {
        "index": _index,
        "build": _build,
        "search": _search,
        "engines": _engines,
        "tries": _tries,
        "quality": _quality,
    }
    for name, make in makers.items():
        if name in data["stages"]:
            stage = data["stages"][name]
            parts.append(f"{make(stage['found'])}\n\n({stage['seconds']:.0f} s; load at the end {stage['load']:.1f})\n")
    return "\n".join([*parts, _QUOTED, ""])


def _index(rows: list[dict[str, Any]]) -> str:
    cells = [[f"{r['pages']:,}", f"{r['pages_per_s']:,.0f}", f"{r['seconds']:.1f}", f"{r['disk_mb']:,.0f}"] for r in rows]
    return "### Indexing alone\n\n" + table(["Pages", "pages/s", "s", "MB on disk"], cells)


def _build(rows: list[dict[str, Any]]) -> str:
    heads = ["Pages", "pages/s", "s", "after reading, indexing, comparing (s)", "MB on disk", "anonymous MB more"]
    cells = [
        [
            f"{r['pages']:,}",
            f"{r['pages_per_s']:,.0f}",
            f"{r['seconds']:.1f}",
            ", ".join(f"{end:.1f}" for end in r["stage_ends_s"].values()),
            f"{r['disk_mb']:,.0f}",
            f"{r['anonymous_mb_more']:.0f}",
        ]
        for r in rows
    ]
    note = "Store, links, near-duplicates and index. Seconds and rate without making the pages; the ends of stages with it."
    return f"### The whole build\n\n{table(heads, cells)}\n\n{note}"


def _search(rows: list[dict[str, Any]]) -> str:
    heads = [
        "Pages",
        "open s",
        "5 terms p50 / p99 ms",
        "10 terms p50 / p99 ms",
        "of it processor",
        "of it ranking",
        "whole page p50 / p99 ms",
    ]
    heads += ["100 words of it p50 ms", "anonymous MB"]
    cells = [
        [
            f"{r['pages']:,}",
            f"{r['open']['open_s']:.3f}",
            _pair(r["five"]),
            _pair(r["ten"]),
            f"{r['ten']['processor_p50_ms']:.2f}",
            f"{r['ten']['rank_p50_ms']:.2f}",
            _pair(r["visit"]),
            f"{r['visit_part']['p50_ms']:.2f}",
            _number(r["ten"]["anonymous_mb"]),
        ]
        for r in rows
    ]
    ways = list(rows[0]["ten"]["per_s"])
    rates = [[f"{r['pages']:,}", *(f"{r[kind]['per_s'][way]:,.0f}" for kind in ("five", "ten") for way in ways)] for r in rows]
    rate_heads = ["Pages", *(f"{kind} terms, {way}" for kind in ("5", "10") for way in ways)]
    note = "Ten results with snippets; one core, a fresh process, each query once. Five rarer terms; ten: five very common too."
    return (
        f"### Searching and visiting\n\n{table(heads, cells)}\n\n{note}\n\n### Searches a second\n\n{table(rate_heads, rates)}"
    )


def _pair(found: dict[str, Any]) -> str:
    return f"{found['p50_ms']:.2f} / {found['p99_ms']:.2f}"


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.0f}"


def _engines(found: dict[str, Any]) -> str:
    own = found["rows"][0]
    heads = [
        "Engine",
        "index s",
        "disk MB",
        "5 terms p50 ms",
        "10 terms p50 ms",
        "10 terms, ratio",
        "n",
        "anonymous MB",
        "shared",
    ]
    cells = [
        [
            r["engine"],
            f"{r['index_s']:.1f}",
            f"{r['disk_mb']:,.0f}",
            f"{r['five']['p50_ms']:.2f}",
            f"{r['ten']['p50_ms']:.2f}",
            f"{r['ten']['p50_ms'] / own['ten']['p50_ms']:.1f}×",
            f"{r['ten']['n']:,.0f}",
            _number(r["ten"]["anonymous_mb"]),
            f"{r['shared']:.2f}",
        ]
        for r in found["rows"]
    ]
    notes = [f"- {r['engine']}: {r['note']}." for r in found["rows"]]
    notes += [f"- {name} was skipped: {reason}." for name, reason in found["skipped"].items()]
    title = f"### Engines side by side, {found['pages']:,} pages, the same call with snippets"
    shared = "Shared: of the ten pages of the world's own index, over 20 queries of both kinds."
    return "\n".join([title, "", table(heads, cells), "", shared, "", *notes])


def _tries(found: dict[str, Any]) -> str:
    heads = [
        "Ranking of ten terms",
        "pages",
        "segments",
        "p50 / p99 ms",
        "shared with the exact ten",
        "same lists",
        "provably exact",
    ]
    cells = [
        [
            r["try"],
            f"{int(size):,}",
            str(part["segments"]),
            _pair(r),
            f"{r['shared_with_exact']:.3f}",
            f"{r['same_lists']:.1%}",
            f"{r['provably_exact']:.0%}" if "provably_exact" in r else "",
        ]
        for size, part in found.items()
        for r in part["rows"]
    ]
    return "### Tries\n\n" + table(heads, cells)


def _quality(found: dict[str, Any]) -> str:
    heads = [
        "Task",
        "engine",
        "pages",
        "n",
        "recall@10",
        "95% interval",
        "less than Sanderling",
        "1/rank",
        "less than Sanderling",
    ]
    cells = [
        [
            r["task"],
            r["engine"],
            f"{r['pages']:,}",
            f"{r['n']:,}",
            f"{r['recall']:.3f}",
            "–".join(f"{end:.3f}" for end in r["recall_interval"]),
            _less(r, "recall"),
            f"{r['rank']:.3f}",
            _less(r, "rank"),
        ]
        for r in found["rows"]
    ]
    note = "1/rank: of the first right page, 0 when it is not among ten. Less: the paired difference with its 95% interval."
    return f"### Ranking\n\n{table(heads, cells)}\n\n{note}"


def _less(row: dict[str, Any], measure: str) -> str:
    low, high = row[f"{measure}_less_interval"]
    return f"{row[f'{measure}_less']:+.3f} ({low:+.3f} to {high:+.3f})"


def plot(rows: Sequence[dict[str, Any]]) -> str:
    """Median milliseconds by pages, both axes logarithmic."""
    sizes = [r["pages"] for r in rows]
    lines = {
        "search, 10 terms (5 very common)": [r["ten"]["p50_ms"] for r in rows],
        "search, 5 rarer terms": [r["five"]["p50_ms"] for r in rows],
        "ranking alone, 10 terms": [r["ten"]["rank_p50_ms"] for r in rows],
        "visit, 100 words for a goal": [r["visit_part"]["p50_ms"] for r in rows],
    }
    values = [value for line in lines.values() for value in line]
    low, high = 10 ** math.floor(math.log10(min(values))), 10 ** math.ceil(math.log10(max(values)))
    first, last = math.log10(min(sizes)), math.log10(max(sizes))

    def x(size: float) -> float:
        return _LEFT + (math.log10(size) - first) / (last - first or 1) * (_WIDTH - _LEFT - _RIGHT)

    def y(value: float) -> float:
        share = (math.log10(value) - math.log10(low)) / (math.log10(high) - math.log10(low))
        return _HEIGHT - _BOTTOM - share * (_HEIGHT - _TOP - _BOTTOM)

    parts = [_text(_LEFT, 20, "Milliseconds (median) by pages in the world", "start")]
    for power in range(round(math.log10(low)), round(math.log10(high)) + 1):
        at = y(10.0**power)
        parts.append(f'<path d="M{_LEFT} {at:.1f}H{_WIDTH - _RIGHT}" stroke="#ddd"/>')
        parts.append(_text(_LEFT - 8, at + 4, f"{10.0**power:g}", "end"))
    parts += [_text(x(size), _HEIGHT - _BOTTOM + 18, f"{size:,}", "middle") for size in sizes]
    for place, (name, line) in enumerate(lines.items()):
        colour = _COLOURS[place]
        points = " ".join(f"{x(size):.1f},{y(value):.1f}" for size, value in zip(sizes, line, strict=True))
        parts.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2"/>')
        parts += [f'<circle cx="{x(s):.1f}" cy="{y(v):.1f}" r="3" fill="{colour}"/>' for s, v in zip(sizes, line, strict=True)]
        column, row = place % 2, place // 2
        at_x, at_y = _LEFT + column * 290, _HEIGHT - 24 + row * 16
        parts.append(f'<rect x="{at_x}" y="{at_y - 9}" width="10" height="10" fill="{colour}"/>')
        parts.append(_text(at_x + 16, at_y, name, "start"))
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" font-family="sans-serif" font-size="12">'
    return "\n".join([head, f'<rect width="{_WIDTH}" height="{_HEIGHT}" fill="white"/>', *parts, "</svg>", ""])


def _text(x: float, y: float, text: str, anchor: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="#333">{escape(text)}</text>'
