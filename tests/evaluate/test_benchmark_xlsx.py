"""Workbooks as spreadsheet programs write them, and archives that are none."""

import zipfile
from pathlib import Path

import pytest
from benchmark_files import write_workbook

from sanderling.core.errors import UserError
from sanderling.evaluate.benchmarks import xlsx
from sanderling.evaluate.benchmarks.xlsx import sheet_rows


def rows_of(path: Path) -> list[list[str | None]]:
    return list(sheet_rows(path))


def test_shared_texts_and_gaps(tmp_path: Path) -> None:
    table = [["Topic", "Question", "Answer"], ["艺术", "", "a & <b>"], ["艺术", "x\ny", ""]]
    assert rows_of(write_workbook(tmp_path / "t.xlsx", table)) == [table[0], ["艺术", None, "a & <b>"], ["艺术", "x\ny", None]]


@pytest.mark.parametrize(
    ("cell", "value"),
    [
        ('<c r="B2" t="inlineStr"><is><t>in line</t></is></c>', "in line"),
        ('<c r="B2" t="inlineStr"><is><r><t>in </t></r><r><t>parts</t></r><rPh><t>aloud</t></rPh></is></c>', "in parts"),
        ('<c r="B2" t="str"><f>A1</f><v>computed</v></c>', "computed"),
        ('<c r="B2"><f>1+1</f><v>2</v></c>', "2"),
        ('<c r="B2"><f>1+1</f></c>', None),
        ('<c r="B2" t="e"><v>#REF!</v></c>', None),
        ('<c r="B2" t="str"><v>a_x000D_b</v></c>', "a\rb"),
    ],
)
def test_kinds_of_cells(cell: str, value: str | None, tmp_path: Path) -> None:
    assert rows_of(write_workbook(tmp_path / "t.xlsx", [["A", "B"]], cells=cell))[1] == [None, value]


def test_cells_without_a_place_follow_each_other(tmp_path: Path) -> None:
    cells = '<c t="str"><v>a</v></c><c t="str"><v>b</v></c><c r="D2" t="str"><v>d</v></c>'
    assert rows_of(write_workbook(tmp_path / "t.xlsx", [["A", "B", "C", "D"]], cells=cells))[1] == ["a", "b", None, "d"]


@pytest.mark.parametrize(
    "cells", ['<c r="B2" t="s"><v>99</v></c>', '<c r="B2" t="s"><v>-1</v></c>', '<c r="ZZZ2"/>', '<c r="B2"/><c r="A2"/>']
)
def test_broken_sheets_are_refused(cells: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no workbook"):
        rows_of(write_workbook(tmp_path / "t.xlsx", [["A", "B"]], cells=cells))


def test_what_is_no_workbook(tmp_path: Path) -> None:
    path = tmp_path / "t.xlsx"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("questions.csv", "a,b\n")
    with pytest.raises(UserError, match="unpack it"):
        rows_of(path)
    path.write_bytes(b"PK\x03\x04 and then nothing")
    with pytest.raises(UserError, match="no workbook"):
        rows_of(path)


def test_an_archive_that_grows_is_not_unpacked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(xlsx, "_MOST_BYTES", 50_000)
    path = write_workbook(tmp_path / "t.xlsx", [["A"], ["x" * 100_000]])
    assert path.stat().st_size < 5_000
    with pytest.raises(UserError, match="512 MiB"):
        rows_of(path)


def test_an_archive_that_lies_about_its_size_is_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(xlsx, "_MOST_BYTES", 50_000)
    path = write_workbook(tmp_path / "t.xlsx", [["A"], ["x" * 100_000]])
    real = zipfile.ZipFile.infolist

    def small(archive: zipfile.ZipFile) -> list[zipfile.ZipInfo]:
        return [part for part in real(archive) if part.file_size < 5_000]

    monkeypatch.setattr(zipfile.ZipFile, "infolist", small)
    with pytest.raises(UserError, match="512 MiB"):
        rows_of(path)
