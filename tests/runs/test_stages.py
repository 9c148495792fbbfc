"""Stages run once, resume after a kill of the real process, and never mix two runs."""

import io
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from rich.console import Console

from sanderling.core.errors import UserError
from sanderling.runs.files import LOCK
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
