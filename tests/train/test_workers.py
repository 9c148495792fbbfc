"""Tasks in real worker processes: results in order, failures as themselves, and no worker that outlives its parent."""

import os
import signal
import subprocess
import sys
import time
from concurrent.futures import Future, wait
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from sanderling.core.errors import UserError
from sanderling.train.launch import run_tasks

PARENT = """
import sys
from functools import partial
from pathlib import Path
sys.path.insert(0, sys.argv[2])
import test_workers as t
from sanderling.train.launch import run_tasks
if __name__ == "__main__":
    run_tasks([partial(t.work_on, Path(sys.argv[1]), n) for n in range(2)], 2, lambda: None)
"""


def double(number: int, directory: Path, needed: int) -> tuple[int, int]:
    """Twice the number, and the process; waits until so many tasks have begun, and something has polled some times."""
    (directory / f"begun-{number}").touch()
    wait_for(lambda: len(list(directory.glob("begun-*"))) >= needed and (directory / "polled").exists())
    return 2 * number, os.getpid()


def refuse(directory: Path, name: str) -> None:
    (directory / name).touch()
    raise UserError("Give it another name.")


def finish_after(directory: Path, name: str) -> str:
    """Ends only when it is known that another task has failed."""
    wait_for(lambda: (directory / name).exists())
    (directory / "finished").touch()
    return "finished"


def begun(directory: Path) -> None:
    (directory / "begun").touch()


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def work_on(directory: Path, number: int) -> None:
    """Never ends, in Python code that holds the interpreter as long as it may."""
    (directory / f"{number}.partial").write_text(str(os.getpid()))
    (directory / f"{number}.partial").rename(directory / f"{number}.pid")
    while True:
        sum(range(10_000))
        time.sleep(0.001)


def wait_for(condition: object) -> None:
    """Fails after a minute rather than hang."""
    assert callable(condition)
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.02)


def alive(pid: int) -> bool:
    """Whether the process runs (one that has ended and was not waited for does not)."""
    try:
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_results_come_in_order_from_several_processes_at_a_time(tmp_path: Path) -> None:
    polls: list[int] = []
    tasks = [partial(double, number, tmp_path, 2) for number in (0, 1, 2)]  # the first ends only beside another one

    def poll() -> None:
        polls.append(os.getpid())
        if len(polls) > 3:
            (tmp_path / "polled").touch()

    found = run_tasks(tasks, 2, poll, every_s=0.05)
    assert [result for result, _ in found] == [0, 2, 4]
    processes = {process for _, process in found}
    assert len(processes) == 2
    assert os.getpid() not in processes
    assert set(polls) == {os.getpid()}
    assert len(polls) > 3  # not only as tasks end, but while they run: they wait for that


def test_the_first_failure_is_raised_as_itself_and_nothing_more_is_begun(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def waited(futures: set[Future[object]], **how: Any) -> Any:
        done, others = wait(futures, **how)
        if any(future.exception() for future in done):
            (tmp_path / "known").touch()
        return done, others

    monkeypatch.setattr("sanderling.train.launch.wait", waited)
    tasks = [partial(finish_after, tmp_path, "known"), partial(refuse, tmp_path, "refused"), *[partial(begun, tmp_path)] * 4]
    with pytest.raises(UserError, match=r"^Give it another name\.$") as refused:
        run_tasks(tasks, 2, lambda: None)
    assert type(refused.value) is UserError
    assert sorted(path.name for path in tmp_path.iterdir()) == ["finished", "known", "refused"]


def test_who_hangs_is_not_waited_for_long_after_another_has_failed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ranks on CUDA would wait for the one that is gone for hours."""
    monkeypatch.setattr("sanderling.train.launch._LINGER_S", 0.2)
    tasks = [partial(work_on, tmp_path, 0), partial(fail_beside, tmp_path / "0.pid")]
    with pytest.raises(UserError, match=r"^The disk is full\.$"):
        run_tasks(tasks, 2, lambda: None, every_s=0.1)
    wait_for(lambda: not alive(int((tmp_path / "0.pid").read_text())))


def fail_beside(other: Path) -> None:
    """Once the other one is at work."""
    wait_for(other.exists)
    raise UserError("The disk is full.")


def test_a_worker_that_was_killed_is_one_sentence() -> None:
    with pytest.raises(UserError, match="worker process was killed"):
        run_tasks([die], 1, lambda: None)


def test_workers_end_when_their_parent_is_killed(tmp_path: Path) -> None:
    script = tmp_path / "parent.py"
    script.write_text(PARENT)
    parent = subprocess.Popen([sys.executable, str(script), str(tmp_path), str(Path(__file__).parent)])
    try:
        wait_for(lambda: len(list(tmp_path.glob("*.pid"))) == 2 or parent.poll() is not None)
        workers = [int(path.read_text()) for path in tmp_path.glob("*.pid")]
        assert len(workers) == 2
        assert all(alive(pid) for pid in workers)
    finally:
        os.kill(parent.pid, signal.SIGKILL)
        parent.wait()
    wait_for(lambda: not any(alive(pid) for pid in workers))
