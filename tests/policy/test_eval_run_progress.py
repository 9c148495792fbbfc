"""``eval run`` as a process beside a slow server: its log, its silence, and what it says when it is interrupted."""

import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from billing_server import Billing, billing

from sanderling.cli import exits
from sanderling.world.contract import Page
from sanderling.world.disk.store import build_world

MAIN = "from sanderling.cli.main import main; main()"
SEARCH = '<think>look</think><tool_call>{"name": "search", "arguments": {"query": ["river"]}}</tool_call>'
ANSWER = "<think>so</think><answer>Oslo</answer>"


def two_turns(messages: list[dict[str, str]], _: int) -> str:
    return ANSWER if any(message["role"] == "assistant" for message in messages) else SEARCH


def command(root: Path, server: Billing, *more: object) -> list[str]:
    if not (root / "w").exists():
        page = Page(url="https://w.example/kent", title="Kent", text="The Kent flows to Oslo.")
        build_world(root / "w", [page], name="w", source="test")
        rows = [json.dumps({"question": f"Where does river number {n} flow?", "answer": "Oslo"}) for n in range(6)]
        (root / "q.jsonl").write_text("\n".join(rows))
    judge = () if "--judge" in more else ("--judge", "exact")
    told = ("--out", root / "run", "--model", f"{server.url}#m", "--world", root / "w", "--profile", "tiny", *judge, *more)
    return [sys.executable, "-c", MAIN, "eval", "run", "jsonl", str(root / "q.jsonl"), *map(str, told)]


def test_a_log_is_plain_lines_and_no_progress_is_none(tmp_path: Path) -> None:
    with billing(two_turns) as server:
        done = subprocess.run(command(tmp_path, server), capture_output=True, text=True, check=True)
        quiet = subprocess.run(command(tmp_path, server, "--no-progress"), capture_output=True, text=True, check=True)
    assert "\x1b" not in done.stderr
    (line,) = done.stderr.splitlines()
    assert line.startswith("q.jsonl 6/6 · 0 running · ") and "6 of 6 right · 12 turns · tokens " in line and "sampled" in line
    assert "result.json has all figures" in done.stdout and quiet.stderr == ""


@pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")
@pytest.mark.parametrize("who", ["agent", "judge"])
def test_ctrl_c_says_how_to_go_on_and_prints_no_traceback(tmp_path: Path, who: str) -> None:
    """Once: the agent's turn is given up. A judge's word is waited for, until it is pressed again."""
    asked, free = threading.Event(), threading.Event()

    def slow(messages: list[dict[str, str]], before: int) -> str:
        asked.set()
        free.wait(60)
        return two_turns(messages, before)

    with billing(slow if who == "agent" else two_turns) as server, billing(slow) as judging:
        judge = ("--judge", f"{judging.url}#m") if who == "judge" else ()
        process = subprocess.Popen(command(tmp_path, server, *judge), stdout=-1, stderr=-1, text=True)
        assert asked.wait(60)
        process.send_signal(signal.SIGINT)
        if who == "judge":
            assert process.stderr is not None
            assert "stopping" in process.stderr.readline()
            process.send_signal(signal.SIGINT)
        said, log = process.communicate(timeout=60)
        free.set()
        assert process.returncode == exits.INTERRUPTED
        assert "Traceback" not in said + log and "the same command goes on" in (said + log).lower()
        done = subprocess.run(command(tmp_path, server), capture_output=True, text=True, check=True)
    assert "6 of 6 right" in done.stderr
