"""Charts as inline SVG, and stacked bars as HTML; colours come from the page's style sheet.

Coordinates are in the SVG's own units; a chart scales with its column. Curves carry their points in ``data-`` attributes, from
which the page's script shows the nearest point. Charts are handed labels, values and 95% intervals, and compute no figure.

Example: ``curves([Line("loss", [0, 1], [2.0, 1.5])], title="Loss", x_label="step", y_label="nats")``
"""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import ceil, floor, isfinite, log10

from markupsafe import Markup

from sanderling.report.numbers import Interval, percent, points
from sanderling.report.page import coordinate, tag

_WIDTH = 460.0
_COLOURS = 8  # so many lines of a chart have colours of their own
_MOST_POINTS = 600  # more of one line are thinned: the eye sees no more, and the file stays small
_FEW_POINTS = 25  # so many of a line, or fewer, are dots on it: what lies between them was not measured
_LEAST_SHARE = 0.05  # an axis of shares shows so much around values that hardly differ
_ROW = 46.0


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


def nice_ticks(low: float, high: float, about: int = 5, least: float = 0.0) -> list[float]:
    """Round numbers (1, 2 or 5 times a power of ten) from at or below ``low`` to at or above ``high``, ``least`` apart."""
    if not (isfinite(low) and isfinite(high)) or high < low:
        raise ValueError(f"no ticks from {low} to {high}")
    if high == low:
        low, high = low - (abs(low) * 0.1 or 0.5), high + (abs(high) * 0.1 or 0.5)
    rough = (high - low) / max(1, about)
    power = 10.0 ** floor(log10(rough))
    step = max(least, next(power * factor for factor in (1, 2, 5, 10) if power * factor >= rough * 0.999))
    first, last = floor(low / step + 1e-9), ceil(high / step - 1e-9)
    return [float(f"{index * step:.12g}") for index in range(first, last + 1)]


@dataclass(frozen=True)
class _Frame:
    """Maps data to the SVG's units, and draws its axes."""

    x_range: tuple[float, float]
    y_range: tuple[float, float]
    left: float = 54.0
    top: float = 12.0
    width: float = _WIDTH - 66.0
    height: float = 186.0

    @property
    def bottom(self) -> float:
        return self.top + self.height

    def x(self, value: float) -> float:
        low, high = self.x_range
        return self.left + self.width * (value - low) / (high - low)

    def y(self, value: float) -> float:
        low, high = self.y_range
        return self.top + self.height * (1.0 - (value - low) / (high - low))

    def axes(self, levels: Iterable[tuple[float, str]], places: Iterable[tuple[float, str]], x_label: str) -> list[Markup]:
        """Lines across with their values at the left, words below places of the x axis, and what that is."""
        found: list[Markup] = []
        for level, words in levels:
            y = self.y(level)
            found.append(tag("line", x1=self.left, x2=self.left + self.width, y1=y, y2=y, class_="grid"))
            found.append(tag("text", words, x=self.left - 7, y=y + 3.5, text_anchor="end", class_="tick"))
        for place, words in places:
            found.append(tag("text", words, x=self.x(place), y=self.bottom + 17, text_anchor="middle", class_="tick"))
        return [*found, tag("text", x_label, x=self.left + self.width / 2, y=236, class_="axis", text_anchor="middle")]

    def upright(self, place: float, class_: str) -> Markup:
        x = self.x(place)
        return tag("line", x1=x, x2=x, y1=self.top, y2=self.bottom, class_=class_)


def _svg(title: str, *parts: Markup, height: float = 244, class_: str = "plot", **attributes: str) -> Markup:
    box = f"0 0 {_WIDTH:.0f} {height:.0f}"
    return tag("svg", tag("title", title), *parts, viewBox=box, role="img", class_=class_, **attributes)


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


