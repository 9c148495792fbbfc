"""Stages run once, resume after a kill of the real process, and never mix two runs."""

import io
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from rich.console import Console

from sanderling.cli.train import matching
from sanderling.core.errors import UserError
from sanderling.runs.files import LOCK, check_places, locked, replace_file
from sanderling.runs.jsonl import Lines
from sanderling.runs.progress import Report
from sanderling.runs.run import DATABASE, Run
from sanderling.runs.stages import STAGES, RunRecord, Stage, read_record, run_stages

SILENT = Report(Console(quiet=True))
CHILD = """
import os, sys, time
from pathlib import Path
from rich.console import Console
from sanderling.runs.progress import Report
from sanderling.runs.stages import Stage, run_stages
out, kill_at = Path(sys.argv[1]), sys.argv[2]

def work(name):
    def run():
        done = out / f"{name}.txt"
        lines = done.read_text().splitlines() if done.is_file() else []
        for unit in range(len(lines), 4):
            if f"{name}{unit}" == kill_at:
                print("ready", flush=True)
                time.sleep(60)
            with done.open("a") as file:
                file.write(f"{name}{unit}\\n")
        return {"units": 4}
    return run

for record in run_stages([Stage(n, n, work(n)) for n in "abc"], out, {"steps": 1}, Report(Console(quiet=True))):
    print(record.name, record.figures["units"])
"""


class Log:
    """Stages that count their runs, and what was announced."""

    def __init__(self) -> None:
        self.ran: list[str] = []
        self.report = Report(Console(file=io.StringIO(), width=120))

    def heard(self) -> list[tuple[str, bool]]:
        """Each stage that was announced, and whether it was done before."""
        assert isinstance(self.report.console.file, io.StringIO)
        lines = self.report.console.file.getvalue().splitlines()
        return [(line.split()[0].lower(), "(done before, " in line) for line in lines]

    def stage(self, name: str, fails: bool = False) -> Stage:
        def run() -> dict[str, object]:
            self.ran.append(name)
            if fails:
                raise RuntimeError("broken")
            return {"order": len(self.ran)}

        return Stage(name, name.title(), run)


def forget(directory: Path, stage: str) -> None:
    with Run(directory) as run:
        run.table(STAGES).remove(stage)


def start(directory: Path, kill_at: str) -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, "-c", CHILD, str(directory), kill_at], stdout=subprocess.PIPE, text=True)


def test_each_stage_runs_once(tmp_path: Path) -> None:
    log = Log()
    stages = [log.stage("one"), log.stage("two")]
    first = run_stages(stages, tmp_path, {"seed": 1}, log.report)
    again = run_stages(stages, tmp_path, {"seed": 1}, log.report)
    assert log.ran == ["one", "two"]
    assert log.heard() == [("one", False), ("two", False), ("one", True), ("two", True)]
    assert again == first
    assert [(record.name, record.figures) for record in first] == [("one", {"order": 1}), ("two", {"order": 2})]


def test_a_stage_that_fails_stops_the_run_and_is_taken_up_again(tmp_path: Path) -> None:
    log = Log()
    with pytest.raises(RuntimeError):
        run_stages([log.stage("one"), log.stage("two", fails=True), log.stage("three")], tmp_path, {"seed": 1}, log.report)
    with pytest.raises(UserError, match="no finished stage 'two': run the recipe first"):
        read_record(tmp_path, "two")
    run_stages([log.stage("one"), log.stage("two"), log.stage("three")], tmp_path, {"seed": 1}, log.report)
    assert log.ran == ["one", "two", "two", "three"]


def test_killed_twice_it_goes_on_from_the_last_finished_unit(tmp_path: Path) -> None:
    for kill_at in ("b2", "b3"):
        child = start(tmp_path, kill_at)
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
        os.kill(child.pid, signal.SIGKILL)
        child.wait()
        child.stdout.close()
    out, _ = start(tmp_path, "never").communicate()
    assert out == "a 4\nb 4\nc 4\n"
    for name in "abc":
        assert (tmp_path / f"{name}.txt").read_text().split() == [f"{name}{unit}" for unit in range(4)]


