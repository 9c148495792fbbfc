"""Every kind of source: where it goes on, what tells it from another, how long it is, read by one process or several."""

import json
import multiprocessing
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from source_makers import WRITERS, write_folder, write_recorded, write_world

from sanderling.core.errors import UserError
from sanderling.world.contract import Page
from sanderling.world.disk.store import build_world, open_world
from sanderling.world.encyclopedia import generate_pages
from sanderling.world.sources.base import DocumentSource, Limits, Reason, Skipped, Source
from sanderling.world.sources.folder import FolderSource
from sanderling.world.sources.gathering import Gathering, parallel_items
from sanderling.world.sources.kinds import kind_of, open_source, open_sources

LIMITS = Limits(document_bytes=2_000)


def opened(kind: str, place: Path, base: str = "", limits: Limits = LIMITS) -> Source:
    return open_source(f"{kind}:{WRITERS[kind](place)}", base_url=base, limits=limits)


@pytest.mark.parametrize("kind", WRITERS)
def test_it_goes_on_from_any_item(kind, tmp_path):
    source = opened(kind, tmp_path)
    whole = list(source.items())
    assert {type(item) for item in whole} == ({Page} if kind == "world" else {Page, Skipped})
    for skip in range(len(whole) + 3):
        assert list(source.items(skip)) == whole[skip:]


@pytest.mark.parametrize("kind", WRITERS)
def test_its_length_is_right_where_it_is_known(kind, tmp_path):
    source = opened(kind, tmp_path)
    assert source.total() == (len(list(source.items())) if kind in ("folder", "parquet", "zim", "world") else None)


@pytest.mark.parametrize(
    ("name", "package"), [("a.warc", "fastwarc"), ("a.zim", "libzim"), ("pages-articles.xml", "mwparserfromhell")]
)
def test_a_missing_reader_is_one_sentence(tmp_path, monkeypatch, name, package):
    (tmp_path / name).write_bytes(b"<mediawiki")
    for module in list(sys.modules):
        if module.partition(".")[0] == package:
            monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(UserError, match=rf"needs {package}.*pip install '\.\[world\]'"):
        open_source(tmp_path / name)


def test_several_kinds_make_one_world(tmp_path):
    specs = [
        str(write_folder(tmp_path)),
        "encyclopedia:60/1",
        f"recorded:{write_recorded(tmp_path)}",
        str(write_world(tmp_path)),
    ]
    gathering = Gathering(open_sources(specs))
    info = build_world(tmp_path / "w", gathering, name="w", source="test")
    assert [account.name for account in info.accounts] == ["notes", "encyclopedia-60-1", "recorded trajectories", "old"]
    world = open_world(tmp_path / "w")
    assert world.page_count == sum(account.pages for account in info.accounts)
    for url in ("local://notes/b.md", "https://x.example/r", "https://w.example/3"):
        assert world.page(url) is not None


def test_the_encyclopedia_goes_on_and_is_told_from_others():
    source = open_source("encyclopedia:50/3")
    pages = list(generate_pages(50, 3))
    assert list(source.items()) == pages
    assert list(source.items(20)) == pages[20:]
    stamps = {open_source(f"encyclopedia:{words}").stamp() for words in ("50/3", "50/4", "51/3", "50", "50/0")}
    assert len(stamps) == 4


def test_a_world_keeps_its_pages_as_they_are(tmp_path):
    place = write_world(tmp_path)
    assert list(open_source(place).items()) == list(open_world(place).all_pages())
    stamp = open_source(place).stamp()
    build_world(tmp_path / "new", [Page(url="https://w.example/9", title="N", text="Other words.")], name="n", source="t")
    assert open_source(tmp_path / "new").stamp() != stamp


def test_a_manifest_of_something_else_makes_no_world(tmp_path):
    folder = write_folder(tmp_path)
    for text in ('{"name": "a web app", "icons": []}', "[", "[" * 100_000, "[1]"):
        (folder / "manifest.json").write_text(text)
        assert kind_of(folder) == "folder"
    (folder / "manifest.json").write_text(json.dumps({"format": 1, "fingerprint": "x", "package": "0"}))
    assert kind_of(folder) == "world"
    with pytest.raises(UserError, match="manifest"):
        open_source(folder)


