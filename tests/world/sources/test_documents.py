"""Documents of every kind as text: HTML, links, Markdown, plain text, PDF; no bytes break a reader."""

import gzip
import io
import random
import resource

import pyarrow as pa
import pyarrow.parquet as pq
import pypdf
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from source_makers import BODY, record, write_parquet

from sanderling.core.errors import UserError
from sanderling.world.addresses import canonical_url
from sanderling.world.contract import Page
from sanderling.world.cutting import find_links
from sanderling.world.filters import without_links
from sanderling.world.sources.archives import WarcSource
from sanderling.world.sources.base import Document, Limits, Reason, Skipped, link_address, markdown_link
from sanderling.world.sources.documents import Kind, read_document
from sanderling.world.sources.html import markdown
from sanderling.world.sources.records import JsonlSource, ParquetSource
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


# -- Sources that are one file: WARC, JSON lines, Parquet; cuts, damage, bombs, and what is no page ------------------------


# WARC


def warc(tmp_path, data: bytes, limits: Limits | None = None) -> list[Page | Skipped]:
    file = tmp_path / "crawl.warc.gz"
    file.write_bytes(data)
    return list(WarcSource(file, limits=limits or Limits()).items())


def kinds(found) -> list[str]:
    return [item.url if isinstance(item, Page) else f"{item.where} {item.reason}" for item in found]


@pytest.mark.parametrize("packed", [False, True])
def test_a_file_cut_anywhere_keeps_what_came_before(tmp_path, packed):
    records = [record(f"https://w.example/{i}", BODY + b"<p>%d</p>" % i) for i in range(3)]
    records = [gzip.compress(one) for one in records] if packed else records
    whole, ends = b"".join(records), [len(b"".join(records[:n])) for n in range(4)]
    full = warc(tmp_path, whole)
    for cut in range(ends[1] + 1, len(whole), 7):
        found = warc(tmp_path, whole[:cut])
        complete = max(n for n in range(4) if ends[n] <= cut)
        assert found[:complete] == full[:complete] and len(found) <= complete + 1
        if len(found) > complete and found[-1] != full[complete]:  # only the blank lines after a record may be missing
            assert isinstance(found[-1], Skipped) and found[-1].reason in (Reason.TRUNCATED, Reason.DAMAGED)


def test_a_bomb_is_not_unpacked(tmp_path):
    bomb = gzip.compress(b"<p>" + b"word " * 40_000_000)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    data = record("https://w.example/bomb", bomb, head="Content-Encoding: gzip\r\n") + record("https://w.example/a")
    assert kinds(warc(tmp_path, data, Limits(document_bytes=2**20))) == [
        "https://w.example/bomb too-large",
        "https://w.example/a",
    ]
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 60_000, "kilobytes"


# JSON lines


def jsonl(tmp_path, data: bytes) -> list[Page | Skipped]:
    file = tmp_path / "pages.jsonl"
    file.write_bytes(data)
    return list(JsonlSource(file).items())


@pytest.mark.parametrize("pack", [gzip.compress, lambda data: pa.compress(data, "zstd", asbytes=True)])
def test_a_cut_or_damaged_file_keeps_what_came_before(tmp_path, pack):
    rows = b"".join(b'{"url": "https://w.example/%d", "doc": "%s"}\n' % (i, str(hash(str(i))).encode()) for i in range(3_000))
    packed = pack(rows)
    assert len(jsonl(tmp_path, packed)) == 3_000
    cut = jsonl(tmp_path, packed[: len(packed) // 2])
    assert isinstance(cut[-1], Skipped) and cut[-1].reason in (Reason.TRUNCATED, Reason.DAMAGED)
    damaged = jsonl(tmp_path, packed[:2_000] + b"noise" * 100 + packed[3_000:])
    assert isinstance(damaged[-1], Skipped) and damaged[-1].reason is Reason.DAMAGED


@settings(max_examples=100)
@given(st.binary(max_size=300) | st.text(alphabet='{}[]":,urltexid0\n ', max_size=200).map(str.encode))
def test_no_bytes_break_it(tmp_path_factory, data):
    for item in jsonl(tmp_path_factory.getbasetemp(), data):
        assert isinstance(item, Page | Skipped)


def test_what_is_no_such_file_is_one_sentence(tmp_path):
    file = tmp_path / "a.parquet"
    for data in (b"", b"noise", write_parquet(tmp_path).read_bytes()[:-9]):
        file.write_bytes(data)
        with pytest.raises(UserError, match="no Parquet file"):
            ParquetSource(file)
    pq.write_table(pa.table({"x": [1]}), file)
    with pytest.raises(UserError, match="none of the columns"):
        ParquetSource(file)
    with pytest.raises(UserError, match="There is no file"):
        ParquetSource(tmp_path / "none")
