"""JSON lines: the known layouts, lines that are no pages, cut and endless files."""

import gzip
import json

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sanderling.core.errors import UserError
from sanderling.world.contract import Page
from sanderling.world.sources.base import Limits, Reason, Skipped
from sanderling.world.sources.records import JsonlSource


def items(tmp_path, data: bytes, limits: Limits | None = None, name: str = "pages.jsonl") -> list[Page | Skipped]:
    file = tmp_path / name
    file.write_bytes(data)
    return list(JsonlSource(file, limits=limits or Limits()).items())


@pytest.mark.parametrize(
    ("record", "page"),
    [
        ({"url": "https://w.example/a_(b)", "title": "A", "doc": "words"}, ("https://w.example/a_(b)", "A", "words")),
        (
            {"id": "7", "text": "words", "metadata": {"url": "https://w.example/x", "title": "X"}},
            ("https://w.example/x", "X", "words"),
        ),
        ({"id": "7", "contents": '"A title"\nThe passage.'}, ("local://7", "A title", "The passage.")),
        ({"id": 7, "contents": "One line."}, ("local://7", "", "One line.")),
        ({"docid": "d7", "url": "https://w.example/o", "text": "words"}, ("https://w.example/o", "", "words")),
        ({"docid": "d7", "text": "words"}, ("local://d7", "", "words")),
        ({"id": "https://w.example/i", "text": "words", "metadata": {"title": "X"}}, ("https://w.example/i", "X", "words")),
        ({"link": "https://w.example/l", "title": "L", "content": "", "snippet": "s"}, ("https://w.example/l", "L", "s")),
        (
            {
                "docid": 7,
                "url": "https://w.example/o",
                "text": "---\ntitle: Of: it\nauthor: A\ndate: 2020\n---\nBody\n---\nmore",
            },
            ("https://w.example/o", "Of: it", "Body\n---\nmore"),
        ),
        ({"docid": "d7", "text": "---\nno head\n---\nwords"}, ("local://d7", "", "---\nno head\n---\nwords")),
    ],
)
def test_layouts(tmp_path, record, page):
    (found,) = items(tmp_path, json.dumps(record).encode())
    assert isinstance(found, Page)
    assert (found.url, found.title, found.text) == page


def test_lines_that_are_no_pages_are_told_and_the_rest_is_read(tmp_path):
    good = b'{"url": "u", "text": "words"}\n'
    lines = [b"{", b"[]", b"7", b'{"url": 7, "text": []}', b'{"text": "no address"}', b"\xff\xfe", b"[" * 100_000]
    data = good + b"\n".join(lines) + b'\n\n{"url": " ", "text": "x"}\n{"url": "e", "text": " "}\n' + good
    found = items(tmp_path, data)
    assert [item.reason for item in found if isinstance(item, Skipped)] == [Reason.NOT_A_PAGE] * len(lines) + [
        Reason.NO_URL,
        Reason.EMPTY,
    ]
    assert isinstance(found[0], Page) and isinstance(found[-1], Page)
    assert found[1] == Skipped("line 2", Reason.NOT_A_PAGE)


def test_what_is_odd_beside_the_words_costs_no_page(tmp_path):
    records = [
        {"url": "https://w.example/a", "text": "words", "links": ["https://w.example/b", {"href": "c"}, None]},
        {"url": "https://w.example/b", "text": "words", "title": 1984},
    ]
    data = b"\xef\xbb\xbf" + "\n".join(map(json.dumps, records)).encode()
    first, second = items(tmp_path, data)
    assert isinstance(first, Page) and first.links == ("https://w.example/b",)
    assert isinstance(second, Page) and second.title == "1984"


def test_a_line_past_the_limit_is_not_held(tmp_path):
    long = b'{"url": "u", "text": "' + b"x" * 5_000 + b'"}\n'
    exact = b'{"url": "u", "text": "' + b"x" * (1_000 - 25) + b'"}\n'
    found = items(tmp_path, long + exact + long + b'{"url": "v", "text": "w"}', Limits(document_bytes=len(exact)))
    assert [item.url if isinstance(item, Page) else item.reason for item in found] == [
        Reason.TOO_LARGE,
        "u",
        Reason.TOO_LARGE,
        "v",
    ]


def test_a_cut_or_damaged_gzip_file_keeps_what_came_before(tmp_path):
    rows = b"".join(b'{"url": "https://w.example/%d", "text": "%s"}\n' % (i, str(hash(str(i))).encode()) for i in range(3_000))
    packed = gzip.compress(rows)
    assert len(items(tmp_path, packed, name="a.jsonl.gz")) == 3_000
    cut = items(tmp_path, packed[: len(packed) // 2], name="b.jsonl.gz")
    assert isinstance(cut[0], Page) and len(cut) > 1_000
    assert isinstance(cut[-1], Skipped) and cut[-1].reason is Reason.TRUNCATED
    damaged = items(tmp_path, packed + b"trailing noise", name="c.jsonl.gz")
    assert len(damaged) == 3_001
    assert isinstance(damaged[-1], Skipped) and damaged[-1].reason is Reason.DAMAGED


def test_zstd_as_literesearchers_corpus(tmp_path):
    rows = b"".join(b'{"url": "https://w.example/%d", "title": "T", "doc": "%d"}\n' % (i, i * 7_919) for i in range(3_000))
    packed = pa.compress(rows, "zstd", asbytes=True)
    assert len(items(tmp_path, packed, name="a.jsonl.zst")) == 3_000
    cut = items(tmp_path, packed[: len(packed) // 2], name="b.jsonl.zst")
    assert isinstance(cut[-1], Skipped) and cut[-1].reason in (Reason.TRUNCATED, Reason.DAMAGED)
    damaged = items(tmp_path, packed[:2_000] + b"noise" * 100 + packed[3_000:], name="c.jsonl.zst")
    assert isinstance(damaged[-1], Skipped) and damaged[-1].reason is Reason.DAMAGED


def test_no_file(tmp_path):
    with pytest.raises(UserError, match="There is no file"):
        JsonlSource(tmp_path / "none.jsonl")


@settings(max_examples=100)
@given(st.binary(max_size=300) | st.text(alphabet='{}[]":,urltexid0\n ', max_size=200).map(str.encode))
def test_no_bytes_break_it(tmp_path_factory, data):
    for item in items(tmp_path_factory.getbasetemp(), data):
        assert isinstance(item, Page | Skipped)
