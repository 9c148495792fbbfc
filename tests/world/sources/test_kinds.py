"""Every kind of source: where it goes on, what tells it from another, how long it is, read by one process or several."""

import bz2
import json
import lzma
import multiprocessing
import os
import re
import signal
import sys
from pathlib import Path

import pytest
from source_makers import WRITERS
from typer.testing import CliRunner

from sanderling.cli.world import app
from sanderling.core.errors import UserError
from sanderling.world.addresses import canonical_url
from sanderling.world.contract import Page
from sanderling.world.disk.store import read_manifest
from sanderling.world.sources.base import DocumentSource, Limits, Reason, Skipped, Source
from sanderling.world.sources.documents import FolderSource
from sanderling.world.sources.kinds import Gathering, kind_of, open_source, open_sources, parallel_items

LIMITS = Limits(document_bytes=2_000)


def opened(kind: str, place: Path, base: str = "", limits: Limits = LIMITS) -> Source:
    return open_source(f"{kind}:{WRITERS[kind](place)}", base_url=base, limits=limits)


@pytest.mark.parametrize("kind", WRITERS)
def test_it_goes_on_from_any_item(kind, tmp_path):
    source = opened(kind, tmp_path)
    whole = list(source.items())
    assert {type(item) for item in whole} == ({Page} if kind == "world" else {Page, Skipped})
    assert all(list(source.items(skip)) == whole[skip:] for skip in range(len(whole) + 3))


