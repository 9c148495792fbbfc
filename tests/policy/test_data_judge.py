"""``sanderling data judge`` against a real server that answers, talks nonsense, fails and bills; limits, kills, odd replies."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from billing_server import billing

from sanderling.cli.data import judge
from sanderling.core.record import Question, Trajectory
from sanderling.core.types import Ending
from sanderling.judge.verdict import verdict_of
from sanderling.runs.jsonl import TrajectoryStore

COMMAND = [sys.executable, "-c", "from sanderling.cli.main import main; main()", "data", "judge"]


def store(path: Path, answers: list[str | None]) -> Path:
    made = TrajectoryStore(path)
    for number, answer in enumerate(answers):
        question = Question(id=f"q{number}", text=f"Number {number}?", answers=("42",))
        ending = Ending.ANSWERED if answer else Ending.TURN_LIMIT
        made.append(Trajectory(id=f"t{number}", question=question, nodes=(), leaf=None, ending=ending, answer=answer))
    return path


def number_in(messages: list[dict[str, str]]) -> int:
    return int(messages[1]["content"].split("Number ")[1].split("?")[0])


def verdicts(out: Path) -> list[bool | None]:
    return [verdict_of(found) for found in TrajectoryStore(out)]


def test_two_forms_of_one_model_are_two_judges(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, out = store(tmp_path / "in.jsonl", ["a", "b"]), tmp_path / "out.jsonl"
    with billing(lambda messages, _: "B" if "single letter" in messages[0]["content"] else "CORRECT") as server:
        for form, correct in (("word", True), ("simpleqa", False), ("word", True)):
            judge(file, out, [f"{server.url}#m"], form=form, sets=[f"budget.cache={tmp_path / 'cache'}"])
            assert verdicts(out) == [correct, correct]
        assert len(server.asked) == 4


@pytest.mark.parametrize("kills", [(9,), pytest.param((6, 15, 27), marks=pytest.mark.slow)])
def test_killed_amid_judging_no_verdict_is_paid_twice(tmp_path: Path, kills: tuple[int, ...]) -> None:
    """What was answered is in the books, and at most what was under way is asked for again."""
    file, out = store(tmp_path / "in.jsonl", [f"answer {number}" for number in range(40)]), tmp_path / "out.jsonl"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}

    def say(messages: list[dict[str, str]], _: int) -> str:
        time.sleep(0.02)
        return '{"correct": "no", "confidence": 10}' if number_in(messages) % 3 else '{"correct": "yes"}'

    with billing(say) as server:
        where = ["--out", str(out), "--set", f"budget.cache={tmp_path / 'cache'}", "--set", "concurrency=2", "--form", "hle"]
        command = [*COMMAND, str(file), "--judge", f"{server.url}#m", *where]
        for kill_at in kills:
            running = subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
            while len(server.asked) < kill_at and running.poll() is None:
                time.sleep(0.002)
            running.send_signal(signal.SIGKILL)
            assert running.wait() == -signal.SIGKILL and not out.exists()
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr[-2_000:]
        assert 40 <= len(server.asked) <= 40 + 2 * len(kills)
    assert verdicts(out) == [number % 3 == 0 for number in range(40)]
