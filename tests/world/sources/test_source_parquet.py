"""Parquet files in the layout of OpenResearcher's corpus; rows that are no pages, damage, bounds."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from source_makers import write_parquet

from sanderling.core.errors import UserError
from sanderling.world.contract import Page
from sanderling.world.sources.base import Limits, Reason, Skipped
from sanderling.world.sources.kinds import kind_of
from sanderling.world.sources.records import ParquetSource


def test_rows_with_a_head_are_pages(tmp_path):
    file = write_parquet(tmp_path)
    first, *_ = ParquetSource(file).items()
    assert isinstance(first, Page)
    assert (first.url, first.title, first.date, first.text) == ("https://w.example/0", "T0", "2020-01-02", "Words of 0.")
    file.rename(tmp_path / "odd-name")
    assert kind_of(tmp_path / "odd-name") == "parquet"


def test_rows_that_are_no_pages(tmp_path):
    rows = {"docid": ["1", None, "3", "4"], "url": ["u", "v", None, " "], "text": ["x" * 500, None, "words", "w"]}
    pq.write_table(pa.table(rows | {"picture": [b"x" * 900] * 4}), tmp_path / "a.parquet")
    found = list(ParquetSource(tmp_path / "a.parquet", limits=Limits(document_bytes=300)).items())
    assert found[0] == Skipped("row 1", Reason.TOO_LARGE)
    assert found[1] == Skipped("row 2", Reason.NOT_A_PAGE)
    assert isinstance(found[2], Page) and found[2].url == "local://3"
    assert found[3] == Skipped("row 4", Reason.NO_URL)


def test_damaged_rows_are_counted(tmp_path):
    file = write_parquet(tmp_path)
    data = bytearray(file.read_bytes())
    data[200:400] = b"\xff" * 200
    file.write_bytes(data)
    source = ParquetSource(file)
    found = list(source.items())
    assert len(found) == source.total()
    assert any(isinstance(item, Skipped) and item.reason is Reason.DAMAGED for item in found)
    for skip in range(len(found)):
        assert list(source.items(skip)) == found[skip:]


def test_what_is_no_parquet_file_is_one_sentence(tmp_path):
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
