"""Sources that are one file: WARC, JSON lines, Parquet; cuts, damage, bombs, and what is no page."""

import gzip
import resource

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from source_makers import BODY, record, write_parquet

from sanderling.core.errors import UserError
from sanderling.world.contract import Page
from sanderling.world.sources.archives import WarcSource
from sanderling.world.sources.base import Limits, Reason, Skipped
from sanderling.world.sources.records import JsonlSource, ParquetSource

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
