"""What holds of every kind: where it goes on, what tells it from another, how long it is; and readers that are missing."""

import os
import sys
from pathlib import Path

import pytest
from source_makers import WRITERS

from sanderling.core.errors import UserError
from sanderling.world.contract import Page
from sanderling.world.sources.base import Limits, Skipped, Source
from sanderling.world.sources.kinds import SOURCES, open_source

LIMITS = Limits(document_bytes=2_000)


def opened(kind: str, place: Path, base: str = "", limits: Limits = LIMITS) -> Source:
    return open_source(f"{kind}:{WRITERS[kind](place)}", base_url=base, limits=limits)


def test_every_kind_is_written_here():
    assert {*WRITERS, "encyclopedia"} == set(SOURCES)


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


@pytest.mark.parametrize("kind", [kind for kind in WRITERS if kind != "world"])
def test_its_stamp_tells_other_content_and_other_options(kind, tmp_path):
    source = opened(kind, tmp_path)
    stamp = source.stamp()
    path = next(tmp_path.iterdir())
    assert open_source(path, kind, "", LIMITS).stamp() == stamp
    if kind != "recorded":
        assert open_source(path, kind, "", Limits(document_bytes=9_999)).stamp() != stamp
    if kind in ("folder", "zim", "wikipedia"):
        assert open_source(path, kind, "https://x.example/", LIMITS).stamp() != stamp
    changed = path / {"folder": "sub/c.txt", "recorded": "a.json"}.get(kind, "")
    os.utime(changed, ns=(1, 1))
    again = source.stamp()
    assert again != stamp
    if kind == "parquet":  # it says its length at its end
        return
    with changed.open("ab") as file:
        file.write(b" ")
    os.utime(changed, ns=(1, 1))
    assert source.stamp() not in (stamp, again)


def test_the_stamp_of_a_folder_tells_a_file_that_came_or_was_renamed(tmp_path):
    source = opened("folder", tmp_path)
    stamps = {source.stamp()}
    file = tmp_path / "notes" / "new\udcff\n.md"
    file.write_text("x")
    stamps.add(source.stamp())
    file.rename(tmp_path / "notes" / "newer.md")
    stamps.add(source.stamp())
    assert len(stamps) == 3


def test_what_is_passed_over_is_not_read(tmp_path, monkeypatch):
    source = opened("folder", tmp_path)
    total = source.total() or 0
    last = list(source.items())[-1]
    read: list[Path] = []
    whole = Path.read_bytes
    monkeypatch.setattr(Path, "read_bytes", lambda path: read.append(path) or whole(path))
    assert list(source.items(total - 1)) == [last]
    assert len(read) == 1


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
