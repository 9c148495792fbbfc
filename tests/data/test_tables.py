"""Files as people have them: formats, encodings, damage, other things under the same name."""

import datetime
import decimal
import gzip
import io
import json
import math
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from import_files import TALK
from made_files import save

from sanderling.core.errors import UserError
from sanderling.core.text import folded, normalised
from sanderling.data.dedupe import QA, question_groups
from sanderling.data.questions import Fields, answer_list, named_columns, text_list
from sanderling.data.tables import Unread, open_rows, question_rows

ROWS = [{"a": "1", "b": 'x, "y"\nz'}, {"a": "", "b": "灯\t\r塔\u2028"}]
ROW = {"question": "Où est-ce ?", "messages": TALK}
GOOD = json.dumps(ROW)
NAMES = ["t.csv", "t.tsv", "t.jsonl", "t.json", "t.parquet", "t.csv.gz"]


def rows_of(path: Path) -> list[Any]:
    return list(question_rows(path))


def told(path: Path) -> tuple[int, int]:
    """How many rows are there, and how many are unread."""
    found = list(open_rows(path))
    unread = [row.entries for row in found if isinstance(row, Unread)]
    return len(found) - len(unread), sum(unread)


@pytest.mark.parametrize("name", NAMES)
def test_each_format_gives_the_same_rows_whatever_its_name(name: str, tmp_path: Path) -> None:
    path = save(tmp_path / name, ROWS).rename(tmp_path / "data")
    assert [{key: value or "" for key, value in row.items()} for row in rows_of(path)] == ROWS


@given(st.lists(st.tuples(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")), st.text('ab, ";\t\r\n'))))
def test_cells_come_out_as_they_were_written(tmp_path_factory: pytest.TempPathFactory, cells: list[tuple[str, str]]) -> None:
    table = [{"a": f"x{a}", "b": b} for a, b in cells]
    if table:
        assert rows_of(save(tmp_path_factory.mktemp("c") / "t.csv", table)) == table


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"PK\x03\x04 and then nothing", "no workbook"),
        (b"a,b,a\n1,2,3\n", "two columns 'a'"),
        (b"", "no heading"),
        (b",,\n1,2,3\n", "no heading"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1\n", "git lfs pull"),
        (b"<!DOCTYPE html><html><title>Log in</title>", "log in"),
        (b"\n <html lang=en>", "log in"),
        (b"a\xff\0b", "not UTF-8"),
    ],
)
def test_what_is_no_table_is_said(data: bytes, said: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=said):
        rows_of(save(tmp_path / "t.csv", data))


@pytest.mark.parametrize("name", ["a.tar.gz", "a.jsonl.zip", "a.jsonl.lz4", "a.JSONL.BR"])
def test_what_is_packed_otherwise_is_named(tmp_path: Path, name: str) -> None:
    with pytest.raises(UserError, match=r"packed in a way that is not read .*unpack it; \.gz, \.bz2, \.xz, \.zst are read"):
        rows_of(save(tmp_path / name.lower(), b"x"))


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="Cannot read"):
        open_rows(tmp_path / "none.csv")


@pytest.mark.parametrize(
    ("text", "read", "unread"),
    [
        (f"\n\n  {GOOD}\r\n\r\n{GOOD}\r\n", 2, 0),
        (f"{GOOD}\n{GOOD[:50]}\n{GOOD}", 2, 1),
        (f'{GOOD}\n{{"question": {"[" * 5_000}{"]" * 5_000}}}\n', 1, 1),
        (json.dumps(TALK) + "\n" + json.dumps(TALK), 2, 0),
        (json.dumps(TALK, indent=1), 1, 0),
        (json.dumps([ROW, ROW], indent=1), 2, 0),
        (json.dumps([{"from": "nq", **ROW}] * 2), 2, 0),
        ("", 0, 0),
        ("7", 1, 0),
        ('{"a": "b\0c"}', 1, 0),
    ],
)
def test_json_of_any_shape(tmp_path: Path, text: str, read: int, unread: int) -> None:
    assert told(save(tmp_path / "a.json", text)) == (read, unread)


@pytest.mark.parametrize("text", [f"[{GOOD}, {GOOD[:90]}", f"{GOOD[:50]}\n{GOOD}", f"{GOOD}{GOOD}"])
def test_json_that_is_not_whole_is_refused_and_lines_are_read_on(tmp_path: Path, text: str) -> None:
    with pytest.raises(UserError, match="no whole JSON"):
        told(save(tmp_path / "a.json", text))
    assert told(save(tmp_path / "a.jsonl", f"{text}\n{GOOD}"))[0] >= 1


