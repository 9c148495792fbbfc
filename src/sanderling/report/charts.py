"""Charts as inline SVG, and stacked bars as HTML; colours come from the page's style sheet.

Coordinates are in the SVG's own units; a chart scales with its column. Curves carry their points in ``data-`` attributes, from
which the page's script shows the nearest point; without script they are complete. Charts are handed labels, values and 95%
intervals, and compute no figure.

Example: ``curves([Line("loss", [0, 1], [2.0, 1.5])], title="Loss", x_label="step", y_label="nats")``
"""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import ceil, floor, isfinite, log2, log10

from markupsafe import Markup

from sanderling.report.markup import join, tag
from sanderling.report.numbers import Interval, percent, points

_WIDTH = 460.0
_COLOURS = 8
"""So many lines of a chart have colours of their own."""


def legend(names: Sequence[str] | Mapping[str, str]) -> Markup:
    """Swatches with the names of a chart's lines; a mapping names the style of each."""
    numbered = ((name, f"s{index % _COLOURS}") for index, name in enumerate(names))
    styles = names.items() if isinstance(names, Mapping) else numbered
    return tag("p", *[tag("span", name, class_=f"key {style}") for name, style in styles], class_="legend")


def figure(caption: str, *children: Markup | None) -> Markup:
    """A chart under its caption, with what stands below it."""
    return tag("figure", tag("figcaption", caption), *children)


def note(*words: str | Markup) -> Markup:
    """Small print below a chart."""
    return tag("p", *words, class_="quiet")


# Axes ---------------------------------------------------------------------------------------------------------------------


def nice_ticks(low: float, high: float, about: int = 5) -> list[float]:
    """Round numbers (1, 2 or 5 times a power of ten) from at or below ``low`` to at or above ``high``."""
    if not (isfinite(low) and isfinite(high)) or high < low:
        raise ValueError(f"no ticks from {low} to {high}")
    if high == low:
        low, high = low - (abs(low) * 0.1 or 0.5), high + (abs(high) * 0.1 or 0.5)
    rough = (high - low) / max(1, about)
    power = 10.0 ** floor(log10(rough))
    step = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= rough * 0.999)
    first, last = floor(low / step + 1e-9), ceil(high / step - 1e-9)
    return [float(f"{index * step:.12g}") for index in range(first, last + 1)]


def log_ticks(low: float, high: float) -> list[float]:
    """1, 2 and 5 times powers of ten (powers alone over more than three decades) around a range above 0; two at least."""
    if not (isfinite(low) and isfinite(high)) or not 0 < low <= high:
        raise ValueError(f"no logarithmic ticks from {low} to {high}")
    factors = (1, 2, 5) if high / low <= 1_000 else (1,)
    powers = range(floor(log10(low)) - 1, ceil(log10(high)) + 2)
    ticks = [float(f"{factor}e{power}") for power in powers for factor in factors]
    first = max(index for index, tick in enumerate(ticks) if tick <= low * (1 + 1e-9))
    last = min(index for index, tick in enumerate(ticks) if tick >= high * (1 - 1e-9))
    return ticks[first : max(last, first + 1) + 1]


@dataclass(frozen=True)
class _Frame:
    """Maps data to the SVG's units."""

    x_range: tuple[float, float]
    y_range: tuple[float, float]
    log: bool = False
    """Whether the y axis is logarithmic."""
    left: float = 54.0
    top: float = 12.0
    width: float = _WIDTH - 66.0
    height: float = 186.0

    def x(self, value: float) -> float:
        low, high = self.x_range
        return self.left + self.width * (value - low) / (high - low)

    def y(self, value: float) -> float:
        low, high = self.y_range
        if self.log:
            low, value, high = log10(low), log10(value), log10(high)
        return self.top + self.height * (1.0 - (value - low) / (high - low))

    def levels(self, ticks: Iterable[float], write: Callable[[float], str]) -> Iterable[Markup]:
        """Lines across with their values at the left."""
        for tick in ticks:
            y = self.y(tick)
            yield tag("line", x1=_at(self.left), x2=_at(self.left + self.width), y1=_at(y), y2=_at(y), class_="grid")
            yield tag("text", write(tick), x=_at(self.left - 7), y=_at(y + 3.5), text_anchor="end", class_="tick")

    def below(self, words: str, x: float) -> Markup:
        """What stands under a place of the x axis."""
        return tag("text", words, x=_at(x), y=_at(self.top + self.height + 17), text_anchor="middle", class_="tick")

    def label(self, words: str) -> Markup:
        """What the x axis is."""
        return tag("text", words, x=_at(self.left + self.width / 2), y=236, class_="axis", text_anchor="middle")


