"""Distributions side by side as columns of shares, inline SVG. Colours come from the page's style sheet.

Knows nothing of what is counted: it is handed bins and counts.
"""

from collections.abc import Sequence
from math import ceil

from sanderling.evaluate.format import percent
from sanderling.evaluate.markup import Html, tag
from sanderling.evaluate.plots import SERIES, WIDTH, Frame, nice_ticks, number

_MOST_LABELS = 7


def bin_edges(most: int, about: int = 12) -> list[int]:
    """Round edges from 0 to at or above the largest value."""
    step = max(1, int(nice_ticks(0, max(1, most), about)[1]))
    return list(range(0, step * (ceil(max(1, most) / step) + 1), step))


def columns(names: Sequence[str], edges: Sequence[int], counts: Sequence[Sequence[int]], *, title: str, x_label: str) -> Html:
    """For every bin a column for each name: its share of that name's total. A bin is above one edge, up to the next."""
    shares = [[count / sum(row) if sum(row) else 0.0 for count in row] for row in counts]
    ticks = nice_ticks(0.0, max([0.05, *(share for row in shares for share in row)]))
    frame = Frame(54, 12, WIDTH - 66, 186, (0.0, float(len(edges) - 1)), (ticks[0], ticks[-1]))
    parts: list[Html] = []
    for tick in ticks:
        y = frame.y(tick)
        line = tag(
            "line", x1=number(frame.left), x2=number(frame.left + frame.width), y1=number(y), y2=number(y), class_="grid"
        )
        parts += [
            line,
            tag("text", percent(tick, 0), x=number(frame.left - 7), y=number(y + 3.5), text_anchor="end", class_="tick"),
        ]
    every = ceil(len(edges) / _MOST_LABELS)
    for place, edge in enumerate(edges):
        if place % every == 0:
            x = number(frame.x(place))
            parts.append(
                tag("text", _short(edge), x=x, y=number(frame.top + frame.height + 17), text_anchor="middle", class_="tick")
            )
    parts += [
        _column(frame, names, edges, counts, shares, row, place) for row in range(len(names)) for place in range(len(edges) - 1)
    ]
    label = tag("text", x_label, x=number(frame.left + frame.width / 2), y=236, class_="axis", text_anchor="middle")
    return tag("svg", tag("title", title), *parts, label, viewBox=f"0 0 {number(WIDTH)} 244", role="img", class_="plot columns")


def _column(
    frame: Frame,
    names: Sequence[str],
    edges: Sequence[int],
    counts: Sequence[Sequence[int]],
    shares: Sequence[Sequence[float]],
    row: int,
    place: int,
) -> Html:
    share = shares[row][place]
    if not share:
        return Html()
    slot = frame.x(1.0) - frame.x(0.0)
    width = 0.84 * slot / len(names)
    x, y = frame.x(place) + 0.08 * slot + row * width, frame.y(share)
    first = edges[place] + 1 if place else 0
    words = f"{names[row]}: {counts[row][place]:,} ({share:.1%}) from {first:,} to {edges[place + 1]:,}"
    shape = tag(
        "rect", x=number(x), y=number(y), width=number(max(0.8, width - 0.6)), height=number(frame.y(0.0) - y), class_="column"
    )
    return tag("g", tag("title", words), shape, class_=f"s{row % SERIES}")


def _short(value: int) -> str:
    return f"{value / 1_000:g}k" if value >= 10_000 else f"{value:,}"
