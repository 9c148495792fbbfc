"""Several sources into one world from the command line: kinds told, every document accounted for."""

import re

import pytest
from typer.testing import CliRunner

from sanderling.cli.world import app
from sanderling.core.errors import UserError
from sanderling.world.addresses import canonical_url
from sanderling.world.contract import Page
from sanderling.world.disk.store import read_manifest
from sanderling.world.sources.kinds import kind_of, open_source, open_sources


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
    assert "1 second pages of an address" in output
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


def test_kinds_are_told_by_name(tmp_path):
    for name, content, kind in (
        ("a.jsonl.gz", b"", "jsonl"),
        ("b.warc.gz", b"", "warc"),
        ("c.zim", b"", "zim"),
        ("d.md", b"", "folder"),
        ("f.xml", b"<mediawiki xmlns='x'>", "wikipedia"),
    ):
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