@pytest.mark.parametrize("whole", [True, False])
def test_packed_files_and_their_torn_ends(tmp_path: Path, whole: bool) -> None:
    data = gzip.compress("\n".join([GOOD] * 2_000).encode(), mtime=0)
    read, unread = told(save(tmp_path / "a.jsonl.packed", data if whole else data[:-60]))
    assert (read == 2_000) == whole and read > 0 and unread == (not whole)


@given(
    st.binary(max_size=60),
    st.sampled_from([b"", b'[{"question": "q"},', b'{"question": "q"}\n', b"PAR1", b"\x1f\x8b\x08\x00", b"\xff\xfe", b"a,b\n"]),
)
@settings(deadline=None)
def test_any_bytes_are_read_or_refused(tmp_path_factory: pytest.TempPathFactory, data: bytes, head: bytes) -> None:
    path = save(tmp_path_factory.mktemp("b") / "a.json", head + data)
    try:
        told(path)
    except UserError as error:
        assert str(path.parent) in str(error)


def parquet(rows: list[dict[str, Any]], group: int = 10) -> bytes:
    file = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(rows), file, row_group_size=group, compression="none")
    return file.getvalue()


def test_what_stands_behind_damage_in_parquet_is_unread(tmp_path: Path) -> None:
    data = bytearray(parquet([{**ROW, "number": n} for n in range(40)]))
    about = pq.ParquetFile(io.BytesIO(data)).metadata.row_group(1)
    for column in range(about.num_columns):
        start = about.column(column).dictionary_page_offset or about.column(column).data_page_offset
        data[start : start + 40] = b"\xff" * 40
    path = save(tmp_path / "a.parquet", bytes(data))
    assert told(path) == (10, 30)
    with pytest.raises(UserError, match="is damaged"):
        rows_of(path)


def test_parquet_values_that_json_has_not(tmp_path: Path) -> None:
    row = {
        "at": datetime.datetime(2026, 1, 2), "cost": decimal.Decimal("1.50"), "image": b"\xff\xfe", "q": b"why?",
        "gap": None,
    }  # fmt: skip
    path = save(tmp_path / "a.parquet", [row])
    assert rows_of(path) == [{"at": "2026-01-02T00:00:00", "cost": "1.50", "image": "<2 bytes>", "q": "why?", "gap": None}]
    assert list(question_rows(path, {"image", "at", "cost", "q"})) == [{"gap": None}]


def test_parquet_is_read_a_few_rows_at_a_time(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"a": [str(number) for number in range(14_267)]}), path)
    before, most, count = pa.total_allocated_bytes(), 0, 0
    for count, row in enumerate(question_rows(path)):
        assert row == {"a": str(count)}
        most = max(most, pa.total_allocated_bytes() - before)
    assert count == 14_266 and most < 4 << 20


# -- Cells, lists written as text, and columns by role ---------------------------------------------------------------------


@pytest.mark.parametrize("value", ["['a' 'b']", "['a'\n 'b']", "['a', ", "['a', __import__('os')]"])
def test_what_is_no_list_is_refused(value: str) -> None:
    with pytest.raises(ValueError):
        answer_list(value)


def test_lists_are_flattened_once() -> None:
    assert text_list([["a", "b"], ["a"], "c", None, math.nan]) == ("a", "b", "c")
    with pytest.raises(ValueError):
        text_list([[["a"]]])
    with pytest.raises(ValueError):
        text_list({"a": 1})
    assert answer_list("['a', \"b\"]") == ("a", "b") == answer_list('["a", "b"]') and answer_list("[1, 5]") == ("[1, 5]",)


def fields(values: dict[str, Any], columns: str = "") -> Fields:
    return Fields(1, values, named_columns(columns))


def test_names_are_found_in_any_case_and_depth() -> None:
    found = fields(
        {"Question": "q", "Info": {"Level": [{"name": "hard"}]}, "text": '{"inner": {"Deep": 7}}', "a.b": "dotted", "": "5"}
    )
    assert found.text("question", "question") == "q" and found.text("x", "info.level.0.name") == "hard"
    assert found.text("x", "text.inner.deep") == "7" and found.text("x", "a.b") == "dotted" and found.text("x", "") == "5"
    assert found.get("info.level.3.name", "info.none", "nowhere") is None and not found.has("nowhere")
    assert fields({"Answer": "1", "ANSWER": "2"}).get("answer") is None, "two of them: neither is meant"
    assert fields({"Answer": "1", "answer": "2"}).get("answer") == "2"


