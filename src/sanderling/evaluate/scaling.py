"""What more attempts bring, as inline SVG: shares over k on an axis that doubles, each with the band of its interval.

Colours come from the page's style sheet; the page's script shows values under the pointer. Knows nothing of attempts.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import log2

from sanderling.evaluate.format import percent
from sanderling.evaluate.markup import Html, join, tag
from sanderling.evaluate.plots import SERIES, WIDTH, Frame, nice_ticks, number
from sanderling.evaluate.result_parts import Estimate

_MOST_DOTS = 9


@dataclass(frozen=True)
class Curve:
    """A share for each k; a value of None is left out."""

    name: str
    by_k: Mapping[int, Estimate]
    has_band: bool = True


def scaling(curves: Sequence[Curve], *, title: str, x_label: str = "k attempts") -> Html:
    """A plot of curves over k, from 1 on, with their 95% bands."""
    kept = [_points(curve) for curve in curves]
    if not any(kept):
        return tag("p", "Nothing was scored often enough for this plot.", class_="quiet")
    most = max(k for points in kept for k, _ in points)
    shares = [
        share for points in kept for _, one in points for share in (one.value, *(one.interval or ())) if share is not None
    ]
    ticks = [tick for tick in nice_ticks(min(shares), max(shares)) if -1e-9 <= tick <= 1 + 1e-9]
    low, high = min(ticks[0], min(shares)), max(ticks[-1], max(shares))
    frame = Frame(54, 12, WIDTH - 66, 186, (0.0, log2(most) or 1.0), (low, high if high > low else low + 0.1))
    drawn = [_curve(frame, curve, points, place) for place, (curve, points) in enumerate(zip(curves, kept, strict=True))]
    return tag(
        "svg",
        tag("title", title),
        *(_level(frame, tick) for tick in ticks),
        *(_doubled(frame, k) for k in doublings(most)),
        tag("text", x_label, x=number(frame.left + frame.width / 2), y=236, class_="axis", text_anchor="middle"),
        *drawn,
        tag("g", class_="cursor"),
        viewBox=f"0 0 {number(WIDTH)} 244",
        role="img",
        class_="plot curves",
        data_frame=json.dumps([frame.left, frame.top, frame.width, frame.height]),
        data_x_label="k =",
    )


def doublings(most: int) -> list[int]:
    """1, 2, 4, … and the last k, unless it crowds the power of two before it."""
    found = [2**power for power in range(most.bit_length()) if 2**power <= most]
    return found if most < 1.3 * found[-1] else [*found, most]


def _points(curve: Curve) -> list[tuple[int, Estimate]]:
    return [(k, one) for k, one in sorted(curve.by_k.items()) if one.value is not None]


def _curve(frame: Frame, curve: Curve, points: Sequence[tuple[int, Estimate]], place: int) -> Html:
    at = [(frame.x(log2(k)), one) for k, one in points]
    line = [(x, frame.y(one.value)) for x, one in at if one.value is not None]
    shapes = [tag("path", d=_band(frame, at), class_="band")] if curve.has_band and len(at) > 1 else []
    shapes.append(tag("path", d="M" + "L".join(f"{number(x)} {number(y)}" for x, y in line), class_="line") if line else Html())
    if len(line) <= _MOST_DOTS:
        shapes += [tag("circle", cx=number(x), cy=number(y), r=3, class_="dot") for x, y in line]
    told = [[round(x, 1), round(y, 1), k, _said(one)] for (x, y), (k, one) in zip(line, points, strict=True)]
    return tag(
        "g", *shapes, class_=f"series s{place % SERIES}", data_name=curve.name, data_points=json.dumps(told, ensure_ascii=False)
    )


def _band(frame: Frame, at: Sequence[tuple[float, Estimate]]) -> str:
    ends = [(x, one.interval) for x, one in at if one.interval is not None]
    if len(ends) < 2:
        return ""
    upper = [f"{number(x)} {number(frame.y(interval.high))}" for x, interval in ends]
    lower = [f"{number(x)} {number(frame.y(interval.low))}" for x, interval in reversed(ends)]
    return "M" + "L".join([*upper, *lower]) + "Z"


def _said(one: Estimate) -> str:
    spread = f" ({100 * one.interval.low:.1f}–{100 * one.interval.high:.1f})" if one.interval else ""
    return percent(one.value) + spread


def _level(frame: Frame, tick: float) -> Html:
    y = frame.y(tick)
    line = tag("line", x1=number(frame.left), x2=number(frame.left + frame.width), y1=number(y), y2=number(y), class_="grid")
    label = tag("text", percent(tick, 0), x=number(frame.left - 7), y=number(y + 3.5), text_anchor="end", class_="tick")
    return join(line, label)


def _doubled(frame: Frame, k: int) -> Html:
    x, y = number(frame.x(log2(k))), number(frame.top + frame.height + 17)
    return tag("text", k, x=x, y=y, text_anchor="middle", class_="tick")