def _at(value: float) -> str:
    """A coordinate with at most one decimal."""
    return f"{value:.1f}".removesuffix(".0")


def _svg(title: str, *parts: Markup, height: float = 244, class_: str = "plot", **attributes: str) -> Markup:
    box = f"0 0 {_at(_WIDTH)} {_at(height)}"
    return tag("svg", tag("title", title), *parts, viewBox=box, role="img", class_=class_, **attributes)


def _hoverable(frame: _Frame, title: str, x_label: str, *parts: Markup) -> Markup:
    """A chart whose points the page's script shows."""
    box = json.dumps([frame.left, frame.top, frame.width, frame.height])
    return _svg(title, *parts, tag("g", class_="cursor"), class_="plot curves", data_frame=box, data_x_label=x_label)


# Curves -------------------------------------------------------------------------------------------------------------------

_MOST_POINTS = 600
"""More points than this in one line are thinned: the eye sees no more, and the file stays small."""
_FEW_POINTS = 25
"""So many points of a line, or fewer, are dots on it: what lies between them was not measured."""


@dataclass(frozen=True)
class Line:
    """One line of a chart; a y of None is a gap."""

    name: str
    x: Sequence[float]
    y: Sequence[float | None]


def smooth(values: Sequence[float | None], window: int) -> list[float | None]:
    """Centred moving average over up to ``window`` present values around each; a gap stays a gap."""
    half = window // 2
    found: list[float | None] = []
    for index, value in enumerate(values):
        near = [v for v in values[max(0, index - half) : index + half + 1] if v is not None]
        found.append(None if value is None or not near else sum(near) / len(near))
    return found


def curves(
    lines: Sequence[Line],
    *,
    title: str,
    x_label: str,
    y_label: str,
    window: int = 1,
    percent: bool = False,
    log: bool = False,
    mark: float | None = None,
) -> Markup:
    """A line chart; with a window, the raw lines are faint and their moving averages are drawn over them.

    ``log``: a logarithmic y axis, which says so; values that are not above 0 are gaps there. ``mark``: an x, within those of
    the lines, at which an upright line is drawn.
    """
    if log:
        lines = [Line(line.name, line.x, [y if y is not None and y > 0 else None for y in line.y]) for line in lines]
        y_label += " (log scale)"
    xs = [x for line in lines for x in line.x]
    ys = [y for line in lines for y in line.y if y is not None]
    if not xs or not ys:
        return tag("p", "Nothing was recorded for this plot.", class_="quiet")

    def write(value: float) -> str:
        return f"{100 * value:.3g}%" if percent else f"{value:.3g}"

    y_ticks = (log_ticks if log else nice_ticks)(min(ys), max(ys))
    x_ticks = nice_ticks(min(xs), max(xs))
    span = (min(xs), max(xs)) if max(xs) > min(xs) else (x_ticks[0], x_ticks[-1])
    frame = _Frame(span, (y_ticks[0], y_ticks[-1]), log)
    upright = {} if mark is None else {"x1": _at(frame.x(mark)), "x2": _at(frame.x(mark))}
    return _hoverable(
        frame,
        title,
        x_label,
        *frame.levels(y_ticks, write),
        *(frame.below(_whole(tick), frame.x(tick)) for tick in x_ticks if span[0] <= tick <= span[1]),
        frame.label(x_label),
        tag("text", y_label, class_="axis", text_anchor="middle", transform="translate(12 105) rotate(-90)"),
        *([tag("line", **upright, y1=_at(frame.top), y2=_at(frame.top + frame.height), class_="zero")] if upright else []),
        *(_line(frame, line, index, window, write) for index, line in enumerate(lines)),
    )


def _line(frame: _Frame, line: Line, index: int, window: int, write: Callable[[float], str]) -> Markup:
    step = max(1, ceil(len(line.x) / _MOST_POINTS))
    xs, raw, mean = list(line.x)[::step], list(line.y)[::step], smooth(line.y, window)[::step]
    known = [(x, y) for x, y in zip(xs, mean, strict=True) if y is not None]
    points = [[round(frame.x(x), 1), round(frame.y(y), 1), _whole(x), write(y)] for x, y in known]
    shapes = [tag("path", d=_path(frame, xs, raw), class_="line raw")] if window > 1 else []
    shapes.append(tag("path", d=_path(frame, xs, mean), class_="line"))
    if len(points) <= _FEW_POINTS:
        shapes += [tag("circle", cx=x, cy=y, r=3, class_="dot") for x, y, *_ in points]
    return _series(index, line.name, shapes, points)


