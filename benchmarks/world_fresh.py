"""Measurements in fresh processes: what one measurement leaves in memory or caches does not help the next."""

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

_CHILD = Path(__file__).with_name("world_child.py")


def measure(task: str, **given: object) -> dict[str, Any]:
    """The result of one task of `world_child`. Raises RuntimeError with its last words when it fails."""
    done = subprocess.run([sys.executable, str(_CHILD), _order(task, given)], capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{task} failed: {done.stderr[-2_000:]}")
    return json.loads(done.stdout.splitlines()[-1])


def together(processes: int, threads: int, **given: object) -> float:
    """Searches/s of several processes that begin at the same moment, each with some threads."""
    orders = [_order("throughput", {**given, "threads": threads, "seed": seed}) for seed in range(processes)]
    children = [_started(order) for order in orders]
    for child in children:
        _require(_line(child) == "ready", child)
    for child in children:
        assert child.stdin is not None
        child.stdin.write("go\n")
        child.stdin.flush()
    return _rate(children)


def _order(task: str, given: dict[str, Any]) -> str:
    return json.dumps({"task": task, **{key: str(v) if isinstance(v, Path) else v for key, v in given.items()}})


def _started(order: str) -> "subprocess.Popen[str]":
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen([sys.executable, str(_CHILD), order], text=True, **pipes)


def _line(child: "subprocess.Popen[str]") -> str:
    assert child.stdout is not None
    return child.stdout.readline().strip()


def _rate(children: Sequence["subprocess.Popen[str]"]) -> float:
    results = []
    for child in children:
        line = _line(child)
        _require(bool(line), child)
        results.append(json.loads(line))
        child.wait()
    return sum(found["searches"] for found in results) / max(found["seconds"] for found in results)


def _require(holds: bool, child: "subprocess.Popen[str]") -> None:
    if not holds:
        assert child.stderr is not None
        raise RuntimeError(f"throughput failed: {child.stderr.read()[-2_000:]}")
