"""Whole files of lines: complete or as before; and nothing that is read is written."""

from pathlib import Path

import pytest

from sanderling.errors import UserError
from sanderling.trajectory.writing import Lines, check_places


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
