"""Markdown and plain text files."""

from hypothesis import given, settings
from hypothesis import strategies as st

from sanderling.world.sources.base import Document, Limits, Reason
from sanderling.world.sources.documents import read_markdown

URL = "local://notes/sub/page.md"


def read(text: str, **options) -> Document:
    found = read_markdown(text.encode(), URL, Limits(), **options)
    assert isinstance(found, Document), found
    return found


def test_a_note():
    page = read(
        "---\ntitle: 'Of Orlo'\ndate: 2020-03-01\ntags: [a]\n---\n# Orlo\n\nA [town](../Orlo_(town).md#top) by the"
        " ![pic](p.png) sea, see https://w.example/x(1). and [ref][1].\n\n[1]: http://o.example/y\n"
    )
    assert (page.title, page.date) == ("Of Orlo", "2020-03-01")
    assert page.text.startswith("# Orlo")
    assert page.links == ("local://notes/Orlo_(town).md", "https://w.example/x(1)", "http://o.example/y")


def test_titles_from_headings():
    assert read("## A [linked](x) *title* ##\n\nwords").title.startswith("A linked")
    page = read("Under lined\n===========\n\nPart\n----\nwords")
    assert page.title == "Under lined"
    assert page.text.splitlines()[0] == "# Under lined" and "## Part" in page.text


def test_code_is_as_it_was_written():
    code = "```sh\n# install\nfoo\n---\n[x]: http://y.example\n```"
    page = read(f"{code}\n\n# Of [x] and `# y`\n\nwords")
    assert (page.title, page.links) == ("Of [x] and # y", ())
    assert page.text == f"{code}\n\n# Of [x] and `# y`\n\nwords"


def test_plain_text_has_no_headings():
    page = read("# just a line\nmore", marked=False)
    assert (page.title, page.text) == ("", "# just a line\nmore")


def test_reasons():
    limits = Limits(document_bytes=100)
    assert read_markdown(b"", URL, limits) is Reason.EMPTY
    assert read_markdown(b"---\ntitle: x\n---\n", URL, limits) is Reason.EMPTY
    assert read_markdown(b"x" * 101, URL, limits) is Reason.TOO_LARGE
    assert read_markdown(b"\x01\x02\x03" * 30, URL, limits) is Reason.NOT_TEXT


def test_a_megabyte_of_marks_is_read_in_time_that_grows_evenly():
    marks = ["[" * 1_000_000, "# a" + " #" * 500_000, "(" * 1_000_000, " " * 1_000_000 + "x", "https://" * 120_000]
    marks += ["`" * 1_000_000, "~~~\n" * 250_000, "[a](" * 250_000]
    for text in marks:
        assert isinstance(read(text), Document)


@settings(max_examples=150)
@given(
    st.binary(max_size=300)
    | st.text(alphabet="-#[]()<>: =\n\x00ab\ud800", max_size=300).map(lambda text: text.encode("utf-8", "surrogatepass"))
)
def test_no_bytes_break_it(data):
    assert isinstance(read_markdown(data, URL, Limits()), Document | Reason)
