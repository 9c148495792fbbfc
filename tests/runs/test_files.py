"""Files are replaced whole or not at all; what is no file stays what it is."""

import io
import os
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from rich.console import Console

from sanderling.cli.rl import matching
from sanderling.core.errors import UserError
from sanderling.runs.files import LOCK, check_places, locked, replace_file
from sanderling.runs.jsonl import Lines
from sanderling.runs.progress import Report


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


# -- Locks between processes: what is held, what is left behind, and what cannot be held -----------------------------------


BOTH = pytest.mark.parametrize("hold", [locked, partial(locked, beside=True)])


def test_a_place_is_held_by_one_at_a_time_and_nothing_is_left_beside_it(tmp_path: Path) -> None:
    place = tmp_path / "above" / "place"
    for _ in range(2):
        with locked(place, beside=True), locked(place.with_name("another"), beside=True):
            with pytest.raises(UserError, match=r"Another process is at work in .*place: wait"), locked(place, beside=True):
                pass
            assert not place.exists()
        assert list(place.parent.iterdir()) == []


@BOTH
def test_a_failure_lets_go_and_a_place_that_cannot_be_used_is_one_sentence(tmp_path: Path, hold: Callable) -> None:
    for _ in range(2):
        with pytest.raises(RuntimeError, match="its own"), hold(tmp_path / "place"):
            raise RuntimeError("its own")
    (tmp_path / "file").write_text("x")
    with pytest.raises(UserError, match="Cannot use"), hold(tmp_path / "file" / "below"):
        pass


def test_a_lock_whose_file_was_taken_away_before_it_was_locked_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import fcntl

    place, real, taken = tmp_path / "place", fcntl.flock, 0

    def after_the_last_holder(handle: object, how: int) -> None:
        nonlocal taken
        if not taken:
            taken += 1
            (tmp_path / f"{LOCK}-place").unlink()
        real(handle, how)  # type: ignore[arg-type]

    monkeypatch.setattr(fcntl, "flock", after_the_last_holder)
    with locked(place, beside=True):
        assert taken == 1 and (tmp_path / f"{LOCK}-place").is_file()
        with pytest.raises(UserError, match="at work"), locked(place, beside=True):
            pass


# -- Whole files of lines: complete or as before; and nothing that is read is written --------------------------------------


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
        (["raw/x"], "read and would be written"), (["link"], "read and would be written"),
        (["folder/new"], "lies in a folder that is read"), (["raw"], "is a folder"), (["/dev/null"], "no plain file"),
        (["a", "raw/../a"], "written twice"),
    ],
)  # fmt: skip
def test_places_that_would_cost_something(tmp_path: Path, targets: list[str], told: str) -> None:
    for name in ("raw", "folder"):
        (tmp_path / name).mkdir()
    (tmp_path / "raw" / "x").write_text("x")
    (tmp_path / "link").symlink_to(tmp_path / "raw" / "x")
    with pytest.raises(UserError, match=told):
        check_places([tmp_path / "raw" / "x", tmp_path / "folder"], [tmp_path / target for target in targets])
    check_places([tmp_path / "raw" / "x"], [tmp_path / "raw" / "y", tmp_path / "new" / "z"])


# -- What a person reads while a recipe runs -------------------------------------------------------------------------------


@pytest.fixture
def report() -> Report:
    return Report(Console(file=io.StringIO(), width=120))


def shown(report: Report) -> str:
    assert isinstance(report.console.file, io.StringIO)
    return report.console.file.getvalue()


def test_figures_and_alarms_are_whole_on_a_narrow_terminal() -> None:
    report = Report(Console(file=io.StringIO(), width=80))
    note = "reward 0.62, held out 0.58, signal 75%, age 0.4, learning 31%; ALARM: query_style, think_length, group_variance"
    with report.task("dr-venus-4b, stage one", 4_000, start=3_999) as advance:
        advance(1, note)
    assert "4000/4000" in shown(report)
    assert " ".join(shown(report).split()).endswith(note)


def test_a_failure_inside_passes_through(report: Report) -> None:
    with pytest.raises(RuntimeError), report.task("Work", 3) as advance:
        advance(2)
        raise RuntimeError
    assert "2/3" in shown(report)


def test_lines_titles_and_notes_are_shown_as_they_are(report: Report) -> None:
    path = "/runs/[bold]x[/]/" + "long/" * 40 + "report.html"
    report.say(path)
    with report.task("[red]Work", 1) as advance:
        advance(1, "[run] 1")
    assert f"  {path}\n" in shown(report)
    assert "[red]Work" in shown(report)
    assert "[run] 1" in shown(report)
