"""Files are replaced whole or not at all; what is no file stays what it is."""

import os
import threading
from pathlib import Path

import pytest

from sanderling.cli.rl import matching
from sanderling.core.errors import UserError
from sanderling.runs.files import replace_file


def test_a_file_is_replaced_whole(tmp_path: Path):
    place = tmp_path / "new" / "a.txt"
    for text in ("first", "second"):
        replace_file(place, text, durable=True)
        assert place.read_text() == text
    assert [path.name for path in place.parent.iterdir()] == ["a.txt"]


def test_a_failure_leaves_what_stood_there(tmp_path: Path):
    place = tmp_path / "a"
    replace_file(place, "old")
    with pytest.raises(TypeError):
        replace_file(place, None)  # pyright: ignore[reportArgumentType]
    assert [path.read_text() for path in tmp_path.iterdir()] == ["old"]


def test_a_pipe_is_written_to_and_stays_a_pipe(tmp_path: Path):
    place = tmp_path / "pipe"
    os.mkfifo(place)
    read: list[bytes] = []
    reader = threading.Thread(target=lambda: read.append(place.read_bytes()))
    reader.start()
    replace_file(place, "words")
    reader.join(5)
    assert read == [b"words"] and place.is_fifo()


def test_a_pattern_stands_for_what_matches_in_order(tmp_path: Path):
    for name in ("b.jsonl", "a.jsonl", "c.txt", "odd[1].jsonl"):
        (tmp_path / name).touch()
    assert [path.name for path in matching(tmp_path / "[ab].jsonl")] == ["a.jsonl", "b.jsonl"]
    assert matching(tmp_path / "odd[1].jsonl") == [tmp_path / "odd[1].jsonl"], "a file of that very name"
    assert matching(tmp_path / "none.jsonl") == [tmp_path / "none.jsonl"], "whoever reads it says that it is missing"
    with pytest.raises(UserError, match="Nothing matches"):
        matching(tmp_path / "*.parquet")