def curves(lines: Sequence[Line], *, title: str, x_label: str, y_label: str, window: int = 1, percent: bool = False) -> Markup:
    """A line chart; with a window, the raw lines are faint and their moving averages are drawn over them."""
    xs = [x for line in lines for x in line.x]
    ys = [y for line in lines for y in line.y if y is not None]
    if not xs or not ys:
        return note("Nothing was recorded for this plot.")

    def write(value: float) -> str:
        return f"{100 * value:.3g}%" if percent else f"{value:.3g}"

    low, high = min(ys), max(ys)
    if percent and low >= 0 and high <= 1 and high - low < _LEAST_SHARE:  # no axis below 0% or above 100%
        low, high = max(0.0, low - _LEAST_SHARE), min(1.0, high + _LEAST_SHARE)
    y_ticks = nice_ticks(low, high)
    x_ticks = nice_ticks(min(xs), max(xs), least=1.0 if all(float(x).is_integer() for x in xs) else 0.0)
    span = (min(xs), max(xs)) if max(xs) > min(xs) else (x_ticks[0], x_ticks[-1])
    frame = _Frame(span, (y_ticks[0], y_ticks[-1]))
    places = [(tick, _whole(tick)) for tick in x_ticks if span[0] <= tick <= span[1]]
    parts = frame.axes([(tick, write(tick)) for tick in y_ticks], places, x_label)
    parts.append(tag("text", y_label, class_="axis", text_anchor="middle", transform="translate(12 105) rotate(-90)"))
    parts += [_line(frame, line, index, window, write) for index, line in enumerate(lines)]
    box = json.dumps([frame.left, frame.top, frame.width, frame.height])
    cursor = tag("g", class_="cursor")
    return _svg(title, *parts, cursor, class_="plot curves", data_frame=box, data_x_label=x_label)


def _line(frame: _Frame, line: Line, index: int, window: int, write: Callable[[float], str]) -> Markup:
    step = max(1, ceil(len(line.x) / _MOST_POINTS))
    xs, raw, mean = list(line.x)[::step], list(line.y)[::step], smooth(line.y, window)[::step]
    known = [(x, y) for x, y in zip(xs, mean, strict=True) if y is not None]
    told = [(round(frame.x(x), 1), round(frame.y(y), 1), _whole(x), write(y)) for x, y in known]
    shapes = [tag("path", d=_path(frame, xs, raw), class_="line raw")] if window > 1 else []
    shapes.append(tag("path", d=_path(frame, xs, mean), class_="line"))
    if len(told) <= _FEW_POINTS:
        shapes += [tag("circle", cx=str(x), cy=str(y), r=3, class_="dot") for x, y, *_ in told]
    points = json.dumps(told, ensure_ascii=False)
    return tag("g", *shapes, class_=f"series s{index % _COLOURS}", data_name=line.name, data_points=points)


def _path(frame: _Frame, xs: Sequence[float], ys: Sequence[float | None]) -> str:
    """SVG path data; a gap lifts the pen."""
    parts: list[str] = []
    pen = "M"
    for x, y in zip(xs, ys, strict=True):
        if y is not None:
            parts.append(f"{pen}{coordinate(frame.x(x))} {coordinate(frame.y(y))}")
        pen = "M" if y is None else "L"
    return "".join(parts)


def _whole(value: float) -> str:
    return f"{value:,.0f}" if float(value).is_integer() else f"{value:g}"


@dataclass(frozen=True)
class Bar:
    """One bar with its 95% interval; a value of None draws none."""

    label: str
    value: float | None
    interval: Interval | None


@dataclass(frozen=True)
class Difference:
    """One difference of shares with its 95% interval: how far ``label`` is above ``baseline``."""

    label: str
    baseline: str
    value: float
    interval: Interval


