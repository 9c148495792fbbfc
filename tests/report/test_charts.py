"""Plots draw what they are given: round ticks, gaps, intervals within the frame."""

import re
from html.parser import HTMLParser
from itertools import pairwise
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markupsafe import Markup, escape

from sanderling.report.charts import Bar, Difference, Line, Part, bars, curves, differences, nice_ticks, stack
from sanderling.report.numbers import duration, percent, points, span
from sanderling.report.page import clean, tag

VALUES = st.floats(-1e9, 1e9, allow_nan=False).map(lambda value: float(f"{value:.6g}"))


@given(VALUES, VALUES)
def test_ticks_enclose_the_data_with_few_even_steps(a: float, b: float) -> None:
    low, high = min(a, b), max(a, b)
    if high - low < 1e-6 * max(abs(low), abs(high), 1e-9):
        return
    ticks = nice_ticks(low, high)
    slack = 1e-6 * (high - low)
    assert ticks[0] <= low + slack
    assert ticks[-1] >= high - slack
    assert 3 <= len(ticks) <= 8
    steps = [y - x for x, y in pairwise(ticks)]
    assert max(steps) == pytest.approx(min(steps), rel=1e-3)


def test_ticks_of_a_constant_and_of_nonsense() -> None:
    assert nice_ticks(0.5, 0.5)[0] < 0.5 < nice_ticks(0.5, 0.5)[-1]
    assert nice_ticks(0.0, 1.0) == [0.0, 0.2, 0.4, 0.6, 0.8, 1.0]
    with pytest.raises(ValueError, match="no ticks"):
        nice_ticks(float("nan"), 1.0)


def ticks_of(plot: str) -> list[str]:
    return re.findall(r'class="tick">([^<]*)<', plot)


@pytest.mark.parametrize("value", [0.0, 0.4, 1.0])
def test_an_axis_of_shares_stays_between_none_and_all_where_they_hardly_differ(value: float) -> None:
    plot = curves([Line("a", [1, 2, 3], [value] * 3)], title="t", x_label="x", y_label="y", percent=True)
    shares = [float(tick[:-1]) for tick in ticks_of(plot) if tick.endswith("%")]
    assert len(shares) >= 3 and min(shares) >= 0.0 and max(shares) <= 100.0
    assert min(shares) <= 100 * value <= max(shares)


def test_steps_have_no_ticks_between_them() -> None:
    plot = curves([Line("a", [1, 2, 3], [5.0, 6.0, 7.0])], title="t", x_label="step", y_label="y")
    assert ticks_of(plot)[-3:] == ["1", "2", "3"]
    halves = curves([Line("a", [0.5, 1.0], [5.0, 6.0])], title="t", x_label="x", y_label="y")
    assert "0.6" in ticks_of(halves)


def test_names_of_rows_are_whole_and_begin_inside() -> None:
    name = "SFT on correct ones only, merged"
    plots = [bars([Bar(name, 0.5, (0.4, 0.6))], title="t"), differences([Difference("RL", name, 0.1, (0.0, 0.2))], title="t")]
    for plot, shown in zip(plots, (name, f"RL over {name}"), strict=True):
        (row,) = [text for text in ElementTree.fromstring(plot).iter("text") if text.get("class") == "name"]
        assert row.text == shown and "…" not in plot
        assert row.get("x") == "0" and row.get("text-anchor") is None


def test_a_gap_lifts_the_pen() -> None:
    plot = curves([Line("a", [0, 1, 2, 3], [0.0, 1.0, None, 1.0])], title="t", x_label="x", y_label="y")
    (path,) = re.findall(r'<path d="([^"]*)" class="line"', plot)
    assert (path.count("M"), path.count("L")) == (2, 1)


def test_curves_are_well_formed_and_carry_their_points() -> None:
    lines = [Line("a<b", [0, 1, 2], [1.0, 2.0, 3.0]), Line("one", [1], [2.0])]
    root = ElementTree.fromstring(curves(lines, title="t & t", x_label="step", y_label="y", window=3, percent=True))
    series = [g for g in root.iter("g") if "series" in g.get("class", "")]
    assert [g.get("data-name") for g in series] == ["a<b", "one"]
    assert '"300%"' not in (series[0].get("data-points") or "")
    assert '"250%"' in (series[0].get("data-points") or "")
    assert series[1].find("circle") is not None


