"""Every kind of source: where it goes on, what tells it from another, how long it is, read by one process or several."""

import multiprocessing
import os
import signal
import sys
from pathlib import Path

import pytest
from source_makers import WRITERS, write_folder, write_recorded, write_world

from sanderling.core.errors import UserError
from sanderling.world.contract import Page
from sanderling.world.disk.store import build_world, open_world
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
    assert all(list(source.items(skip)) == whole[skip:] for skip in range(len(whole) + 3))


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


def test_a_world_keeps_its_pages_as_they_are(tmp_path):
    place = write_world(tmp_path)
    assert list(open_source(place).items()) == list(open_world(place).all_pages())
    build_world(tmp_path / "new", [Page(url="https://w.example/9", title="N", text="Other words.")], name="n", source="t")
    assert open_source(tmp_path / "new").stamp() != open_source(place).stamp()
    folder = write_folder(tmp_path)
    (folder / "manifest.json").write_text('{"name": "a web app", "icons": []}')
    assert (kind_of(folder), kind_of(place)) == ("folder", "world")


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


@pytest.mark.parametrize("kind", ["encyclopedia", *(kind for kind in WRITERS if kind != "recorded")])
def test_nothing_there_is_one_sentence(tmp_path, kind):
    with pytest.raises(UserError):
        open_source(f"{kind}:{tmp_path / 'none'}")


def test_every_kind_gives_the_same_items(tmp_path):
    kinds = ("folder", "jsonl", "parquet", "warc", "wikipedia", "zim", "world")
    for kind in kinds:
        (tmp_path / kind).mkdir()
    specs = [f"{kind}:{WRITERS[kind](tmp_path / kind)}" for kind in kinds]
    first, *_ = open_sources(specs, limits=LIMITS)
    assert isinstance(first, DocumentSource)
    assert list(parallel_items(first, 2, 2)) == list(first.items())[2:]
    alone, together = (Gathering(open_sources(specs, limits=LIMITS), workers) for workers in (1, 2))
    assert (alone.stamp, list(alone.pages())) == (together.stamp, list(together.pages()))
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