def bars(items: Sequence[Bar], *, title: str) -> Markup:
    """Horizontal bars of shares in 0 .. 1 with their 95% intervals."""
    highest = max([0.0, *(max(item.value or 0.0, item.interval[1] if item.interval else 0.0) for item in items)])
    ticks = [(tick, percent(tick, 0)) for tick in nice_ticks(0.0, min(1.0, max(0.05, highest)))]
    frame, middles, parts = _rows(ticks, len(items))
    for item, middle in zip(items, middles, strict=True):
        name = _name(item.label, middle)
        if item.value is None:
            parts += [name, tag("text", "not scored", x=frame.left + 6, y=middle + 4, class_="tick")]
            continue
        right = frame.x(item.value)
        shape = tag("rect", x=frame.left, y=middle - 9, width=right - frame.left, height=18, rx=2, class_="bar")
        words, whisker = f"{item.label}: {percent(item.value)}", None
        if item.interval is not None:
            words += f" (95% interval {percent(item.interval[0])} to {percent(item.interval[1])})"
            whisker, right = _whisker(frame, item.interval, middle), max(right, frame.x(item.interval[1]))
        value = tag("text", percent(item.value), x=right + 8, y=middle + 4, class_="value")
        parts.append(tag("g", tag("title", words), name, shape, whisker, value))
    return _svg(title, *parts, height=frame.bottom + 24)


def differences(items: Sequence[Difference], *, title: str) -> Markup:
    """Points with their 95% intervals around a line at zero, in percentage points."""
    ticks = nice_ticks(min(0.0, *(i.interval[0] for i in items)), max(0.0, *(i.interval[1] for i in items)))
    frame, middles, parts = _rows([(tick, f"{100 * tick:+.3g}" if tick else "0") for tick in ticks], len(items))
    parts.append(frame.upright(0.0, "zero"))
    for item, middle in zip(items, middles, strict=True):
        low, high = item.interval
        words = f"{item.label} over {item.baseline}: {points(item.value)} points (95% interval {points(low)} to {points(high)})"
        drawn = tag(
            "g",
            tag("title", words),
            _name(f"{item.label} over {item.baseline}", middle),
            _whisker(frame, item.interval, middle),
            tag("circle", cx=frame.x(item.value), cy=middle, r=4.5, class_="point"),
            tag("text", points(item.value), x=frame.x(high) + 8, y=middle + 4, class_="value"),
        )
        parts.append(drawn)
    return _svg(title, *parts, height=frame.bottom + 24)


def _rows(ticks: Sequence[tuple[float, str]], count: int) -> tuple[_Frame, list[float], list[Markup]]:
    """The frame of rows on a common axis, the middle of what is drawn in each, below its name, and the axis itself."""
    frame = _Frame((ticks[0][0], ticks[-1][0]), (0.0, 1.0), left=10.0, top=4.0, width=_WIDTH - 80.0, height=_ROW * count)
    axis: list[Markup] = []
    for tick, words in ticks:
        axis.append(frame.upright(tick, "grid"))
        axis.append(tag("text", words, x=frame.x(tick), y=frame.bottom + 16, text_anchor="middle", class_="tick"))
    return frame, [frame.top + _ROW * row + 31.0 for row in range(count)], axis


def _name(label: str, middle: float) -> Markup:
    return tag("text", label, x=0.0, y=middle - 15, class_="name")


def _whisker(frame: _Frame, interval: Interval, middle: float) -> Markup:
    low, high, y, top = map(coordinate, (frame.x(interval[0]), frame.x(interval[1]), middle, middle - 5))
    return tag("path", d=f"M{low} {y}H{high}M{low} {top}v10M{high} {top}v10", class_="whisker")


@dataclass(frozen=True)
class Part:
    """One part of a stacked bar; ``style`` names its colour."""

    label: str
    count: int
    style: str


def stack(parts: Sequence[Part]) -> Markup:
    """One bar of 100%, divided; empty when every count is 0."""
    present = [(part, f"{part.label}: {part.count:,}") for part in parts if part.count]
    total = sum(part.count for part, _ in present)
    segments = [
        tag("span", class_=part.style, style=f"flex-grow:{part.count}", title=f"{words} ({part.count / total:.1%})")
        for part, words in present
    ]
    return tag("div", *segments, class_="stack", role="img", aria_label=", ".join(words for _, words in present))


def stacks(rows: Iterable[tuple[str, Sequence[Part]]]) -> Markup:
    """Several named bars of 100%."""
    found = [part for name, parts in rows for part in (tag("dt", name), tag("dd", stack(parts)))]
    return tag("dl", *found, class_="stacks")
