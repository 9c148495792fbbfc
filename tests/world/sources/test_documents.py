"""Documents of every kind as text: HTML, links, Markdown, plain text, PDF; no bytes break a reader."""

import io
import random

import pypdf
from hypothesis import given, settings
from hypothesis import strategies as st

from sanderling.world.addresses import canonical_url
from sanderling.world.cutting import find_links
from sanderling.world.filters import without_links
from sanderling.world.sources.base import Document, Limits, Reason, link_address, markdown_link
from sanderling.world.sources.documents import Kind, read_document
from sanderling.world.sources.html import markdown
from sanderling.world.text import plain

# HTML

URL = "https://w.example/docs/a/page.html"
LIMITS = Limits()


@settings(max_examples=150)
@given(
    st.binary(max_size=400)
    | st.text(alphabet='<>/ab "=&;#-[]():hrefdivpre\x00\ud800é\n', max_size=300).map(
        lambda text: text.encode("utf-8", "surrogatepass")
    )
)
def test_no_bytes_break_html_or_markdown(data):
    found = read_document(Kind.HTML, b"<a href='" + data + b"'>" + data, URL, LIMITS)
    assert isinstance(found, Document | Reason)
    if isinstance(found, Document):
        found.text.encode()
    assert isinstance(read_document(Kind.MARKDOWN, data, URL, LIMITS), Document | Reason)


def test_powers_keep_their_sign_and_footnotes_their_words():
    page = "<p>From -2<sup>31</sup> to 10<SUP class=x> -6 </SUP> in m<sup>2</sup>, (a+b)<sup>n</sup>, see<sup>3</sup> there."
    found = read_document(Kind.HTML, page.encode(), URL, LIMITS)
    assert isinstance(found, Document)
    assert found.text == "From -2^31 to 10^-6 in m^2, (a+b)^n, see3 there."


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


@given(st.text(alphabet="ab<>/&;=\"' \t\n", max_size=80), st.sampled_from(["p", "h2", "pre", "li", "a", "ol"]))
def test_any_reduced_html_becomes_text_without_private_signs(inner, name):
    found = markdown(f"<{name}>{inner}</{name}>\n<ol>\n  <li>{inner}", lambda link: link)
    assert not set(found) & set("\ue000\ue001")


# Markdown

NOTE = "local://notes/sub/page.md"


def note(text: str) -> Document:
    found = read_document(Kind.MARKDOWN, text.encode(), NOTE, LIMITS)
    assert isinstance(found, Document), found
    return found


def test_a_megabyte_of_marks_is_read_in_time_that_grows_evenly():
    marks = ["[" * 1_000_000, "# a" + " #" * 500_000, "(" * 1_000_000, " " * 1_000_000 + "x", "https://" * 120_000]
    marks += ["`" * 1_000_000, "~~~\n" * 250_000, "[a](" * 250_000]
    for text in marks:
        assert isinstance(note(text), Document)


# PDF


def written(texts: list[str], password: str | None = None, owner: str | None = None) -> bytes:
    """A PDF with one line on each page."""
    writer = pypdf.PdfWriter()
    name, table = pypdf.generic.NameObject, pypdf.generic.DictionaryObject
    font = table({name("/Type"): name("/Font"), name("/Subtype"): name("/Type1"), name("/BaseFont"): name("/Helvetica")})
    fonts = table({name("/F1"): writer._add_object(font)})
    for text in texts:
        page = writer.add_blank_page(600, 200)
        page[name("/Resources")] = table({name("/Font"): fonts})
        stream = pypdf.generic.StreamObject()
        stream.set_data(f"BT /F1 12 Tf 20 100 Td ({text}) Tj ET".encode())
        page[name("/Contents")] = writer._add_object(stream)
    writer.add_metadata({"/Title": "Of herring", "/CreationDate": "D:20200301120000Z"})
    if password is not None:
        writer.encrypt(password, owner)
    held = io.BytesIO()
    writer.write(held)
    return held.getvalue()


def test_encrypted():
    assert read_document(Kind.PDF, written(["Secret"], "word"), "", Limits()) is Reason.ENCRYPTED
    opened = read_document(Kind.PDF, written(["Not printed, but read."], "", "owner"), "", Limits())
    assert isinstance(opened, Document) and "Not printed" in opened.text


def test_damage_anywhere_is_a_reason_or_a_text():
    whole = written(["First page.", "Second page."])
    rng = random.Random(0)
    seen = set()
    for _ in range(150):
        data = bytearray(whole[: rng.randrange(len(whole) // 2, len(whole))] if rng.random() < 0.5 else whole)
        for _ in range(rng.randrange(1, 12)):
            data[rng.randrange(len(data))] = rng.randrange(256)
        found = read_document(Kind.PDF, bytes(data), "", Limits())
        assert isinstance(found, Document | Reason)
        seen.add(type(found))
    assert seen == {Document, Reason}
