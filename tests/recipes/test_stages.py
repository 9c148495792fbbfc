"""Stages run once, resume after a kill of the real process, and never mix two runs."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from pydantic import BaseModel

from sanderling.errors import UserError
from sanderling.recipes.stages import Stage, StageRecord, fingerprint, run_stages

CHILD = """
import os, sys, time
from pathlib import Path
from sanderling.recipes.stages import Stage, run_stages
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

for record in run_stages([Stage(n, n, work(n)) for n in "abc"], out, "settings", lambda stage, record: None):
    print(record.name, record.resumed)
"""


class Log:
    """Stages that count their runs, and what was announced."""

    def __init__(self) -> None:
        self.ran: list[str] = []
        self.heard: list[tuple[str, bool]] = []

    def stage(self, name: str, fails: bool = False) -> Stage:
        def run() -> dict[str, object]:
            self.ran.append(name)
            if fails:
                raise RuntimeError("broken")
            return {"order": len(self.ran)}

        return Stage(name, name.title(), run)

    def announce(self, stage: Stage, record: StageRecord | None) -> None:
        self.heard.append((stage.name, record is not None))


def start(directory: Path, kill_at: str) -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, "-c", CHILD, str(directory), kill_at], stdout=subprocess.PIPE, text=True)


def test_each_stage_runs_once(tmp_path: Path) -> None:
    log = Log()
    stages = [log.stage("one"), log.stage("two")]
    first = run_stages(stages, tmp_path, "s", log.announce)
    again = run_stages(stages, tmp_path, "s", log.announce)
    assert log.ran == ["one", "two"]
    assert log.heard == [("one", False), ("two", False), ("one", True), ("two", True)]
    assert again == first
    assert [(record.name, record.resumed, record.figures) for record in first] == [
        ("one", 0, {"order": 1}),
        ("two", 0, {"order": 2}),
    ]


def test_a_stage_added_later_runs_alone(tmp_path: Path) -> None:
    log = Log()
    run_stages([log.stage("one")], tmp_path, "s", log.announce)
    run_stages([log.stage("one"), log.stage("two")], tmp_path, "s", log.announce)
    assert log.ran == ["one", "two"]


def test_another_run_s_settings_are_refused_with_one_sentence(tmp_path: Path) -> None:
    log = Log()
    run_stages([log.stage("one")], tmp_path, "s", log.announce)
    with pytest.raises(UserError, match="other settings"):
        run_stages([log.stage("one")], tmp_path, "t", log.announce)
    assert log.ran == ["one"]


def test_an_interrupted_stage_of_other_settings_is_refused(tmp_path: Path) -> None:
    log = Log()
    with pytest.raises(RuntimeError):
        run_stages([log.stage("one", fails=True)], tmp_path, "s", log.announce)
    with pytest.raises(UserError, match="other settings"):
        run_stages([log.stage("one")], tmp_path, "t", log.announce)
    assert log.ran == ["one"]


def test_a_stage_that_fails_stops_the_run_and_is_taken_up_again(tmp_path: Path) -> None:
    log = Log()
    with pytest.raises(RuntimeError):
        run_stages([log.stage("one"), log.stage("two", fails=True), log.stage("three")], tmp_path, "s", log.announce)
    records = run_stages([log.stage("one"), log.stage("two"), log.stage("three")], tmp_path, "s", log.announce)
    assert log.ran == ["one", "two", "two", "three"]
    assert [record.resumed for record in records] == [0, 1, 0]


def test_killed_twice_it_goes_on_from_the_last_finished_unit(tmp_path: Path) -> None:
    for kill_at in ("b2", "b3"):
        child = start(tmp_path, kill_at)
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
        os.kill(child.pid, signal.SIGKILL)
        child.wait()
        child.stdout.close()
    out, _ = start(tmp_path, "never").communicate()
    assert out == "a 0\nb 2\nc 0\n"
    for name in "abc":
        assert (tmp_path / f"{name}.txt").read_text().split() == [f"{name}{unit}" for unit in range(4)]
    names = sorted(path.name for path in (tmp_path / "stages").iterdir())
    assert names == ["a.json", "b.json", "c.json"]


def test_time_worked_before_a_kill_is_counted(tmp_path: Path) -> None:
    markers = tmp_path / "stages"
    markers.mkdir()
    started = markers / "one.started.json"
    started.write_text(json.dumps({"settings": "s", "runs": 1, "seconds": 100.0}))
    os.utime(started, (1_000_000, 1_000_000))
    (tmp_path / "work.txt").write_text("x")
    os.utime(tmp_path / "work.txt", (1_000_040, 1_000_040))
    log = Log()
    (record,) = run_stages([log.stage("one")], tmp_path, "s", log.announce)
    assert 140.0 <= record.seconds < 200.0
    assert record.resumed == 1


def test_fingerprint_follows_the_settings() -> None:
    class Settings(BaseModel):
        steps: int = 1
        name: str = "x"

    assert fingerprint(Settings()) == fingerprint(Settings(steps=1)) != fingerprint(Settings(steps=2))