def test_a_source_of_ones_own(tmp_path):
    file = tmp_path / "mine.py"
    file.write_text(
        "from sanderling.world.contract import Page\nfrom sanderling.world.sources.base import Source\n"
        "class Lines(Source):\n    def __init__(self, rest, base, limits):\n        self.name = rest\n"
        "    def items(self, skip=0):\n        return iter([Page(url='u', title=self.name, text='t')][skip:])\n"
        "    def stamp(self):\n        return ''\n    name = ''\n"
    )
    (page,) = open_source(f"{file}:Lines:some/place").items()
    assert isinstance(page, Page) and page.title == "some/place"
    with pytest.raises(UserError, match="defines no 'Line'"):
        open_source(f"{file}:Line:x")


@pytest.mark.parametrize("kind", [*WRITERS, "encyclopedia"])
def test_nothing_there_is_one_sentence(tmp_path, kind):
    with pytest.raises(UserError):
        open_source(f"{kind}:{tmp_path / 'none'}")


@pytest.mark.parametrize("words", ["", "x", "1/2/3", "10", "-5", "50/x", "9" * 5_000])
def test_no_size_is_one_sentence(words):
    with pytest.raises(UserError):
        open_source(f"encyclopedia:{words}")


def test_a_prefix_tells_the_kind_of_an_odd_name(tmp_path, monkeypatch):
    odd = write_folder(tmp_path) / "b.md"
    monkeypatch.chdir(odd.parent)
    odd.rename("warc:b.md")
    (page,) = open_source("./warc:b.md").items()
    assert isinstance(page, Page) and page.text == "Words of b.md."
    with pytest.raises(UserError, match=r"no file b\.md"):
        open_source("warc:b.md")
    with pytest.raises(UserError, match="KIND:REST with a kind of folder, jsonl, "):
        open_source("tape:b.md")


def test_every_kind_gives_the_same_items(tmp_path):
    kinds = ("folder", "jsonl", "parquet", "warc", "wikipedia", "zim", "world")
    for kind in kinds:
        (tmp_path / kind).mkdir()
    specs = [f"{kind}:{WRITERS[kind](tmp_path / kind)}" for kind in kinds]
    first, *others = open_sources(specs, limits=LIMITS)
    assert all(isinstance(source, DocumentSource) for source in (first, *others))
    assert list(parallel_items(first, 2, 2)) == list(first.items())[2:]
    alone, together = (Gathering(open_sources(specs, limits=LIMITS), workers) for workers in (1, 2))
    assert (alone.stamp, alone.total(), list(alone.pages())) == (together.stamp, together.total(), list(together.pages()))
    assert alone.mark() == together.mark()


def folder(place: Path, files: int) -> FolderSource:
    for number in range(files):
        (place / f"{number:04}.md").write_text(f"Words of {number}.")
    return FolderSource(place)


def test_a_killed_process_is_one_sentence_and_what_came_before_is_whole(tmp_path):
    source = folder(tmp_path, 600)
    items = parallel_items(source, 2)
    first = [next(items)]
    for child in multiprocessing.active_children():
        os.kill(child.pid or 0, signal.SIGKILL)
    with pytest.raises(UserError, match="was killed"):
        for item in items:
            first.append(item)
    assert first == list(source.items())[: len(first)] and len(first) < 600


def test_who_stops_early_leaves_no_process(tmp_path):
    items = parallel_items(folder(tmp_path, 600), 2)
    next(items)
    items.close()
    assert multiprocessing.active_children() == []


def test_no_process_outlives_a_killed_parent(tmp_path):
    folder(tmp_path, 600)
    script = tmp_path / "parent.py"
    script.write_text(
        "import multiprocessing, os\n"
        "from sanderling.world.sources.folder import FolderSource\n"
        "from sanderling.world.sources.gathering import parallel_items\n"
        "if __name__ == '__main__':\n"
        f"    items = parallel_items(FolderSource({str(tmp_path)!r}), 2)\n"
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


def test_what_recorded_trajectories_hold(tmp_path):
    items = list(open_source(f"recorded:{write_recorded(tmp_path)}").items())
    pages = [item for item in items if isinstance(item, Page)]
    assert [(page.url, page.text) for page in pages] == [
        ("https://x.example/p", "one"),
        ("https://x.example/r", "three\n\nfour"),
    ]
    assert items[2:] == [
        Skipped("https://x.example/gone", Reason.EMPTY),
        Skipped(str(tmp_path / "trajectories" / "b.json"), Reason.NOT_A_RECORDING),
    ]
    (one,) = list(open_source(f"recorded:{tmp_path / 'trajectories' / 'b.json'}").items())
    assert isinstance(one, Skipped)
