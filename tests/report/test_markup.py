"""Nothing that comes from outside becomes markup."""

from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markupsafe import Markup, escape

from sanderling.report.page import clean, tag


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
