"""Builds and additions that are killed, again and again: they go on, lose nothing, count nothing twice."""

import subprocess
import sys
from pathlib import Path

import pytest

from sanderling.core.errors import UserError
from sanderling.world.contract import Page
from sanderling.world.disk.building import building_place
from sanderling.world.disk.store import add_to_world, build_world, open_world
from sanderling.world.sources.gathering import Gathering
from sanderling.world.sources.kinds import open_sources


def write_pages(path: Path, numbers: range, say: str = "") -> Path:
    path.mkdir()
    for number in numbers:
        text = f"# Page {number}\n\nOf number{number} and its word{number % 7} {say}. See [next](p{number + 1}.md). " * 3
        (path / f"p{number}.md").write_text(text)
        if number % 5 == 0:
            (path / f"p{number}.png").write_bytes(b"\x89PNG")
    return path


def interrupted(feed: Gathering, after: int):
    """Progress that stops a build as a person would, after so many documents."""

    def progress(_stage: str, done: int, _total: int | None) -> None:
        if done == after:
            raise KeyboardInterrupt

    return progress


def test_an_interrupted_build_reads_no_document_twice(tmp_path, monkeypatch):
    docs = write_pages(tmp_path / "docs", range(30))
    monkeypatch.setattr("sanderling.world.disk.building._SECONDS", 0.0)
    feed = Gathering(open_sources([docs]))
    with pytest.raises(KeyboardInterrupt):
        build_world(tmp_path / "w", feed, name="w", source="test", progress=interrupted(feed, 20))
    assert not (tmp_path / "w").exists()
    seen: list[int] = []
    info = build_world(
        tmp_path / "w",
        Gathering(open_sources([docs])),
        name="w",
        source="test",
        progress=lambda stage, done, _total: seen.append(done) if stage == "reading" else None,
    )
    assert seen[0] == 20, "the document at which it was stopped was not committed"
    assert info.accounts[0].documents == 36 and info.accounts[0].skipped == {"other-kind": 6}
    assert info.counts.read == info.counts.kept == 30


def test_remains_of_another_build_are_refused_unless_told(tmp_path, monkeypatch):
    docs, other = write_pages(tmp_path / "docs", range(9)), write_pages(tmp_path / "other", range(4))
    monkeypatch.setattr("sanderling.world.disk.building._SECONDS", 0.0)
    feed = Gathering(open_sources([docs]))
    with pytest.raises(KeyboardInterrupt):
        build_world(tmp_path / "w", feed, name="w", source="test", progress=interrupted(feed, 5))
    with pytest.raises(UserError, match="interrupted build of other sources"):
        build_world(tmp_path / "w", Gathering(open_sources([other])), name="w", source="test")
    (docs / "p3.md").write_text("changed since, and of another length\n")
    with pytest.raises(UserError, match="interrupted build of other sources"):
        build_world(tmp_path / "w", Gathering(open_sources([docs])), name="w", source="test")
    info = build_world(tmp_path / "w", Gathering(open_sources([other])), name="w", source="test", fresh=True)
    assert info.page_count == 4
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


def test_two_builders_of_one_place(tmp_path):
    docs = write_pages(tmp_path / "docs", range(3))
    refused = pytest.raises(UserError, match="Another process is building")
    with building_place(tmp_path / ".w.building", "stamp", fresh=False), refused:
        build_world(tmp_path / "w", Gathering(open_sources([docs])), name="w", source="test")
    build_world(tmp_path / "w", Gathering(open_sources([docs])), name="w", source="test")
    refused = pytest.raises(UserError, match="Another process is building")
    with building_place(tmp_path / "w" / "adding", "stamp", fresh=False), refused:
        add_to_world(tmp_path / "w", Gathering(open_sources([docs])), source="test")


RACER = """
import sys
from pathlib import Path
from sanderling.core.errors import UserError
from sanderling.world.sources.gathering import Gathering
from sanderling.world.sources.kinds import open_sources
from sanderling.world.disk.store import build_world
try:
    build_world(Path(sys.argv[1]), Gathering(open_sources(sys.argv[2:])), name="w", source="test")
    print("built")
except UserError as error:
    print(error)
"""


def test_of_many_builders_at_once_one_builds(tmp_path):
    docs = write_pages(tmp_path / "docs", range(20))
    racers = [
        subprocess.Popen([sys.executable, "-c", RACER, str(tmp_path / "w"), str(docs)], stdout=subprocess.PIPE, text=True)
        for _ in range(4)
    ]
    said = [racer.communicate(timeout=60)[0].strip() for racer in racers]
    assert said.count("built") == 1
    assert all(one == "built" or "Another process" in one or "already there" in one for one in said), said
    assert open_world(tmp_path / "w").page_count == 20
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


def test_a_plain_build_leaves_nothing_to_go_on_from(tmp_path):
    def broken():
        yield Page(url="https://w.example/1", title="One", text="one")
        raise RuntimeError

    from sanderling.world.disk.store import build_world

    with pytest.raises(RuntimeError):
        build_world(tmp_path / "w", broken(), name="w", source="test")
    assert list(tmp_path.iterdir()) == []


def test_an_addition_that_was_killed_after_its_last_step_is_in_nobodys_way(tmp_path, monkeypatch):
    one, two, three = (write_pages(tmp_path / name, numbers) for name, numbers in
                       (("one", range(3)), ("two", range(3, 6)), ("three", range(6, 9))))  # fmt: skip
    build_world(tmp_path / "w", Gathering(open_sources([one])), name="w", source="test")
    with monkeypatch.context() as patched:
        patched.setattr("sanderling.world.disk.building._remove", lambda _path: None)
        add_to_world(tmp_path / "w", Gathering(open_sources([two])), source="two")
    assert (tmp_path / "w" / "adding" / "stamp").exists()
    info, counts = add_to_world(tmp_path / "w", Gathering(open_sources([three])), source="three")
    assert (info.page_count, counts.kept) == (9, 3)
    assert not (tmp_path / "w" / "adding").exists()