def _series(index: int, name: str, shapes: Sequence[Markup], points: Sequence[Sequence[object]]) -> Markup:
    told = json.dumps(points, ensure_ascii=False)
    return tag("g", *shapes, class_=f"series s{index % _COLOURS}", data_name=name, data_points=told)


def _path(frame: _Frame, xs: Sequence[float], ys: Sequence[float | None]) -> str:
    """SVG path data; a gap lifts the pen."""
    parts: list[str] = []
    pen = "M"
    for x, y in zip(xs, ys, strict=True):
        if y is not None:
            parts.append(f"{pen}{_at(frame.x(x))} {_at(frame.y(y))}")
        pen = "M" if y is None else "L"
    return "".join(parts)


def _whole(value: float) -> str:
    return f"{value:,.0f}" if float(value).is_integer() else f"{value:g}"


# Shares over the number of attempts ---------------------------------------------------------------------------------------

_MOST_DOTS = 9


@dataclass(frozen=True)
class Curve:
    """A share, with its interval, for each k; a value of None is left out."""

    name: str
    by_k: dict[int, tuple[float | None, Interval | None]]


def scaling(curves: Sequence[Curve], *, title: str, x_label: str = "k attempts") -> Markup:
    """Curves over k, from 1 on, on an axis that doubles, each with the band of its intervals."""
    kept = [[(k, value, interval) for k, (value, interval) in sorted(one.by_k.items()) if value is not None] for one in curves]
    if not any(kept):
        return tag("p", "Nothing was scored often enough for this plot.", class_="quiet")
    most = max(k for points in kept for k, _, _ in points)
    shares = [share for points in kept for _, value, interval in points for share in (value, *(interval or ()))]
    ticks = [tick for tick in nice_ticks(min(shares), max(shares)) if -1e-9 <= tick <= 1 + 1e-9]
    low, high = min(ticks[0], min(shares)), max(ticks[-1], max(shares))
    frame = _Frame((0.0, log2(most) or 1.0), (low, high if high > low else low + 0.1))
    return _hoverable(
        frame,
        title,
        "k =",
        *frame.levels(ticks, lambda tick: percent(tick, 0)),
        *(frame.below(str(k), frame.x(log2(k))) for k in doublings(most)),
        frame.label(x_label),
        *(_scaled(frame, place, curve.name, points) for place, (curve, points) in enumerate(zip(curves, kept, strict=True))),
    )


def doublings(most: int) -> list[int]:
    """1, 2, 4, … and the last k, unless it crowds the power of two before it."""
    found = [2**power for power in range(most.bit_length()) if 2**power <= most]
    return found if most < 1.3 * found[-1] else [*found, most]


def _scaled(frame: _Frame, place: int, name: str, points: Sequence[tuple[int, float, Interval | None]]) -> Markup:
    line = [(frame.x(log2(k)), frame.y(value)) for k, value, _ in points]
    ends = [(frame.x(log2(k)), interval) for k, _, interval in points if interval is not None]
    upper = [f"{_at(x)} {_at(frame.y(high))}" for x, (_, high) in ends]
    lower = [f"{_at(x)} {_at(frame.y(low))}" for x, (low, _) in reversed(ends)]
    band = "M" + "L".join([*upper, *lower]) + "Z" if len(ends) > 1 else ""
    shapes = [tag("path", d=band, class_="band")] if len(line) > 1 else []
    shapes += [tag("path", d="M" + "L".join(f"{_at(x)} {_at(y)}" for x, y in line), class_="line")] if line else []
    if len(line) <= _MOST_DOTS:
        shapes += [tag("circle", cx=_at(x), cy=_at(y), r=3, class_="dot") for x, y in line]
    words = [
        percent(value) + (f" ({100 * spread[0]:.1f}–{100 * spread[1]:.1f})" if spread else "") for _, value, spread in points
    ]
    told = [[round(x, 1), round(y, 1), k, word] for (x, y), (k, _, _), word in zip(line, points, words, strict=True)]
    return _series(place, name, shapes, told)


# Distributions ------------------------------------------------------------------------------------------------------------

_MOST_LABELS = 7


