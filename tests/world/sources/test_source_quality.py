"""HTML read with trafilatura: the same document, with less around its main content."""

import subprocess
import sys

import pytest
from typer.testing import CliRunner

from sanderling.cli.world import app
from sanderling.core.errors import UserError
from sanderling.world.sources import html as quality
from sanderling.world.sources.base import Document, HtmlExtractor, Limits, Reason
from sanderling.world.sources.html import read_html
from sanderling.world.store import open_world

pytest.importorskip("trafilatura")
QUALITY = Limits(extractor=HtmlExtractor.TRAFILATURA)
BODY = " ".join(f"The mill of Orlo was built in 12{n} by the river, and burnt down twice since then." for n in range(10, 22))
PAGE = f"""<html><head><title>Orlo</title><meta name="date" content="2020-01-02"></head><body>
<nav><a href="/shop">Buy our hats</a> <a href="/login">Log in now</a></nav>
<article><h1>Orlo</h1><p>{BODY} See <a href="../Venn_(town).html">the town of Venn</a> and <code>mill()</code>.</p>
<h2>Floods</h2><ul><li>The flood of 1403, which took the bridge.</li><li>The flood of 1571, which took the church.</li></ul>
<table><tr><th>Year</th><th>People</th></tr><tr><td>1403</td><td>112</td></tr></table></article>
<footer>Subscribe to our newsletter for more hats.</footer></body></html>"""

NEWS_URL = "https://w.example/news/orlo.html"
SENTENCE = "The council of Orlo met on Monday to speak about the herring fleet, which has been in harbour since the spring. "
NEWS = f"""<html><head><title>Herring talks</title><meta name=date content=2020-03-04></head><body>
<nav><a href=/>Home</a> <a href=/sport>Sport</a></nav>
<article><h1>Herring talks <a href='#top'>¶</a></h1><p>{SENTENCE}It was the <a href='../first_(talk).html'>first talk</a>.</p>
<h2>What was said</h2><ul><li>The fleet stays in harbour, as the master of the port told everybody.</li>
<li>The price of <b>herring</b> rises.<ul><li>And that of bread.</li></ul></li></ul><ol><li>First act of the day.</li>
<li>Second act of the day.</li></ol><p>{SENTENCE}</p><pre><code>tide = 1
    ebb = 2</code></pre><table><tr><th>Fish</th><th>Price</th></tr><tr><td>Herring</td><td>7</td></tr></table>
<p>{SENTENCE}</p></article>
<div class=newsletter>Subscribe to our newsletter for more news like these, every morning.</div>
<footer>All rights reserved.</footer></body></html>"""


def read(html: str, limits: Limits = QUALITY, url: str = "https://w.example/towns/orlo.html") -> Document:
    document = read_html(html.encode(), url, limits)
    assert isinstance(document, Document)
    return document


def test_a_document_is_read_as_with_the_quick_extractor_but_for_its_surroundings():
    found, quick = read(PAGE), read(PAGE, Limits())
    assert (found.title, found.date, found.links) == (quick.title, quick.date, quick.links) and len(found.links) == 3
    assert "[the town of Venn](https://w.example/Venn_(town).html)" in found.text
    assert "# Orlo" in found.text and "## Floods" in found.text and "- The flood of 1571" in found.text
    assert "1403 | 112" in found.text and "mill()." in found.text
    assert "hats" not in found.text and "Log in" not in found.text


def test_where_it_finds_nothing_the_quick_one_is_asked(monkeypatch):
    monkeypatch.setattr("sanderling.world.sources.html.main_content", lambda _source: "")
    assert read(PAGE) == read(PAGE, Limits())


def test_an_article():
    page = read(NEWS, url=NEWS_URL)
    assert (page.title, page.date) == ("Herring talks", "2020-03-04")
    assert page.links == ("https://w.example/", "https://w.example/sport", "https://w.example/first_(talk).html")
    lines = page.text.splitlines()
    assert lines[0] == "# Herring talks" and "## What was said" in lines
    assert "It was the [first talk](https://w.example/first_(talk).html)." in page.text
    assert lines.index("  - And that of bread.") == lines.index("- The price of herring rises.") + 1
    assert "1. First act of the day." in lines and "2. Second act of the day." in lines
    assert "    tide = 1" in lines and "        ebb = 2" in lines
    assert "Fish | Price" in lines and "Herring | 7" in lines
    assert page.text.count(SENTENCE.strip()) == 3
    for gone in ("Subscribe", "Sport", "rights reserved", "¶"):
        assert gone not in page.text


def test_what_would_take_it_long_is_left_to_the_other():
    assert quality.main_content("<p>word</p>" * 20_000) == "" == quality.main_content("<p>" + "word " * 300_000)
    assert read("<main>" + "<p>word of it</p>" * 20_000).text.count("word of it") == 20_000


@pytest.mark.parametrize(
    "source", ["", "<", "<html", "\x00", "<ref target='x'>", "<a href='&quot;&lt;'>x</a>" * 300, "</p>" * 99]
)
def test_odd_sources_are_no_article_or_text(source):
    assert isinstance(quality.main_content(source), str)


@pytest.mark.parametrize("data", [b"", b"\x00\xff" * 90, b"<", b"<html>", b"<p>" * 3_000, b"\xff\xfe<p>a"])
def test_bad_input_is_a_reason_or_a_document(data):
    assert isinstance(read_html(data, "https://w.example/", QUALITY), Reason | Document)


def test_from_the_command_line(tmp_path):
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "orlo.html").write_text(PAGE)
    arguments = ["build", "from", str(tmp_path / "docs"), "--extractor", "trafilatura", "--out", str(tmp_path / "w")]
    assert CliRunner().invoke(app, arguments, catch_exceptions=False).exit_code == 0
    page = open_world(tmp_path / "w").page("local://docs/orlo.html")
    assert page is not None and "hats" not in page.text and "flood of 1403" in page.text


def test_without_the_extra_it_is_one_sentence(tmp_path):
    code = (
        "import sys; sys.modules['trafilatura'] = None\n"
        "from sanderling.world.sources.html import require_trafilatura\nrequire_trafilatura()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert UserError.__name__ in done.stderr and "pip install '.[quality]'" in done.stderr