@pytest.mark.parametrize("text", ["question", "question=", "=a", "questoin=a", "question=a,question=b", "zzz=a"])
def test_bad_columns_are_one_sentence(text: str) -> None:
    with pytest.raises(UserError):
        named_columns(text)


# -- The normal form of questions: what is folded away, and what keeps two questions apart ---------------------------------

ODD = st.text(
    st.one_of(st.sampled_from("a5cC+#-−–.,'’/*^%$€ &;\u0301\u0327\u0338²½\u200b\u00ad京٥٫٬♯⁄\"(😀\u0345ŉﬁ"), st.characters()),
    max_size=14,
)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("1.5", "15"), ("1.5", "1 5"), ("1,5", "15"), (".5", "5"),
        ("-5", "5"), ("−5 °C", "5 °C"), ("-$5", "$5"), ("1.2.3", "123"),
        ("C++", "C"), ("C#", "C"), ("C++", "C#"), ("F♯", "F"),
        ("A+", "A"), ("5%", "5"), ("5‰", "5%"), ("$5", "5"), ("$5", "€5"),
        ("10²", "102"), ("10^2", "102"), ("1½", "11/2"),
        ("2+2", "22"), ("2+2", "2*2"), ("2/3", "2-3"), ("5'11", "511"),
        ("是-5", "是5"), ("20°", "20"), ("==", "==="), ("😀", "😭"),
        ("5 m", "5 km"), ("12:30", "1230"), ("٥", "٦"), ("👍🏽", "👍🏿"),
    ],
)  # fmt: skip
def test_what_makes_another_question(one: str, other: str) -> None:
    asked = [QA(f"What is {text} good for in this case?") for text in (one, other, one.upper())]
    assert normalised(asked[0].text) != normalised(asked[1].text)
    assert normalised(asked[0].text) == normalised(asked[2].text)
    assert question_groups([QA(one), QA(other)]) == [0, 1]


@settings(max_examples=500)
@example("C.\u0327")  # without the full stop the mark stands on its letter
@example("0:^¢")
@given(ODD)
def test_normalising_twice_changes_nothing_more(text: str) -> None:
    assert normalised(normalised(text)) == normalised(text)


@given(st.text(st.characters(max_codepoint=127)))
def test_the_quick_way_for_ascii_is_the_general_one(text: str) -> None:
    assert folded(text + "\u200b") == folded(text)


PLAIN = st.text("abcXYZ 0123456789.,-+#%/京", max_size=30)


@given(PLAIN, st.data())
def test_another_digit_is_another_question(text: str, data: st.DataObject) -> None:
    places = [place for place, char in enumerate(text) if char.isdigit()]
    if places:
        place = data.draw(st.sampled_from(places))
        other = data.draw(st.sampled_from([digit for digit in "0123456789" if digit != text[place]]))
        assert normalised(text[:place] + other + text[place + 1 :]) != normalised(text)


@given(PLAIN)
def test_dress_changes_nothing(text: str) -> None:
    wide = "".join(chr(ord(char) + 0xFEE0) if "!" <= char <= "~" else char for char in text)
    for same in (text.upper(), text.lower(), f" “{text}”?! ", text.replace(" ", "\u00a0 \t"), "\u200b".join(text), wide):
        assert normalised(same) == normalised(text)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("–5", "-5"), ("1,234,567.5", "1234567.5"), (".5", "0.5"),
        ("５ ％", "5%"), ("F♯", "F#"), ("C++17", "C++ 17"), ("٥", "5"),
        ("“Who”", "'who'"), ("AT&amp;T &lt;3", "AT&T <3"),
        ("&#67;&#x2B;+", "c++"), ("it\u00adem\u200b", "item"), ("e\u0301", "é"),
        ("❤️", "❤"), ("what’s", "what's"), ("1914–1918", "1914-1918"),
        ("\u200fשלום", "שלום"), ("H₂O", "H2O"), ("Who?!", "who"),
        ("１０２", "102"), ("A\tb\n c", "a b c"), ("كتـــاب", "كتاب"), ("10⁵", "10^5"),
    ],
)  # fmt: skip
def test_what_is_the_same_question_in_other_dress(one: str, other: str) -> None:
    assert normalised(f"Is it {one} or not") == normalised(f"is it {other} OR NOT")