@pytest.mark.parametrize(("ending", "pack"), [(".bz2", bz2.compress), (".xz", lzma.compress)])
def test_packed_lines_are_read_up_to_where_they_are_cut(tmp_path, ending, pack):
    rows = [{"url": f"https://a.example/{number}", "text": f"{number * number * 7919} " * 40} for number in range(8_000)]
    packed = pack("\n".join(map(json.dumps, rows)).encode())
    file = tmp_path / f"rows.jsonl{ending}"
    file.write_bytes(packed)
    assert len(list(open_source(file).items())) == 8_000
    file.write_bytes(packed[: len(packed) * 9 // 10])
    *pages, last = open_source(file).items()
    assert 0 < len(pages) < 8_000 and last == Skipped(f"after line {len(pages)}", Reason.TRUNCATED)


@pytest.mark.parametrize(("name", "package"), [("a.warc", "fastwarc"), ("a.zim", "libzim")])
def test_a_missing_reader_is_one_sentence(tmp_path, monkeypatch, name, package):
    (tmp_path / name).touch()
    for module in list(sys.modules):
        if module.partition(".")[0] == package:
            monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(UserError, match=rf"needs {package}.*pip install '\.\[world\]'"):
        open_source(tmp_path / name)


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


@pytest.mark.parametrize("kind", ["encyclopedia", *WRITERS])
def test_nothing_there_is_one_sentence(tmp_path, kind):
    with pytest.raises(UserError):
        open_source(f"{kind}:{tmp_path / 'none'}")


def test_every_kind_gives_the_same_items(tmp_path):
    kinds = ("folder", "jsonl", "parquet", "warc", "zim", "world")
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


# folders

WORDS = "Some words about herring and the harbour of Orlo."


@pytest.fixture
def docs(tmp_path):
    root = tmp_path / "my docs"
    (root / "b").mkdir(parents=True)
    (root / "c.html").write_text(f'<title>C</title><p>{WORDS}<a href="b/">b</a> <a href="a%20(1).md#x">a</a>')
    (root / "a (1).md").write_text(f"# A\n\n{WORDS} [up](./b/index.html) [out](../../../etc/passwd)")
    (root / "b" / "index.html").write_text(f"<p>{WORDS}<a href='../c.html'>c</a>")
    (root / "b" / "n.TXT").write_text("# text")
    (root / "style.css").write_text("p {}")
    return root


def split(source: FolderSource) -> tuple[list[Page], dict[str, Reason]]:
    found = list(source.items())
    return [item for item in found if isinstance(item, Page)], {
        item.where: item.reason for item in found if isinstance(item, Skipped)
    }


def test_nothing_outside_is_read_and_nothing_hangs(docs, tmp_path):
    secret = tmp_path / "secret.md"
    secret.write_text("secret words")
    (tmp_path / "other").mkdir()
    (docs / "out.md").symlink_to(secret)
    (docs / "inside.md").symlink_to(docs / "c.html")
    (docs / "loop.md").symlink_to(docs / "loop.md")
    (docs / "broken.md").symlink_to(docs / "none.md")
    (docs / "around").symlink_to(docs)
    (docs / "elsewhere").symlink_to(tmp_path / "other")
    os.mkfifo(docs / "pipe.md")
    pages, skipped = split(FolderSource(docs))
    assert not any("secret" in page.text for page in pages)
    assert any(page.url.endswith("/inside.md") for page in pages)
    assert {name: skipped[name] for name in ("out.md", "around", "elsewhere", "pipe.md")} == {
        "out.md": Reason.LINK, "around": Reason.LINK, "elsewhere": Reason.LINK, "pipe.md": Reason.OTHER_KIND,
    }  # fmt: skip
    assert skipped["loop.md"] is skipped["broken.md"] is Reason.UNREADABLE


@pytest.mark.parametrize("name", ["a b#c?.md", "100%.md", "per%20cent.md", "C:\\x.md", "Käse\n.md", "\udcff.md"])
def test_the_address_of_a_page_leads_to_its_file_and_no_other_does(docs, name):
    (docs / name).write_text(WORDS)
    source = FolderSource(docs)
    pages, _ = split(source)
    assert {source.file(page.url) for page in pages} == {file for file in docs.rglob("*") if file.suffix not in ("", ".css")}
    for other in ("", "b", "b/", "../secret.md", "%2e%2e/my%20docs/c.html", "none.md", "c.html/x", "%00.md", f"{'a' * 300}.md"):
        assert source.file(f"local://my%20docs/{other}") is None


# from the command line


def run(*arguments: object) -> str:
    result = CliRunner().invoke(app, [str(a) for a in arguments], catch_exceptions=False, env={"COLUMNS": "200"})
    assert result.exit_code == 0, result.output
    return result.output


@pytest.fixture
def sources(tmp_path):
    for parent, word in (("one", "herring"), ("two", "plaice")):
        folder = tmp_path / parent / "html"
        folder.mkdir(parents=True)
        (folder / "index.html").write_text(f"<title>Of {word}</title><p>All about {word} and its ways.</p>")
        (folder / "p.png").write_bytes(b"\x89PNG")
    rows = ['{"url": "https://w.example/a", "text": "Words of cod."}'] * 2 + ["no page"]
    (tmp_path / "rows.jsonl").write_text("\n".join(rows))
    return [tmp_path / "one" / "html", tmp_path / "two" / "html", tmp_path / "rows.jsonl"]


def test_every_document_is_a_page_or_has_a_reason(sources, tmp_path):
    output = run("build", "from", *sources, "--out", tmp_path / "w")
    assert re.search(r"rows.jsonl +3 +2 +1 not-a-page", output)
    assert "1 at an address that has a page" in output
    written = [account.model_dump() for account in read_manifest(tmp_path / "w").accounts]
    assert [one["name"] for one in written] == ["one/html", "two/html", "rows.jsonl"]
    assert [one["skipped"] for one in written] == [{"other-kind": 1}, {"other-kind": 1}, {"not-a-page": 1}]
    assert written[2]["examples"] == {"not-a-page": ["line 3"]}
    counts = read_manifest(tmp_path / "w").counts
    assert sum(one["pages"] for one in written) == counts.read == counts.kept + counts.duplicate == 4
    assert all(one["documents"] == one["pages"] + sum(one["skipped"].values()) for one in written)


def test_folders_of_one_name_stay_apart(tmp_path):
    folders = [tmp_path / place for place in ("x/a/docs", "y/a/docs", "b/docs", "b/DOCS", "other")]
    for folder in folders:
        folder.mkdir(parents=True)
        (folder / "n.md").write_text(f"Words of {folder}.")
    pages = [item for source in open_sources(folders) for item in source.items()]
    urls = [page.url for page in pages if isinstance(page, Page)]
    assert urls[:2] == ["local://x/a/docs/n.md", "local://y/a/docs/n.md"] and urls[4] == "local://other/n.md"
    assert len({canonical_url(url) for url in urls}) == 5


def test_no_page_is_lost_to_another_of_its_address(tmp_path):
    """Two folders of one name are added one after the other; the same for JSON lines whose pages have numbers alone."""
    one, two = (tmp_path / place / "docs" for place in ("a", "b"))
    for folder in (one, two):
        folder.mkdir(parents=True)
        (folder / "readme.md").write_text(f"# Read me\n\nWords of {folder.parent.name} that are not the other's.")
        (folder / f"{folder.parent.name}.md").write_text("Words of its own.")
        rows = [{"id": number, "text": f"Row {number} of {folder.parent.name}."} for number in range(3)]
        (folder.parent / "rows.jsonl").write_text("\n".join(map(json.dumps, rows)))
    world = tmp_path / "w"
    run("build", "from", one, "--out", world)
    with pytest.raises(UserError, match=r"docs would put a page at local://docs/readme.md, .* --base-url local://docs-2/\.$"):
        run("add", world, two)
    assert "2 pages are new" in run("add", world, two, "--base-url", "local://docs-2/")
    (one / "new.md").write_text("New words.")
    assert "1 pages are new" in run("add", world, one), "a folder brings what is new in it"
    run("add", world, tmp_path / "a" / "rows.jsonl")
    with pytest.raises(UserError, match=r"would put a page at local://0, .*"):
        run("add", world, tmp_path / "b" / "rows.jsonl")
    assert "3 pages are new" in run("add", world, tmp_path / "b" / "rows.jsonl", "--base-url", "local://rows-b/")
    assert "Row 1 of b" in run("visit", world, "local://rows-b/1") and "Row 1 of a" in run("visit", world, "local://1")
    other = tmp_path / "other"
    run("build", "from", two, "--out", other)
    with pytest.raises(UserError, match="would put a page at local"):
        run("add", world, other)
    with pytest.raises(UserError, match="docs and docs would share the addresses below"):
        run("build", "from", one, two, "--base-url", "https://docs.example/", "--out", tmp_path / "both")
    assert read_manifest(world).page_count == 11


def test_kinds_are_told_by_name(tmp_path):
    for name, content, kind in (
        ("a.jsonl.gz", b"", "jsonl"), ("b.warc.gz", b"", "warc"), ("c.zim", b"", "zim"), ("d.md", b"", "folder"),
    ):  # fmt: skip
        (tmp_path / name).write_bytes(content)
        assert kind_of(tmp_path / name) == kind, name
    assert kind_of(tmp_path) == "folder"
    (tmp_path / "odd.bin").write_bytes(b"\x00")
    for call, message in (
        (lambda: kind_of(tmp_path / "odd.bin"), "say so as in warc:"),
        (lambda: kind_of(tmp_path / "none"), "There is no source"),
        (lambda: open_source(tmp_path, "tape"), "no kind of source 'tape'"),
    ):
        with pytest.raises(UserError, match=message):
            call()


def test_nothing_to_hold_leaves_nothing(tmp_path):
    (tmp_path / "docs").mkdir()
    with pytest.raises(UserError, match="would hold no page"):
        run("build", "from", tmp_path / "docs", "--out", tmp_path / "w")
    assert not (tmp_path / "w").exists()


def test_a_base_that_is_no_address_is_refused(sources, tmp_path):
    for base in ("docs.example", "ht tp://docs.example/", "https://"):
        with pytest.raises(UserError, match="is no address"):
            run("build", "from", sources[0], "--base-url", base, "--out", tmp_path / "w")
