"""Whole files of lines: complete or as before; and nothing that is read is written."""

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from sanderling.core.errors import UserError
from sanderling.runs.files import check_places, replace_file
from sanderling.runs.jsonl import Lines, write_lines


def test_lines_take_their_place_together(tmp_path: Path) -> None:
    with Lines(tmp_path / "a.jsonl") as file:
        file.add(b"1")
        assert not (tmp_path / "a.jsonl").exists()
        file.add(b"2")
    assert (tmp_path / "a.jsonl").read_bytes() == b"1\n2\n"
    assert file.count == 2


def test_a_failure_leaves_what_stood_there(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"before")
    with pytest.raises(RuntimeError), Lines(tmp_path / "a", keep_empty=False) as file:
        file.add(b"1")
        raise RuntimeError
    assert [path.read_bytes() for path in tmp_path.iterdir()] == [b"before"]


def test_a_file_without_lines_stays_or_goes(tmp_path: Path) -> None:
    for keep in (True, False):
        (tmp_path / "a").write_bytes(b"before")
        with Lines(tmp_path / "a", keep_empty=keep):
            pass
        assert [path.read_bytes() for path in tmp_path.iterdir()] == ([b""] if keep else [])


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device here that is always full")
@pytest.mark.parametrize("size", [1, 1_000_000])
def test_a_full_disk_is_one_sentence_about_the_file_and_leaves_nothing(tmp_path: Path, size: int) -> None:
    (tmp_path / "a.jsonl").write_bytes(b"before")
    (tmp_path / ".a.jsonl.partial").symlink_to("/dev/full")
    with (
        pytest.raises(UserError, match=r"Cannot write .*/a\.jsonl \(No space left on device\)"),
        Lines(tmp_path / "a.jsonl") as file,
    ):
        file.add(b"x" * size)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {"a.jsonl": b"before"}


def test_a_full_disk_does_not_hide_why_the_work_ended(tmp_path: Path) -> None:
    if not Path("/dev/full").exists():
        pytest.skip("no device here that is always full")
    (tmp_path / ".a.partial").symlink_to("/dev/full")
    with pytest.raises(KeyboardInterrupt), Lines(tmp_path / "a") as file:
        file.add(b"x")
        raise KeyboardInterrupt
    assert not any(tmp_path.iterdir())


def test_a_place_that_is_a_folder_is_one_sentence_and_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    with pytest.raises(UserError, match="Is a directory"), Lines(tmp_path / "a") as file:
        file.add(b"1")
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


@pytest.mark.parametrize(
    ("targets", "told"),
    [
        (["raw/x"], "read and would be written"),
        (["link"], "read and would be written"),
        (["folder/new"], "lies in a folder that is read"),
        (["raw"], "is a folder"),
        (["/dev/null"], "no plain file"),
        (["a", "raw/../a"], "written twice"),
    ],
)
def test_places_that_would_cost_something(tmp_path: Path, targets: list[str], told: str) -> None:
    for name in ("raw", "folder"):
        (tmp_path / name).mkdir()
    (tmp_path / "raw" / "x").write_text("x")
    (tmp_path / "link").symlink_to(tmp_path / "raw" / "x")
    with pytest.raises(UserError, match=told):
        check_places([tmp_path / "raw" / "x", tmp_path / "folder"], [tmp_path / target for target in targets])
    check_places([tmp_path / "raw" / "x"], [tmp_path / "raw" / "y", tmp_path / "new" / "z"])


@pytest.mark.parametrize(
    "write",
    [
        lambda path: write_lines(path, [b"x"]),
        lambda path: check_places([], [path]),
    ],
)
def test_a_pipe_or_a_device_is_not_replaced_by_a_file(tmp_path: Path, write: Callable[[Path], object]) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    (tmp_path / "link").symlink_to(pipe)
    for place in (pipe, tmp_path / "link"):
        with pytest.raises((UserError, PermissionError), match=r"device or a pipe|no plain file"):
            write(place)
    assert pipe.is_fifo() and sorted(path.name for path in tmp_path.iterdir()) == ["link", "pipe"]


def test_text_that_utf_8_cannot_hold_is_written_as_json_escapes_it(tmp_path: Path) -> None:
    name = os.fsdecode(b"r\xff")
    replace_file(tmp_path / "a.json", json.dumps({"name": name}, ensure_ascii=False))
    assert json.loads((tmp_path / "a.json").read_text(encoding="utf-8")) == {"name": name}
