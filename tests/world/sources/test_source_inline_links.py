"""Links within texts: full addresses that every reader of Markdown links here takes whole, and words as before without them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sanderling.world.addresses import canonical_url
from sanderling.world.cutting import find_links
from sanderling.world.filters import without_links
from sanderling.world.sources.base import Document, Limits
from sanderling.world.sources.documents import read_markdown
from sanderling.world.sources.html import markdown, read_html
from sanderling.world.sources.links import Resolver, link_address, markdown_link, resolve
from sanderling.world.text import plain

URL = "https://w.example/docs/a/page.html"
MAIN = "<p>" + "Orlo is a town by the sea that is known for its herring, and for little else. " * 3 + "</p>"


def text_of(body: str) -> str:
    """The last line of the main content that a paragraph becomes."""
    found = read_html(f"<main>{MAIN}{body}</main>".encode(), URL, Limits())
    assert isinstance(found, Document)
    return found.text.partition("little else.\n\n")[2] or found.text.rpartition("else.")[2]


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ("<p>See <a href='../b/x.html#y'>the <b>x</b></a>.</p>", "See [the x](https://w.example/docs/b/x.html)."),
        ("<p>See <a href='#part'>below</a> or <a href='page.html#q'>here</a>.</p>", "See below or here."),
        ("<p>A <a href='x_(y)'>y</a></p>", "A [y](https://w.example/docs/a/x_(y))"),
        ("<p>A <a href='x_(y'>y</a></p>", "A [y](https://w.example/docs/a/x_%28y)"),
        ("<p>A <a href='x_((y))'>y</a></p>", "A [y](https://w.example/docs/a/x_%28%28y%29%29)"),
        ("<p>A <a href='a b<c>'>y</a></p>", "A [y](https://w.example/docs/a/a%20b%3Cc%3E)"),
        ("<p>A <a href='x?a=1&amp;b=2'>y &amp; z</a></p>", "A [y & z](https://w.example/docs/a/x?a=1&b=2)"),
        ("<p>A <a href=x>[1]</a> and <a href='x'>two\n words </a>end</p>", None),
        ("<p>A <a href=x><img src=p alt=pic></a> <a href='#z'>¶</a> <a href='mailto:a@b'>mail</a></p>", "A   mail"),
        ("<a href=x><h3>Head</h3><p>More words.</p></a>", "### [Head](https://w.example/docs/a/x)\n\nMore words."),
        ("<pre>code <a href=x>y</a>(z)</pre>", "    code y(z)"),
        ("<ol><li><p>one</p><ul><li><a href=x>in</a> ner</ul><li>two</ol>", None),
        ("<p>A <a name=x>place</a> <a href='javascript:f()'>s</a></p>", "A place s"),
    ],
)
def test_a_paragraph(body, text):
    expected = {
        7: "A [(1)](https://w.example/docs/a/x) and [two words](https://w.example/docs/a/x) end",
        11: "1. one\n  - [in](https://w.example/docs/a/x) ner\n2. two",
    }
    assert text_of(body).strip() == (text or expected[7 if "[1]" in body else 11]).strip()


def test_navigation_is_beside_the_text_only():
    lists = "<nav><a href=/home>Home</a></nav><ul><li><a href=p1>One page</a><li><a href=p2>Another</a></ul>"
    found = read_html(f"<body>{lists}<main>{MAIN}</main>".encode(), URL, Limits())
    assert isinstance(found, Document)
    assert "](" not in found.text and len(found.links) == 3


def test_links_are_followed_to_where_they_lead():
    def follow(url: str) -> str:
        return URL if url.endswith("me") else url.replace("old", "new")

    found = read_html(f"<main>{MAIN}<p><a href=old>x</a> <a href=me>y</a></p>".encode(), URL, Limits(), follow=follow)
    assert isinstance(found, Document)
    assert found.text.endswith("[x](https://w.example/docs/a/new) y")
    assert found.links == ("https://w.example/docs/a/new",)


@pytest.mark.parametrize(
    ("written", "text"),
    [
        ("[a](../b.md#c)", "[a](https://w.example/docs/b.md)"),
        ('[a](<b c.md> "title")', "[a](https://w.example/docs/a/b%20c.md)"),
        ("[a](#part) ![pic](p.png) [![badge](b.png)](x)", "a pic [badge](https://w.example/docs/a/x)"),
        ("[a][r] [R][] [n][none]\n\n[r]: /x (title)", "[a](https://w.example/x) [R](https://w.example/x) [n][none]"),
        ("`[a](b)` and\n\n```\n[a](b)\n```\n[c](d)", "`[a](b)` and\n\n```\n[a](b)\n```\n[c](https://w.example/docs/a/d)"),
        ("~~~\n[a](b)", "~~~\n[a](b)"),
        ("see https://o.example/y.", "see https://o.example/y."),
        ("[mail](mailto:a@b) [a](b", "mail [a](b"),
    ],
)
def test_markdown_is_written_out(written, text):
    found = read_markdown(written.encode(), URL, Limits())
    assert isinstance(found, Document) and found.text.strip() == text


ODD = st.text(alphabet="ab()[]<>\\ \"'\n%#&é\u00a0\u2028\x00*_", max_size=12)


@given(words=ODD, path=ODD)
def test_every_reader_takes_a_link_whole(words, path):
    url = f"https://w.example/{path}"
    written = markdown_link(f"x{words}", url)
    around = f"before {written} after"
    shown = " ".join(f"x{words}".split()).translate(str.maketrans("[]", "()"))
    assert plain(around).split() == plain(f"before {shown} after").split()
    (found,) = find_links(around)
    assert around[found.start : found.end] == written
    hidden = without_links(around, "https://w.example/", lambda key: key == canonical_url(link_address(url)))
    assert "w.example" not in hidden


PATHS = st.text(alphabet="ab./:?#;(%~ ", max_size=10)


@given(page=PATHS, link=PATHS | PATHS.map(lambda path: "../" + path))
def test_the_resolver_says_what_resolve_says(page, link):
    for start in ("https://w.example/", "local://w/a/", "https://w.example/d/e/f?x/"):
        base = start + page
        expected = resolve(base, link)
        assert Resolver("", base)(link) == expected


@given(st.text(alphabet="ab<>/&;=\"' \t\n", max_size=80), st.sampled_from(["p", "h2", "pre", "li", "a", "ol"]))
def test_any_reduced_html_becomes_text_without_private_signs(inner, name):
    found = markdown(f"<{name}>{inner}</{name}>\n<ol>\n  <li>{inner}", lambda link: link)
    assert not set(found) & set("\ue000\ue001")