# -- what is done, and what is done again --------------------------------------------------------------------------------


def test_figures_are_the_same_at_once_and_later(tmp_path: Path) -> None:
    stage = Stage("one", "One", lambda: {"pair": (1, 2), "by_hops": {3: 0.5}, "nll": float("nan"), "path": Path("a")})
    first, again = (run_stages([stage], tmp_path, {"seed": 1}, SILENT) for _ in range(2))
    assert again == first == [read_record(tmp_path, "one")]
    assert first[0].figures == {"pair": [1, 2], "by_hops": {"3": 0.5}, "nll": None, "path": "a"}


def test_a_record_taken_away_runs_its_stage_and_the_later_ones_again(tmp_path: Path) -> None:
    log = Log()
    stages = [log.stage(name) for name in ("one", "two", "three")]
    run_stages(stages, tmp_path, {"seed": 1}, log.report)
    forget(tmp_path, "two")
    records = run_stages(stages, tmp_path, {"seed": 1}, log.report)
    assert log.ran == ["one", "two", "three", "two", "three"]
    assert log.heard()[3:] == [("one", True), ("two", False), ("three", False)]
    assert run_stages(stages, tmp_path, {"seed": 1}, log.report) == records


# -- one sentence --------------------------------------------------------------------------------------------------------


def test_a_database_whose_maker_was_killed_at_once_is_no_run_yet(tmp_path: Path) -> None:
    (tmp_path / DATABASE).touch()
    (tmp_path / "rank-1.db").touch()
    assert not RunRecord(tmp_path, STAGES).is_begun
    RunRecord(tmp_path, STAGES, ("rank-",)).check_fresh([])
    (record,) = run_stages([Log().stage("one")], tmp_path, {"seed": 1}, SILENT)
    assert read_record(tmp_path, "one") == record


# -- one process at a time -----------------------------------------------------------------------------------------------


def test_a_second_process_is_locked_out_until_the_first_is_gone(tmp_path: Path) -> None:
    log = Log()
    child = start(tmp_path, "b2")
    assert child.stdout is not None
    assert child.stdout.readline() == "ready\n"
    for attempt in (
        lambda: run_stages([log.stage("a")], tmp_path, {"steps": 1}, log.report),
        lambda: RunRecord(tmp_path, STAGES).clear([]),
    ):
        with pytest.raises(UserError, match="Another process is at work"):
            attempt()
    assert (tmp_path / "a.txt").is_file()
    os.kill(child.pid, signal.SIGKILL)
    child.wait()
    child.stdout.close()
    run_stages([log.stage("a")], tmp_path, {"steps": 1}, log.report)
    assert log.heard() == [("a", True)]


def test_a_cleared_run_begins_again_with_any_settings(tmp_path: Path) -> None:
    log = Log()
    other = tmp_path / "other"
    other.mkdir()
    (other / "kept.txt").write_text("x")
    run = tmp_path / "run"
    run_stages([log.stage("one")], run, {"seed": 1}, log.report)
    (run / "work").mkdir()
    (run / "work" / "unit.txt").write_text("x")
    (run / "link").symlink_to(other)
    RunRecord(run, STAGES).clear([])
    assert sorted(path.name for path in run.rglob("*")) == [LOCK]
    assert (other / "kept.txt").is_file()
    run_stages([log.stage("one")], run, {"seed": 2}, log.report)
    assert log.ran == ["one", "one"]


def test_only_a_run_is_cleared(tmp_path: Path) -> None:
    RunRecord(tmp_path / "nothing", STAGES).clear([])
    (tmp_path / "thesis.txt").write_text("x")
    with pytest.raises(UserError, match="not the directory of a run"):
        RunRecord(tmp_path, STAGES).clear([])
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]


# -- Files are replaced whole or not at all; what is no file stays what it is ----------------------------------------------


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
