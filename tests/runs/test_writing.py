"""Whole files of lines: complete or as before; and nothing that is read is written."""

from pathlib import Path

import pytest

from sanderling.core.errors import UserError
from sanderling.runs.files import check_places
from sanderling.runs.jsonl import Lines


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
