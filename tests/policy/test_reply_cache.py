"""Remembered replies: keyed by all they answer, whole or absent, whoever writes and whoever is killed."""

import multiprocessing
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from sanderling.core.errors import UserError
from sanderling.core.types import Message, Role
from sanderling.policy.request_client import ReplyCache
from sanderling.tools.page_reader import reading_messages

ASKED = reading_messages("T", "text", "goal", 1, 1)


def test_a_reply_is_remembered_for_its_very_conversation_and_model(tmp_path: Path) -> None:
    cache = ReplyCache(tmp_path)
    assert cache.get("m", ASKED) is None
    cache.put("m", ASKED, "réponse \ud800 東")
    assert ReplyCache(tmp_path).get("m", ASKED) == "réponse ? 東"
    others = [
        reading_messages("U", "text", "goal", 1, 1), reading_messages("T", "text.", "goal", 1, 1), ASKED[1:],
        reading_messages("T", "text", "goals", 1, 1), reading_messages("T", "text", "goal", 1, 2),
        (Message(role=Role.SYSTEM, content=f"{ASKED[0].content} "), ASKED[1]),
    ]  # fmt: skip
    assert [cache.get("m", other) for other in others] == [None] * 6
    assert cache.get("n", ASKED) is None


def test_a_place_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(UserError, match="choose another directory"):
        ReplyCache(tmp_path / "file" / "below")


def _write(directory: str, number: int) -> None:
    cache = ReplyCache(Path(directory))
    for turn in range(60):
        cache.put("m", reading_messages("T", str(turn % 5), "g", 1, 1), f"{number} " * 2_000)


def test_processes_write_the_same_replies_side_by_side(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    writers = [context.Process(target=_write, args=(str(tmp_path), number)) for number in range(3)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
        assert writer.exitcode == 0
    for turn in range(5):
        reply = ReplyCache(tmp_path).get("m", reading_messages("T", str(turn), "g", 1, 1))
        assert reply is not None and len(set(reply.split())) == 1 and len(reply.split()) == 2_000


def test_killed_while_writing_it_leaves_whole_replies(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path\n"
        "from sanderling.policy.request_client import ReplyCache\n"
        "from sanderling.tools.page_reader import reading_messages\n"
        f"cache = ReplyCache(Path({str(tmp_path)!r}))\n"
        "for n in range(10 ** 9): cache.put('m', reading_messages('T', str(n % 50), 'g', 1, 1), 'word ' * 20_000)\n"
    )
    writer = subprocess.Popen([sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)})
    while not (tmp_path / "replies.db-wal").exists() or (tmp_path / "replies.db-wal").stat().st_size < 50_000:
        assert writer.poll() is None
        time.sleep(0.01)
    writer.send_signal(signal.SIGKILL)
    writer.wait()
    cache = ReplyCache(tmp_path)
    kept = [reply for n in range(50) if (reply := cache.get("m", reading_messages("T", str(n), "g", 1, 1))) is not None]
    assert kept and set(kept) == {"word " * 20_000}
