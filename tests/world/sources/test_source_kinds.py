"""Kinds as prefixes: recorded trajectories, the encyclopedia and other worlds beside files; what the prefix refuses."""

import json

import pytest
from source_makers import WRITERS, write_folder, write_recorded, write_world

from sanderling.core.errors import UserError
from sanderling.world.contract import Page
from sanderling.world.encyclopedia import generate_pages
from sanderling.world.sources.base import Reason, Skipped
from sanderling.world.sources.gathering import Gathering
from sanderling.world.sources.kinds import kind_of, open_source, open_sources
from sanderling.world.store import build_from_feed, build_world, open_world


def test_several_kinds_make_one_world(tmp_path):
    specs = [
        str(write_folder(tmp_path)),
        "encyclopedia:60/1",
        f"recorded:{write_recorded(tmp_path)}",
        str(write_world(tmp_path)),
    ]
    gathering = Gathering(open_sources(specs))
    info = build_from_feed(tmp_path / "w", gathering, name="w", source="test")
    assert [account.name for account in info.accounts] == ["notes", "encyclopedia-60-1", "recorded trajectories", "old"]
    world = open_world(tmp_path / "w")
    assert world.page_count == sum(account.pages for account in info.accounts)
    for url in ("local://notes/b.md", "https://x.example/r", "https://w.example/3"):
        assert world.page(url) is not None


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


def test_an_empty_directory_holds_no_recording(tmp_path):
    with pytest.raises(UserError, match=r"holds no \.json"):
        open_source(f"recorded:{tmp_path}")
