"""Files as people have them: encodings, damage, other formats under the same name."""

import gzip
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from benchmark_files import write_rows
from hypothesis import given
from hypothesis import strategies as st

from sanderling.core.errors import UserError
from sanderling.evaluate.benchmarks.rows import Broken, read_rows

ROWS = [{"a": "1", "b": 'x, "y"\nz'}, {"a": "", "b": "灯\t\r塔\u2028"}]


def rows_of(path: Path) -> list[Any]:
    return list(read_rows(path))


@pytest.mark.parametrize("name", ["t.csv", "t.tsv", "t.jsonl", "t.json", "t.parquet", "t.xlsx", "t.csv.gz", "t.json.gz"])
def test_each_format_gives_the_same_rows_whatever_its_name(name: str, tmp_path: Path) -> None:
    path = write_rows(tmp_path / name, ROWS)
    path = path.rename(tmp_path / "data")
    assert [{key: value or "" for key, value in row.items()} for row in rows_of(path)] == ROWS


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-16-le", "utf-32"])
@pytest.mark.parametrize("name", ["t.csv", "t.jsonl"])
def test_encodings_with_a_mark_are_read(name: str, encoding: str, tmp_path: Path) -> None:
    path = write_rows(tmp_path / name, [{"a": "1", "b": "lamp"}, {"a": "2", "b": "灯塔"}])
    path.write_bytes(path.read_text("utf-8").encode(encoding))
    assert rows_of(path) == [{"a": "1", "b": "lamp"}, {"a": "2", "b": "灯塔"}]


def test_other_encodings_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes("question,answer\nWho was Müller?,x\n".encode("latin-1"))
    with pytest.raises(UserError, match="not UTF-8"):
        rows_of(path)


@given(st.lists(st.tuples(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")), st.text('ab, ";\t\r\n'))))
def test_cells_come_out_as_they_were_written(cells: list[tuple[str, str]]) -> None:
    import tempfile

    table = [{"a": f"x{a}", "b": b} for a, b in cells]
    if not table:
        return
    with tempfile.TemporaryDirectory() as folder:
        assert rows_of(write_rows(Path(folder) / "t.csv", table, quoting=1)) == table


def test_long_cells(tmp_path: Path) -> None:
    long = "lamp " * 100_000
    assert rows_of(write_rows(tmp_path / "t.csv", [{"a": long, "b": "1"}]))[0]["a"] == long


def test_a_semicolon_may_part_columns(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("question;answer\nWhich, then?;this\n")
    assert rows_of(path) == [{"question": "Which, then?", "answer": "this"}]


def test_bad_rows_of_a_table_cost_themselves(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text('a,b\n1,2\n\n3\n4,5,6\n"x"y,1\n7,8\n"open,9\n')
    found = rows_of(path)
    assert [row for row in found if isinstance(row, dict)] == [{"a": "1", "b": "2"}, {"a": "7", "b": "8"}]
    assert [isinstance(row, Broken) for row in found] == [False, True, True, True, False, True]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a,b,a\n1,2,3\n", "two columns 'a'"),
        ("", "no heading"),
        (",,\n1,2,3\n", "no heading"),
        ("version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1\n", "git lfs pull"),
        ("<!DOCTYPE html><html><title>Log in</title>", "log in"),
        ("\n <html lang=en>", "log in"),
        ("a\0\0\0b", "no table"),
        ("%PDF-1.7 x", "no table"),
    ],
)
def test_what_is_no_table_is_said(text: str, said: str, tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text(text)
    with pytest.raises(UserError, match=said):
        rows_of(path)


def test_bad_lines_of_json_cost_themselves(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    path.write_text('{"a": 1}\n{"a": \n\n[1]\n"text"\n{"a": NaN}\n')
    found = rows_of(path)
    assert found[0] == {"a": 1} and [isinstance(one, Broken) for one in found] == [False, True, True, True, False]


def test_an_object_that_holds_the_list(tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    for indent in (None, 2):
        path.write_text(json.dumps({"Version": 1, "Data": [{"a": 1}, {"a": 2}, 3]}, indent=indent))
        assert rows_of(path)[:2] == [{"a": 1}, {"a": 2}] and isinstance(rows_of(path)[2], Broken)
    path.write_text('{"data": [{"x": 1}], "question": "q1"}\n{"data": [], "question": "q2"}\n')
    assert [row["question"] for row in rows_of(path)] == ["q1", "q2"], "several objects are the rows themselves"


def test_cut_files_are_said(tmp_path: Path) -> None:
    packed = tmp_path / "t.csv.gz"
    packed.write_bytes(gzip.compress(("a,b\n" + "1,2\n" * 50_000).encode())[:-40])
    listed = tmp_path / "t.json"
    listed.write_text('[{"a": 1},\n{"a": 2},\n')
    table = write_rows(tmp_path / "t.parquet", ROWS)
    table.write_bytes(table.read_bytes()[:-9])
    for path in (packed, listed, table):
        with pytest.raises(UserError, match="again"):
            rows_of(path)


def test_columns_of_parquet_are_left_unread(tmp_path: Path) -> None:
    path = write_rows(tmp_path / "t.parquet", [{"a": "1", "big": [{"text": "t"}]}])
    assert list(read_rows(path, {"big"})) == [{"a": "1"}]


def test_parquet_is_read_a_few_rows_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"a": [str(number) for number in range(14_267)]}), path)
    before = pa.total_allocated_bytes()
    most = 0
    for count, row in enumerate(read_rows(path)):
        assert row == {"a": str(count)}
        most = max(most, pa.total_allocated_bytes() - before)
    assert count == 14_266 and most < 4 << 20


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="Cannot read"):
        rows_of(tmp_path / "none.csv")