def bin_edges(most: int, about: int = 12) -> list[int]:
    """Round edges from 0 to at or above the largest value."""
    step = max(1, int(nice_ticks(0, max(1, most), about)[1]))
    return list(range(0, step * (ceil(max(1, most) / step) + 1), step))


def columns(names: Sequence[str], edges: Sequence[int], counts: Sequence[Sequence[int]], *, title: str, x_label: str) -> Markup:
    """For every bin a column for each name: its share of that name's total. A bin is above one edge, up to the next."""
    shares = [[count / sum(row) if sum(row) else 0.0 for count in row] for row in counts]
    ticks = nice_ticks(0.0, max([0.05, *(share for row in shares for share in row)]))
    frame = _Frame((0.0, float(len(edges) - 1)), (ticks[0], ticks[-1]))
    slot = frame.x(1.0) - frame.x(0.0)
    width = 0.84 * slot / max(1, len(names))
    drawn: list[Markup] = []
    for row, name in enumerate(names):
        for place, share in enumerate(shares[row]):
            if share:
                first = edges[place] + 1 if place else 0
                words = f"{name}: {counts[row][place]:,} ({share:.1%}) from {first:,} to {edges[place + 1]:,}"
                x, y = frame.x(place) + 0.08 * slot + row * width, frame.y(share)
                size = {"width": _at(max(0.8, width - 0.6)), "height": _at(frame.y(0.0) - y)}
                shape = tag("rect", x=_at(x), y=_at(y), **size, class_="column")
                drawn.append(tag("g", tag("title", words), shape, class_=f"s{row % _COLOURS}"))
    every = ceil(len(edges) / _MOST_LABELS)
    places = [(place, edge) for place, edge in enumerate(edges) if place % every == 0]
    return _svg(
        title,
        *frame.levels(ticks, lambda tick: percent(tick, 0)),
        *(frame.below(f"{edge / 1_000:g}k" if edge >= 10_000 else f"{edge:,}", frame.x(place)) for place, edge in places),
        *drawn,
        frame.label(x_label),
        class_="plot columns",
    )


# Bars and differences -----------------------------------------------------------------------------------------------------

_ROW = 38.0
_TOP = 8.0
_LEFT = 150.0
_RIGHT = 60.0
_LONGEST_LABEL = 24


@dataclass(frozen=True)
class Bar:
    """One bar with its 95% interval; a value of None draws none."""

    label: str
    value: float | None
    interval: Interval | None
    style: str = ""
    """Names its colour; empty: the page's own."""
    href: str = ""
    """Where it leads."""


@dataclass(frozen=True)
class Difference:
    """One difference of shares with its 95% interval: how far ``label`` is above ``baseline``."""

    label: str
    baseline: str
    value: float
    interval: Interval
    href: str = ""


def bars(items: Sequence[Bar], *, title: str) -> Markup:
    """Horizontal bars of shares in 0 .. 1 with their 95% intervals."""
    ticks = nice_ticks(0.0, min(1.0, max(0.05, _highest(items))))
    return _rows(ticks, title, lambda tick: percent(tick, 0), [_bar(item, percent) for item in items])


def amounts(items: Sequence[Bar], *, title: str, write: Callable[[float], str]) -> Markup:
    """Horizontal bars of amounts from 0 up, written by ``write``."""
    return _rows(nice_ticks(0.0, _highest(items) or 1.0, 3), title, write, [_bar(item, write) for item in items])


def differences(items: Sequence[Difference], *, title: str) -> Markup:
    """Points with their 95% intervals around a line at zero, in percentage points."""
    ticks = nice_ticks(min(0.0, *(i.interval[0] for i in items)), max(0.0, *(i.interval[1] for i in items)))
    return _rows(ticks, title, lambda tick: f"{100 * tick:+.3g}" if tick else "0", list(map(_difference, items)), zero=True)


def _highest(items: Sequence[Bar]) -> float:
    return max([0.0, *(max(item.value or 0.0, item.interval[1] if item.interval else 0.0) for item in items)])


