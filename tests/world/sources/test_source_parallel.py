"""Several processes that read: the same items in the same order, and what a killed one costs."""

import multiprocessing
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from source_makers import WRITERS

from sanderling.core.errors import UserError
from sanderling.world.sources.base import Limits
from sanderling.world.sources.folder import FolderSource
from sanderling.world.sources.gathering import ParallelSource
from sanderling.world.sources.kinds import open_sources

LIMITS = Limits(document_bytes=2_000)


def test_every_kind_gives_the_same_items(tmp_path):
    kinds = ("folder", "jsonl", "parquet", "warc", "wikipedia", "zim", "world")
    for kind in kinds:
        (tmp_path / kind).mkdir()
    specs = [f"{kind}:{WRITERS[kind](tmp_path / kind)}" for kind in kinds]
    for one, many in zip(open_sources(specs, limits=LIMITS), open_sources(specs, limits=LIMITS, workers=2), strict=True):
        assert isinstance(many, ParallelSource)
        assert (many.name, many.stamp(), many.total()) == (one.name, one.stamp(), one.total())
        assert list(many.items(2)) == list(one.items())[2:]


def test_what_has_nothing_to_read_is_left_alone():
    (source,) = open_sources(["encyclopedia:50/1"], workers=4)
    assert not isinstance(source, ParallelSource)


def folder(place: Path, files: int) -> FolderSource:
    for number in range(files):
        (place / f"{number:04}.md").write_text(f"Words of {number}.")
    return FolderSource(place)


def test_a_killed_process_is_one_sentence_and_what_came_before_is_whole(tmp_path):
    source = folder(tmp_path, 600)
    items = ParallelSource(source, 2).items()
    first = [next(items)]
    for child in multiprocessing.active_children():
        os.kill(child.pid or 0, signal.SIGKILL)
    with pytest.raises(UserError, match="was killed"):
        for item in items:
            first.append(item)
    assert first == list(source.items())[: len(first)] and len(first) < 600


def test_who_stops_early_leaves_no_process(tmp_path):
    items = ParallelSource(folder(tmp_path, 600), 2).items()
    next(items)
    items.close()
    assert multiprocessing.active_children() == []


def test_an_empty_folder_has_no_items(tmp_path):
    assert list(ParallelSource(FolderSource(tmp_path), 2).items()) == []


def test_no_process_outlives_a_killed_parent(tmp_path):
    folder(tmp_path, 600)
    script = tmp_path / "parent.py"
    script.write_text(
        "import multiprocessing, os, pathlib\n"
        "from sanderling.world.sources.folder import FolderSource\n"
        "from sanderling.world.sources.gathering import ParallelSource\n"
        "if __name__ == '__main__':\n"
        f"    items = ParallelSource(FolderSource(pathlib.Path({str(tmp_path)!r})), 2).items()\n"
        "    next(items)\n"
        "    print(*(child.pid for child in multiprocessing.active_children()), flush=True)\n"
        "    os.kill(os.getpid(), 9)\n"
    )
    done = subprocess.run([sys.executable, script], stdout=subprocess.PIPE, timeout=60, check=False)
    children = [int(pid) for pid in done.stdout.split()]
    assert done.returncode == -signal.SIGKILL and len(children) == 2
    deadline = time.monotonic() + 30
    while any(map(is_alive, children)) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not any(map(is_alive, children))


def is_alive(pid: int) -> bool:
    """Whether it runs still; an ended one that nobody has asked after yet does not."""
    stat = Path(f"/proc/{pid}/stat")
    return stat.exists() and stat.read_text().rpartition(")")[2].split()[0] != "Z"
