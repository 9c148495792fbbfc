"""GAIA's layouts, with questions made up here: levels, attached files, hidden answers."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sanderling.core.errors import UserError
from sanderling.evaluate.benchmarks.contract import Options
from sanderling.evaluate.benchmarks.registry import get_benchmark
from sanderling.evaluate.benchmarks.unread import Unread, UnreadWhy


def gaia_row(number: int, **changed: Any) -> dict[str, Any]:
    row = {
        "task_id": f"made-up-{number}",
        "Question": f"How many lamps hang in hall {number}?",
        "Level": str(number % 3 + 1),
        "Final answer": str(number),
        "file_name": "",
        "file_path": "",
        "Annotator Metadata": {"Steps": "count them", "Number of steps": "1"},
    }
    return {**row, **changed}


def write_lines(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def test_json_lines(tmp_path: Path) -> None:
    rows = [gaia_row(1), gaia_row(2, file_name="sheet.xlsx"), gaia_row(3, Level=1)]
    loaded = get_benchmark("gaia").load(write_lines(tmp_path / "metadata.jsonl", rows))
    assert [question.id for question in loaded.questions] == ["gaia/made-up-1", "gaia/made-up-3"]
    first = loaded.questions[0]
    assert first.text == "How many lamps hang in hall 1?" and first.answers == ("1",)
    assert first.meta == {"benchmark": "gaia", "split": "validation", "level": "2", "topics": [], "line": 1, "private": True}
    assert loaded.questions[1].meta["level"] == "1" and loaded.questions[1].meta["line"] == 3
    assert loaded.unread == {UnreadWhy.NEEDS_FILE: 1}
    assert loaded.examples == (Unread(2, UnreadWhy.NEEDS_FILE, "sheet.xlsx"),)
    assert (loaded.rows, loaded.expected, loaded.private, loaded.broken) == (3, 165, True, 0)


def test_files_are_kept_where_they_are_asked_for(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "metadata.jsonl", [gaia_row(1, file_name="sheet.xlsx")])
    with pytest.raises(UserError, match="1 about an attached file"):
        get_benchmark("gaia").load(path)
    loaded = get_benchmark("gaia").load(path, Options(with_attachments=True))
    assert loaded.questions[0].meta["file_name"] == "sheet.xlsx" and not loaded.unread


@pytest.mark.parametrize("level", [1, "1", 1.0])
def test_parquet_in_the_folder_of_the_hub(tmp_path: Path, level: object) -> None:
    folder = tmp_path / "2023" / "validation"
    folder.mkdir(parents=True)
    rows = [gaia_row(number, Level=level, file_name=None) for number in range(3)]
    pq.write_table(pa.Table.from_pylist(rows), folder / "metadata.parquet")
    pq.write_table(pa.Table.from_pylist(rows[:1]), folder / "metadata.level1.parquet")
    loaded = get_benchmark("gaia").load(tmp_path)
    assert len(loaded.questions) == 3 and loaded.split == "validation"
    assert {question.meta["level"] for question in loaded.questions} == {"1"}


def test_hidden_answers_are_no_answers(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "2023" / "test" / "metadata.jsonl", [gaia_row(1, **{"Final answer": "?"}), gaia_row(2)])
    for loaded in (get_benchmark("gaia").load(path), get_benchmark("gaia").load(tmp_path, Options(split="test"))):
        assert loaded.split == "test" and loaded.expected == 300
        assert [question.answers for question in loaded.questions] == [(), ("2",)] and loaded.without_answer == 1


@pytest.mark.parametrize("answer_column", ["answer", "Final answer"])
def test_the_103_of_both_layouts(tmp_path: Path, answer_column: str) -> None:
    rows = []
    for number in range(103):
        row = gaia_row(number, Level=number % 3 + 1, id=number, file_name="kept.pdf" if number == 5 else "")
        row[answer_column] = row.pop("Final answer")
        rows.append(row)
    path = tmp_path / "dev.json"
    path.write_text(json.dumps(rows, indent=2), encoding="utf-8")
    loaded = get_benchmark("gaia-text-103").load(path)
    assert len(loaded.questions) == loaded.expected == 103 and not loaded.unread
    assert loaded.questions[7].id == "gaia-text-103/made-up-7"


@pytest.mark.parametrize("answer", ["None", "N/A", "0", "nan", "1,000", "[1, 5]"])
def test_odd_answers_are_taken_as_they_stand(tmp_path: Path, answer: str) -> None:
    path = write_lines(tmp_path / "metadata.jsonl", [gaia_row(1, **{"Final answer": answer})])
    assert get_benchmark("gaia").load(path).questions[0].answers == (answer,)


def test_another_file_is_told_by_its_columns(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "other.jsonl", [{"prompt": "Which?", "gold": "this"}])
    with pytest.raises(UserError, match=r"no column 'Question' for the question \(found: 'prompt', 'gold'\)"):
        get_benchmark("gaia").load(path)


def test_an_id_counts_once(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "metadata.jsonl", [gaia_row(1), gaia_row(1), gaia_row(2, Question=gaia_row(1)["Question"])])
    loaded = get_benchmark("gaia").load(path)
    assert len(loaded.questions) == 2 and loaded.unread == {UnreadWhy.REPEATED_ID: 1} and loaded.broken == 1
    assert loaded.repeated_texts == 1, "the same words under another id are another question"
