"""WARC files that the tests write by hand: kinds of records, packing, cuts, bombs."""

import gzip
import resource

import pytest
from source_makers import BODY, block, record

from sanderling.core.errors import UserError
from sanderling.world.contract import Page
from sanderling.world.sources.base import Limits, Reason, Skipped
from sanderling.world.sources.warc import WarcSource


def items(tmp_path, data: bytes, limits: Limits | None = None) -> list[Page | Skipped]:
    file = tmp_path / "crawl.warc.gz"
    file.write_bytes(data)
    return list(WarcSource(file, limits=limits or Limits()).items())


def kinds(found) -> list[str]:
    return [item.url if isinstance(item, Page) else f"{item.where} {item.reason}" for item in found]


def chunked(body: bytes) -> bytes:
    return b"".join(b"%x\r\n%s\r\n" % (len(body[i : i + 9]), body[i : i + 9]) for i in range(0, len(body), 9)) + b"0\r\n\r\n"


def test_records_of_every_kind(tmp_path):
    records = [
        block("", b"software: x", "warcinfo", "application/warc-fields"),
        record("https://w.example/a_(b)"),
        record("https://w.example/z", gzip.compress(BODY), head="Content-Encoding: gzip\r\n"),
        record("https://w.example/c", chunked(BODY), head="Transfer-Encoding: chunked\r\n"),
        record("https://w.example/t", b"Plain words.", "text/plain; charset=utf-8"),
        record("https://w.example/l", "<p>café</p>".encode("latin-1"), "text/html; charset=ISO-8859-1"),
        block("https://w.example/r", b"Raw words.", "resource", "text/plain"),
        block("https://w.example/w", b"Words of a page.", "conversion", "text/plain"),
        record("https://w.example/i.png", b"\x89PNG", "image/png"),
        record("https://w.example/m", b"", head="Location: /a\r\n", status="301 Moved"),
        record("https://w.example/n", status="404 Not Found"),
        record("https://w.example/e", b""),
        record("https://w.example/d", b"\x1f\x8bnot gzip", head="Content-Encoding: gzip\r\n"),
        record("https://w.example/q", kind="request"),
    ]
    expected = [
        *(f"https://w.example/{name}" for name in ("a_(b)", "z", "c", "t", "l", "r", "w")),
        "https://w.example/i.png other-kind",
        "https://w.example/m redirect",
        "https://w.example/n not-ok",
        "https://w.example/e empty",
        "https://w.example/d damaged",
    ]
    plain = items(tmp_path, b"".join(records))
    assert kinds(plain) == expected
    assert items(tmp_path, b"".join(gzip.compress(one) for one in records)) == plain
    first, packed, parts, *_ = (item for item in plain if isinstance(item, Page))
    assert (first.title, first.links) == ("Orlo", ("https://w.example/x",))
    assert "known for its herring" in first.text
    assert packed.text == parts.text == first.text
    assert next(item.text for item in plain if isinstance(item, Page) and item.url.endswith("/l")) == "café"


def test_answers_that_were_unpacked_before_are_read_as_they_are(tmp_path):
    records = [
        record("https://w.example/g", head="Content-Encoding: gzip\r\n"),
        record("https://w.example/c", head="Transfer-Encoding: chunked\r\n"),
        record("https://w.example/b", head="Transfer-Encoding: chunked\r\nContent-Encoding: x-gzip\r\n"),
        record(
            "https://w.example/p", chunked(gzip.compress(BODY)), head="Transfer-Encoding: chunked\r\nContent-Encoding: gzip\r\n"
        ),
    ]
    found = items(tmp_path, b"".join(records))
    assert [isinstance(one, Page) and one.title for one in found] == ["Orlo"] * 4
    assert len({one.text for one in found if isinstance(one, Page)}) == 1


def test_a_canonical_address_is_believed_only_about_the_query(tmp_path):
    own = b"<link rel=canonical href='https://w.example/a'><p>Words.</p>"
    found = items(tmp_path, record("https://w.example/a?utm=1", own) + record("https://w.example/b", own))
    assert kinds(found) == ["https://w.example/a", "https://w.example/b"]


@pytest.mark.parametrize("packed", [False, True])
def test_a_file_cut_anywhere_keeps_what_came_before(tmp_path, packed):
    records = [record(f"https://w.example/{i}", BODY + b"<p>%d</p>" % i) for i in range(3)]
    records = [gzip.compress(one) for one in records] if packed else records
    whole = b"".join(records)
    full = items(tmp_path, whole)
    ends = [len(b"".join(records[:n])) for n in range(4)]
    for cut in range(ends[1] + 1, len(whole), 7):
        found = items(tmp_path, whole[:cut])
        complete = max(n for n in range(4) if ends[n] <= cut)
        assert found[:complete] == full[:complete]
        assert len(found) <= complete + 1
        if len(found) > complete and found[-1] != full[complete]:  # only the blank lines after a record may be missing
            assert isinstance(found[-1], Skipped)
            assert found[-1].reason in (Reason.TRUNCATED, Reason.DAMAGED)


def test_a_bomb_is_not_unpacked(tmp_path):
    bomb = gzip.compress(b"<p>" + b"word " * 40_000_000)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    data = record("https://w.example/bomb", bomb, head="Content-Encoding: gzip\r\n") + record("https://w.example/a")
    assert kinds(items(tmp_path, data, Limits(document_bytes=2**20))) == [
        "https://w.example/bomb too-large",
        "https://w.example/a",
    ]
    outer = gzip.compress(record("https://w.example/bomb", b"word " * 2_000_000)) + gzip.compress(record("https://w.example/a"))
    assert kinds(items(tmp_path, outer, Limits(document_bytes=2**20))) == [
        "https://w.example/bomb too-large",
        "https://w.example/a",
    ]
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 60_000, "kilobytes"


@pytest.mark.parametrize(
    "data", [b"", b"hello " * 100, b"WARC/1.0\r\n\r\n", b"WARC/1.0\r\nContent-Length: zz\r\n\r\n\x00", b"\x1f\x8b\x08"]
)
def test_noise_is_a_reason_or_nothing(tmp_path, data):
    assert all(isinstance(item, Skipped) for item in items(tmp_path, data))


def test_no_file(tmp_path):
    with pytest.raises(UserError, match="There is no file"):
        WarcSource(tmp_path / "none.warc")