def test_few_points_are_dots_and_many_are_not() -> None:
    few, many = Line("few", [0, 1, 2], [1.0, None, 3.0]), Line("many", range(100), [float(i) for i in range(100)])
    root = ElementTree.fromstring(curves([few, many], title="t", x_label="x", y_label="y"))
    assert [len(list(g.iter("circle"))) for g in root.iter("g") if "series" in g.get("class", "")] == [2, 0]


@pytest.mark.parametrize("line", [Line("a", [], []), Line("a", [1.0], [None])])
def test_nothing_to_draw_is_said(line: Line) -> None:
    assert "Nothing was recorded" in curves([line], title="t", x_label="x", y_label="y")


@given(st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1), st.floats(0, 1)), min_size=1, max_size=6))
def test_bars_and_whiskers_stay_inside(rows: list[tuple[float, float, float]]) -> None:
    items = []
    for row in rows:
        low, value, high = sorted(row)
        items.append(Bar("stage", value, (low, high)))
    root = ElementTree.fromstring(bars(items, title="t"))
    width = float((root.get("viewBox") or "").split()[2])
    for rect in root.iter("rect"):
        assert 0 <= float(rect.get("x", "")) <= float(rect.get("x", "")) + float(rect.get("width", "")) <= width
    texts = [float(node.get("x", "")) for node in root.iter("text")]
    assert all(0 <= x <= width for x in texts)


def test_differences_show_zero() -> None:
    root = ElementTree.fromstring(differences([Difference("a", "b", 0.2, (0.1, 0.3))], title="t"))
    assert [node for node in root.iter("line") if node.get("class") == "zero"]
    assert "a over b: +20.0 points (95% interval +10.0 to +30.0)" in "".join(root.itertext())


def test_stacks_leave_out_what_did_not_happen() -> None:
    root = ElementTree.fromstring(stack([Part("x", 3, "e-x"), Part("y", 0, "e-y"), Part("z", 1, "e-z")]))
    assert [span.get("class") for span in root] == ["e-x", "e-z"]
    assert root[0].get("title") == "x: 3 (75.0%)"
    assert len(ElementTree.fromstring(stack([]))) == 0


# -- Nothing that comes from outside becomes markup ------------------------------------------------------------------------


class Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.words += data


@given(st.text(), st.text())
def test_any_text_comes_back_as_text(child: str, attribute: str) -> None:
    reader = Reader()
    reader.feed(tag("p", child, title=attribute))
    reader.close()
    assert [name for name, _ in reader.tags] == ["p"]
    expected = Reader()
    expected.feed(escape(clean(child)))
    expected.close()
    assert reader.words == expected.words
    assert set(reader.tags[0][1]) == {"title"}


def test_elements_nest_and_children_are_escaped() -> None:
    inner = tag("b", "1 < 2")
    assert tag("p", "a & ", inner, None, 3) == "<p>a &amp; <b>1 &lt; 2</b>3</p>"
    assert tag("p", "<", inner) == "<p>&lt;<b>1 &lt; 2</b></p>"


def test_attributes() -> None:
    assert tag("p", class_="x", data_points='["', hidden=True, open=False, title=None) == (
        '<p class="x" data-points="[&#34;" hidden></p>'
    )
    assert tag("line", x1=1) == '<line x1="1"/>'
    with pytest.raises(ValueError, match="attribute name"):
        tag("p", **{"onclick x": "1"})


def test_control_characters_and_lone_surrogates_become_visible() -> None:
    assert clean("a\x00\x1b[31m\ud800\n") == "a\ufffd\ufffd[31m\ufffd\n"
    assert clean("\u202e97.1\u2066%") == "\ufffd97.1\ufffd%", "nothing turns the figures of a line round"
    tag("p", "\ud83d").encode("utf-8")


def test_only_markup_passes_unescaped() -> None:
    assert tag("p", Markup("<b>"), "<b>") == "<p><b>&lt;b&gt;</p>"


# -- Numbers as people read them -------------------------------------------------------------------------------------------


def test_numbers_in_words() -> None:
    assert [duration(s) for s in (0.04, 9.96, 59.6, 245, 3599.7, 7800)] == [
        "0.0 s", "10 s", "1 min 00 s", "4 min 05 s", "1 h 00 min", "2 h 10 min",
    ]  # fmt: skip
    assert (percent(None), percent(0.4156), points(-0.012), points(-0.0002)) == ("–", "41.6%", "−1.2", "+0.0")
    assert span((0.1, 0.25)) == "10.0–25.0"
