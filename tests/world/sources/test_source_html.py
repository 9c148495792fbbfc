"""HTML pages: title, text, headings, links, dates, encodings; what is left out, and that no bytes break it."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sanderling.world.sources.base import Document, Limits, Reason
from sanderling.world.sources.html import read_html

URL = "https://w.example/docs/a/page.html"
LIMITS = Limits()
ARTICLE = """<!doctype html><html><head><title> Alien
 (film) </title><link rel="canonical" href="/docs/a/page.html?x=1"><meta property="article:published_time" content="1979-05-25">
<style>body { color: red }</style></head><body>
<nav><ul><li><a href="/home">Home</a></li><li><a href="../b/">Up</a></li></ul></nav>
<main><h1>Alien (film)<a class="headerlink" href="#alien">¶</a></h1>
<p>Alien is a film of 1979. It was directed by <a href="Ridley_(director).html#life">Ridley Scott</a>, who was born in
South Shields. It is about a crew that meets a creature far from home.</p>
<h2>Cast &amp; crew</h2>
<ul><li>Sigourney Weaver plays the warrant officer of the ship, her first leading role in a film.</li>
<li>Tom Skerritt plays the captain of the ship, who had been cast before and then again.</li></ul>
<pre># not a heading
	x = 1</pre>
<p>More is on <a href="//other.example/x">another site</a> and in <a href="page.html#cast">this page</a>,
<a href="mailto:a@w.example">by mail</a> or <a href="javascript:void(0)">by script</a>. Again
<a href="Ridley_(director).html">Scott</a>.</p></main>
<footer>All rights reserved.</footer><script>var a = "<p>never</p>";</script></body></html>"""


def read(source: str | bytes, **options) -> Document:
    found = read_html(source.encode() if isinstance(source, str) else source, URL, LIMITS, **options)
    assert isinstance(found, Document), found
    return found


def test_an_article_as_a_reader_sees_it():
    page = read(ARTICLE)
    assert page.title == "Alien (film)"
    assert page.date == "1979-05-25"
    assert page.canonical == URL + "?x=1"
    lines = page.text.splitlines()
    assert lines[0] == "# Alien (film)"
    assert "## Cast & crew" in lines
    assert any(line.strip().startswith("- Sigourney Weaver") for line in lines)
    assert "    # not a heading" in lines and "    " + "    x = 1" in lines
    assert "directed by [Ridley Scott](https://w.example/docs/a/Ridley_(director).html), who" in page.text
    for gone in ("never", "color", "¶"):
        assert gone not in page.text


def test_links_come_from_the_whole_document_in_order_each_once():
    assert read(ARTICLE).links == (
        "https://w.example/home",
        "https://w.example/docs/b/",
        "https://w.example/docs/a/Ridley_(director).html",
        "https://other.example/x",
    )


def test_a_base_element_moves_the_links():
    page = read('<base href="/else/"><p>Some words.</p><a href="x.html">x</a><a href="http://[bad">y</a>')
    assert page.links == ("https://w.example/else/x.html",)


def test_without_main_content_the_whole_body_is_the_text():
    page = read("<ul><li><a href=x>Short</a><li><a href=y>List</a></ul>")
    assert "Short" in page.text and "List" in page.text


def test_the_first_heading_stands_in_for_a_title():
    assert read("<h1>Named <i>here</i> ¶</h1><p>Words.</p>").title == "Named here"


@pytest.mark.parametrize(
    ("data", "charset"),
    [
        ("<p>café über</p>".encode(), ""),
        ("<p>café über</p>".encode("utf-16"), ""),
        ("<meta charset=iso-8859-1><p>café über</p>".encode("latin-1"), ""),
        ("<p>café über</p>".encode("latin-1"), "iso-8859-1"),
        ("<p>café über</p>".encode("latin-1"), "nonsense-encoding"),
        ("\ufeff<p>café über</p>".encode(), "latin-1"),
    ],
)
def test_encodings(data, charset):
    assert "café über" in read(data, charset=charset).text


def test_broken_utf8_stays_utf8():
    page = read("<p>東京は日本の首都である。".encode() + b"\xff\xfe and more" + b" words" * 20)
    assert page.text.startswith("東京は日本の首都である。\ufffd")


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", Reason.EMPTY),
        (b" \n\t", Reason.EMPTY),
        (b"<html><head><title>T</title></head><body><script>x()</script></body></html>", Reason.EMPTY),
        (bytes(range(1, 32)) * 300, Reason.NOT_TEXT),
        (b"\x00" * 5_000, Reason.NOT_TEXT),
        (b"<p>" + b"word " * 20_000, Reason.TOO_LARGE),
        (b"<div>" * 200_000 + b"deep", Reason.TOO_NESTED),
        (b"<div></span>" * 700 + b"deep", Reason.TOO_NESTED),
    ],
)
def test_what_is_no_page_has_a_reason(data, reason):
    limits = Limits(document_bytes=50_000) if reason is Reason.TOO_LARGE else Limits()
    assert read_html(data, URL, limits) is reason


def test_of_a_deep_and_long_page_the_whole_is_read():
    """Finding its main content would take time that grows with depth times length."""
    page = read("<nav>Go home</nav>" + "<div>" * 400 + "<p>" + "word " * 600_000)
    assert page.text.startswith("Go home") and page.text.count("word") == 600_000


def test_many_open_elements_that_do_not_nest_are_no_depth():
    page = read("<br><p>word" * 3_000 + "<em>x</em>" * 600 + "</div>" * 600)
    assert page.text.count("word") == 3_000


@settings(max_examples=150)
@given(
    st.binary(max_size=400)
    | st.text(alphabet='<>/ab "=&;#hrefdivpre\x00\ud800é\n', max_size=300).map(
        lambda text: text.encode("utf-8", "surrogatepass")
    )
)
def test_no_bytes_break_it(data):
    found = read_html(b"<a href='" + data + b"'>" + data, URL, LIMITS)
    assert isinstance(found, Document | Reason)
    if isinstance(found, Document):
        found.text.encode()


def test_a_page_of_many_links_and_headings():
    page = read("<h2>part</h2><p>see <a href=x>y</a></p><ul><li>item of a list<li>other</ul>" * 5_000)
    assert page.links == ("https://w.example/docs/a/x",)
    assert page.text.count("## part") == page.text.count("- item of a list") == 5_000


def test_iso_2022_jp_is_told_by_its_escapes():
    page = read_html("<title>日本</title><p>日本語のテキスト、長い文章です。</p>".encode("iso2022_jp"), URL, Limits())
    assert isinstance(page, Document)
    assert (page.title, page.text) == ("日本", "日本語のテキスト、長い文章です。")
