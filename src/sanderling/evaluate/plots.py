"""Learning curves as inline SVG. Colours come from the page's style sheet.

Coordinates are in the SVG's own units; a plot scales with its column. A series carries its points in ``data-`` attributes, from
which the page's script shows the nearest point; without script the plot is complete. Knows nothing of stages or training.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, floor, isfinite, log10

from sanderling.evaluate.markup import Html, join, tag

WIDTH = 460.0
SERIES = 8
"""So many lines of a plot have colours of their own."""
_MOST_POINTS = 600
"""More points than this in one line are thinned: the eye sees no more, and the file stays small."""
_FEW_POINTS = 25
"""So many points of a line, or fewer, are dots on it: what lies between them was not measured."""


@dataclass(frozen=True)
class Line:
    """One line of a plot; a y of None is a gap."""

    name: str
    x: Sequence[float]
    y: Sequence[float | None]


@dataclass(frozen=True)
class Frame:
    """Maps data to the SVG's units."""

    left: float
    top: float
    width: float
    height: float
    x_range: tuple[float, float]
    y_range: tuple[float, float]
    log: bool = False
    """Whether the y axis is logarithmic."""

    def x(self, value: float) -> float:
        low, high = self.x_range
        return self.left + self.width * (value - low) / (high - low)

    def y(self, value: float) -> float:
        low, high = self.y_range
        if self.log:
            low, value, high = log10(low), log10(value), log10(high)
        return self.top + self.height * (1.0 - (value - low) / (high - low))


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
    """1, 2 and 5 times powers of ten (powers alone over more than three decades) around a range above 0.

    From at or below ``low`` to at or above ``high``; two at least.
    """
    if not (isfinite(low) and isfinite(high)) or not 0 < low <= high:
        raise ValueError(f"no logarithmic ticks from {low} to {high}")
    factors = (1, 2, 5) if high / low <= 1_000 else (1,)
    powers = range(floor(log10(low)) - 1, ceil(log10(high)) + 2)
    ticks = [float(f"{factor}e{power}") for power in powers for factor in factors]
    first = max(index for index, tick in enumerate(ticks) if tick <= low * (1 + 1e-9))
    last = min(index for index, tick in enumerate(ticks) if tick >= high * (1 - 1e-9))
    return ticks[first : max(last, first + 1) + 1]


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
) -> Html:
    """A line plot; with a window, the raw lines are faint and their moving averages are drawn over them.

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
    y_ticks = (log_ticks if log else nice_ticks)(min(ys), max(ys))
    x_ticks = nice_ticks(min(xs), max(xs))
    span = (min(xs), max(xs)) if max(xs) > min(xs) else (x_ticks[0], x_ticks[-1])
    frame = Frame(54, 12, WIDTH - 66, 186, span, (y_ticks[0], y_ticks[-1]), log)
    drawn = [_line(frame, line, index, window, percent) for index, line in enumerate(lines)]
    return tag(
        "svg",
        tag("title", title),
        _y_axis(frame, y_ticks, percent),
        _x_axis(frame, [tick for tick in x_ticks if span[0] <= tick <= span[1]]),
        tag("text", x_label, x=number(frame.left + frame.width / 2), y=236, class_="axis", text_anchor="middle"),
        tag("text", y_label, class_="axis", text_anchor="middle", transform=f"translate(12 {number(105)}) rotate(-90)"),
        *([] if mark is None else [_upright(frame, mark)]),
        *drawn,
        tag("g", class_="cursor"),
        viewBox=f"0 0 {number(WIDTH)} 244",
        role="img",
        class_="plot curves",
        data_frame=json.dumps([frame.left, frame.top, frame.width, frame.height]),
        data_x_label=x_label,
    )


def _line(frame: Frame, line: Line, index: int, window: int, percent: bool) -> Html:
    step = max(1, ceil(len(line.x) / _MOST_POINTS))
    averaged = smooth(line.y, window)
    xs, raw, mean = list(line.x)[::step], list(line.y)[::step], averaged[::step]
    points = [
        [round(frame.x(x), 1), round(frame.y(m), 1), _g(x), _value(m, percent)]
        for x, m in zip(xs, mean, strict=True)
        if m is not None
    ]
    shapes = [tag("path", d=_path(frame, xs, mean), class_="line")]
    if window > 1:
        shapes.insert(0, tag("path", d=_path(frame, xs, raw), class_="line raw"))
    if len(points) <= _FEW_POINTS:
        shapes += [tag("circle", cx=x, cy=y, r=3, class_="dot") for x, y, *_ in points]
    return tag("g", *shapes, class_=f"series s{index % SERIES}", data_name=line.name, data_points=json.dumps(points))


def _upright(frame: Frame, at: float) -> Html:
    x = number(frame.x(at))
    return tag("line", x1=x, x2=x, y1=number(frame.top), y2=number(frame.top + frame.height), class_="zero")


def _path(frame: Frame, xs: Sequence[float], ys: Sequence[float | None]) -> str:
    """SVG path data; a gap lifts the pen."""
    parts: list[str] = []
    pen = "M"
    for x, y in zip(xs, ys, strict=True):
        if y is None:
            pen = "M"
            continue
        parts.append(f"{pen}{number(frame.x(x))} {number(frame.y(y))}")
        pen = "L"
    return "".join(parts)


def _y_axis(frame: Frame, ticks: Sequence[float], percent: bool) -> Html:
    parts: list[Html] = []
    for tick in ticks:
        y = number(frame.y(tick))
        parts.append(tag("line", x1=number(frame.left), x2=number(frame.left + frame.width), y1=y, y2=y, class_="grid"))
        label = _value(tick, percent)
        parts.append(
            tag("text", label, x=number(frame.left - 7), y=number(frame.y(tick) + 3.5), text_anchor="end", class_="tick")
        )
    return join(*parts)


def _x_axis(frame: Frame, ticks: Sequence[float]) -> Html:
    y = frame.top + frame.height + 17
    return join(
        *[tag("text", _g(tick), x=number(frame.x(tick)), y=number(y), text_anchor="middle", class_="tick") for tick in ticks]
    )


def _value(value: float, percent: bool) -> str:
    return f"{value:.3g}" if not percent else f"{100 * value:.3g}%"


def _g(value: float) -> str:
    return f"{value:,.0f}" if float(value).is_integer() else f"{value:g}"


def number(value: float) -> str:
    """A coordinate with at most one decimal."""
    return f"{value:.1f}".removesuffix(".0")


def legend(names: Sequence[str]) -> Html:
    """Swatches with the names of a plot's lines."""
    return tag("p", *[tag("span", name, class_=f"key s{index % SERIES}") for index, name in enumerate(names)], class_="legend")
