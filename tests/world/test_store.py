"""Worlds on disk: whole or absent, counted, torn files told apart, the index rebuilt."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from sanderling.core.errors import UserError
from sanderling.world.contract import Page, answered
from sanderling.world.disk.building import build_world
from sanderling.world.disk.store import open_world, read_manifest


def pages(count: int = 20) -> list[Page]:
    return [
        Page(url=f"https://w.example/{i}", title=f"Title {i}", text=f"Body number{i} of a page. " * 5) for i in range(count)
    ]


@pytest.fixture
def world_dir(tmp_path) -> Path:
    build_world(tmp_path / "w", pages(), name="t", source="test")
    return tmp_path / "w"


def test_a_failing_source_leaves_nothing(tmp_path):
    def broken():
        yield from pages(5)
        raise RuntimeError("source broke")

    with pytest.raises(RuntimeError, match="source broke"):
        build_world(tmp_path / "w", broken(), name="t", source="test")
    assert list(tmp_path.iterdir()) == []


def test_a_taken_place_is_refused_and_kept(world_dir):
    before = read_manifest(world_dir)
    with pytest.raises(UserError, match="already there"):
        build_world(world_dir, pages(2), name="t2", source="test")
    assert read_manifest(world_dir) == before


FULL = """
import resource, signal, sys
from pathlib import Path
from sanderling.core.errors import UserError
from sanderling.world.contract import Page
from sanderling.world.disk.building import build_world

signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[2]), int(sys.argv[2])))
pages = (Page(url=f"https://w.example/{i}", title="T", text=f"word{i} other{i} " * int(sys.argv[3])) for i in range(3000))
try:
    build_world(Path(sys.argv[1]), pages, name="t", source="test")
except UserError as error:
    print(error)
"""


def test_a_full_disk_is_one_sentence_and_leaves_nothing(tmp_path):
    command, what = [sys.executable, "-c", FULL, str(tmp_path / "w"), "300000", "40"], "pages"
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert re.fullmatch(rf"Cannot write the ({what}) \(.*\): free some space or choose another place\.\n", done.stdout), (
        done.stderr
    )
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "cannot be read"),
        ('{"format": 99}', "has format 99"),
        ("[]", "has format None"),
        ('{"format": 2, "name": "w", "source": "s"}', "is damaged"),
    ],
)
def test_damaged_manifests(world_dir, content, message):
    (world_dir / "manifest.json").write_text(content)
    with pytest.raises(UserError, match=message) as caught:
        open_world(world_dir)
    assert "\n" not in str(caught.value)
    with pytest.raises(UserError, match=r"no world at .*sanderling world build"):
        open_world(world_dir / "none")
    with pytest.raises(UserError, match="not a world"):
        open_world(world_dir.parent)
    assert (world_dir / "pages-0.sqlite").is_file()


def test_torn_pages_are_told(world_dir):
    store = world_dir / "pages-0.sqlite"
    whole = store.read_bytes()
    store.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(UserError, match="missing or torn"):
        open_world(world_dir)
    store.write_bytes(b"\x07" * len(whole))
    with pytest.raises(UserError, match="cannot be read"):
        open_world(world_dir)
    store.unlink()
    with pytest.raises(UserError, match="missing or torn"):
        open_world(world_dir)


def _drop(index: Path) -> None:
    shutil.rmtree(index)


def _tear(index: Path) -> None:
    for path in index.glob("*.term"):
        whole = path.read_bytes()
        path.unlink()  # cut in place it would be cut under whoever still has it mapped
        path.write_bytes(whole[:-5])


def _age(index: Path) -> None:
    note = index / "sanderling.json"
    note.write_text(json.dumps(json.loads(note.read_text()) | {"version": 0}))


@pytest.mark.parametrize("harm", [_drop, _tear, _age])
def test_the_index_is_rebuilt(world_dir, harm):
    before = answered(open_world(world_dir).search("number7 page", limit=5))
    harm(world_dir / "index-0")
    assert answered(open_world(world_dir).search("number7 page", limit=5)) == before
    stamp = (world_dir / "index-0").stat().st_ino
    assert answered(open_world(world_dir).search("number7 page", limit=5)) == before
    assert (world_dir / "index-0").stat().st_ino == stamp, "the rebuilt index is kept"
    assert not list(world_dir.glob(".index-*"))