def _rows(
    ticks: Sequence[float],
    title: str,
    write: Callable[[float], str],
    rows: Sequence[Callable[[_Frame, float], Markup]],
    *,
    zero: bool = False,
) -> Markup:
    """Rows on a common axis, each drawn around its own middle."""
    frame = _Frame((ticks[0], ticks[-1]), (0.0, 1.0), False, _LEFT, _TOP, _WIDTH - _LEFT - _RIGHT, _ROW * len(rows))
    bottom = _TOP + frame.height

    def upright(at: float, class_: str) -> Markup:
        return tag("line", x1=_at(frame.x(at)), x2=_at(frame.x(at)), y1=_at(_TOP), y2=_at(bottom), class_=class_)

    grid = [
        join(
            upright(tick, "grid"),
            tag("text", write(tick), x=_at(frame.x(tick)), y=_at(bottom + 16), text_anchor="middle", class_="tick"),
        )
        for tick in ticks
    ]
    drawn = [row(frame, _TOP + _ROW * (index + 0.5)) for index, row in enumerate(rows)]
    return _svg(title, *grid, *([upright(0.0, "zero")] if zero else []), *drawn, height=bottom + 24)


def _bar(item: Bar, write: Callable[[float], str]) -> Callable[[_Frame, float], Markup]:
    def draw(frame: _Frame, middle: float) -> Markup:
        name = _name(frame, item.label, middle)
        if item.value is None:
            return join(name, tag("text", "not scored", x=_at(frame.left + 6), y=_at(middle + 4), class_="tick"))
        end = frame.x(item.value)
        size = {"x": _at(frame.left), "y": _at(middle - 11), "width": _at(end - frame.left), "height": 22}
        words, whisker, right = f"{item.label}: {write(item.value)}", None, end
        if item.interval is not None:
            words += f" (95% interval {write(item.interval[0])} to {write(item.interval[1])})"
            whisker, right = _whisker(frame, item.interval, middle), max(end, frame.x(item.interval[1]))
        value = tag("text", write(item.value), x=_at(right + 8), y=_at(middle + 4), class_="value")
        shape = tag("rect", **size, rx=2, class_="bar")
        return _linked(item.href, tag("g", tag("title", words), name, shape, whisker, value, class_=item.style or None))

    return draw


def _difference(item: Difference) -> Callable[[_Frame, float], Markup]:
    def draw(frame: _Frame, middle: float) -> Markup:
        low, high = item.interval
        words = f"{item.label} over {item.baseline}: {points(item.value)} points (95% interval {points(low)} to {points(high)})"
        shape = tag(
            "g",
            tag("title", words),
            _name(frame, item.label, middle - 7),
            _name(frame, f"over {item.baseline}", middle + 8, class_="under"),
            _whisker(frame, item.interval, middle),
            tag("circle", cx=_at(frame.x(item.value)), cy=_at(middle), r=4.5, class_="point"),
            tag("text", points(item.value), x=_at(frame.x(high) + 8), y=_at(middle + 4), class_="value"),
        )
        return _linked(item.href, shape)

    return draw


def _linked(href: str, shape: Markup) -> Markup:
    return tag("a", shape, href=href) if href else shape


def _name(frame: _Frame, label: str, middle: float, class_: str = "name") -> Markup:
    shown = label if len(label) <= _LONGEST_LABEL else label[: _LONGEST_LABEL - 1] + "…"
    return tag("text", shown, x=_at(frame.left - 10), y=_at(middle + 4), text_anchor="end", class_=class_)


def _whisker(frame: _Frame, interval: Interval, middle: float) -> Markup:
    low, high = (_at(frame.x(end)) for end in interval)
    ends = f"M{low} {_at(middle - 5)}v10M{high} {_at(middle - 5)}v10"
    return tag("path", d=f"M{low} {_at(middle)}H{high}{ends}", class_="whisker")


# Stacked bars -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Part:
    """One part of a stacked bar; ``style`` names its colour."""

    label: str
    count: int
    style: str


def stack(parts: Sequence[Part]) -> Markup:
    """One bar of 100%, divided; empty when every count is 0."""
    present = [part for part in parts if part.count]
    total = sum(part.count for part in present)
    segments = [
        tag("span", class_=part.style, style=f"flex-grow:{part.count}", title=f"{part_words(part)} ({part.count / total:.1%})")
        for part in present
    ]
    return tag("div", *segments, class_="stack", role="img", aria_label=", ".join(map(part_words, present)))


def part_words(part: Part) -> str:
    """A part in words."""
    return f"{part.label}: {part.count:,}"


def stacks(rows: Iterable[tuple[str, Sequence[Part]]], *, words: bool = False) -> Markup:
    """Several named bars of 100%; with ``words``, what each holds below it."""
    found: list[Markup] = []
    for name, parts in rows:
        held = ", ".join(part_words(part) for part in parts if part.count) or "none"
        below = tag("span", held, class_="below") if words else None
        found += [tag("dt", name), tag("dd", stack(parts), below)]
    return tag("dl", *found, class_="stacks")
