"""Worlds that grow: pages are added, builds and additions are killed and gone on with."""

import itertools
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sanderling.core.errors import UserError
from sanderling.world.contract import Occasion, Page, answered
from sanderling.world.disk.building import add_to_world, build_world
from sanderling.world.disk.index import is_whole
from sanderling.world.disk.store import WorldInfo, open_world, read_manifest, write_manifest
from sanderling.world.sources.kinds import Gathering, open_sources

# Adding


QUERIES = ("number3", "word1 page", "word2 number40", "every", "nothing of it")


def pages(numbers: range, site: str = "w.example") -> list[Page]:
    return [
        Page(
            url=f"https://{site}/{n}",
            title=f"Title {n}",
            text=f"Page number{n} has word{n % 5} as every page. " * (1 + n % 4),
            links=(f"https://{site}/{n + 1}", f"https://{site}/gone", "https://elsewhere.example/"),
        )
        for n in numbers
    ]


def add(directory: Path, given_pages: list[Page]):
    return add_to_world(directory, given_pages, source="more")


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> Path:
    """A world of sixty pages, built at once."""
    place = tmp_path_factory.mktemp("whole") / "w"
    build_world(place, pages(range(60)), name="w", source="s")
    return place


@settings(max_examples=6, deadline=None)
@given(cuts=st.lists(st.integers(1, 60), max_size=4))
def test_added_in_pieces_or_built_at_once_it_is_one_world(tmp_path_factory, whole, cuts):
    place = tmp_path_factory.mktemp("worlds")
    borders = [0, *sorted({*cuts, 60})]
    build_world(place / "grown", pages(range(borders[1])), name="w", source="s")
    for start, end in itertools.pairwise(borders[1:]):
        add(place / "grown", pages(range(start, end)))
    grown = read_manifest(place / "grown")
    assert is_whole(place / "grown" / grown.index, 60), "no reader has to fill it anew"
    assert grown.page_count == 60
    assert (grown.fingerprint, grown.counts) == (read_manifest(whole).fingerprint, read_manifest(whole).counts)
    one, other = open_world(whole), open_world(place / "grown")
    for query in QUERIES:
        assert answered(one.search(query, limit=20)) == answered(other.search(query, limit=20))
        masked = Occasion(masked=frozenset({"https://w.example/3"}))
        assert answered(one.search(query, occasion=masked)) == answered(other.search(query, occasion=masked))
    for number in (0, 31, 59):
        assert answered(one.visit(f"https://w.example/{number}")) == answered(other.visit(f"https://w.example/{number}"))
    assert list(one.all_pages()) == list(other.all_pages())


READER = """
import sys
from functools import partial
from pathlib import Path
from sanderling.world.contract import answered
from sanderling.world.disk.store import open_as_met

seen, over = set(), False
while not over:
    over = Path(sys.argv[2]).exists()  # and once more, over all that was added
    world = open_as_met(Path(sys.argv[1]))
    count = world.page_count
    found = len(answered(world.search("every", limit=1000)).hits)
    last = answered(world.visit(f"https://w.example/{count - 1}")).status
    beyond = answered(world.visit(f"https://w.example/{count}")).status
    assert (found, last, beyond) == (count, "ok", "not_found"), (count, found, last, beyond)
    if not seen:
        print("reading", flush=True)
    seen.add(count)
print(len(seen))
"""


def test_readers_never_see_half_a_write(tmp_path):
    """Each reader that opens a world amid additions finds all pages of one state and none of the next."""
    build_world(tmp_path / "w", pages(range(8)), name="w", source="s")
    command = [sys.executable, "-c", READER, str(tmp_path / "w"), str(tmp_path / "stop")]
    readers = [subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for _ in range(2)]
    for reader in readers:
        assert reader.stdout is not None and reader.stdout.readline() == "reading\n"
    for number in range(8, 22):
        add(tmp_path / "w", pages(range(number, number + 1)))
    (tmp_path / "stop").touch()
    for reader in readers:
        out, errors = reader.communicate(timeout=60)
        assert reader.returncode == 0, errors[-1500:]
        assert int(out) > 1, "it met more than one state"


def test_a_reader_keeps_what_it_opened_while_files_are_merged_under_it(tmp_path):
    build_world(tmp_path / "w", pages(range(4)), name="w", source="s")
    reader = open_world(tmp_path / "w")
    before = answered(reader.search("every", limit=20))
    for number in range(4, 24):
        add(tmp_path / "w", pages(range(number, number + 1)))
    assert not (tmp_path / "w" / "pages-0.sqlite").exists()
    assert answered(reader.search("every", limit=20)) == before and reader.page_count == 4
    assert answered(reader.visit("https://w.example/20")).status == "not_found"


def test_an_index_that_is_missing_is_made_before_it_grows(tmp_path):
    build_world(tmp_path / "w", pages(range(5)), name="w", source="s")
    for path in (tmp_path / "w" / "index-0").iterdir():
        path.unlink()
    add(tmp_path / "w", pages(range(5, 8)))
    assert len(answered(open_world(tmp_path / "w").search("every")).hits) == 8


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


def test_remains_of_another_build_are_refused(tmp_path, monkeypatch):
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


def test_an_addition_that_was_killed_after_its_last_step_is_in_nobodys_way(tmp_path, monkeypatch):
    one, two, three = (write_pages(tmp_path / name, numbers) for name, numbers in
                       (("one", range(3)), ("two", range(3, 6)), ("three", range(6, 9))))  # fmt: skip
    build_world(tmp_path / "w", Gathering(open_sources([one])), name="w", source="test")

    def killed(directory: Path, info: WorldInfo) -> None:
        write_manifest(directory, info)
        raise KeyboardInterrupt

    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr("sanderling.world.disk.building.write_manifest", killed)
        add_to_world(tmp_path / "w", Gathering(open_sources([two])), source="two")
    assert (tmp_path / "w" / "adding" / "stamp").exists()
    info, counts = add_to_world(tmp_path / "w", Gathering(open_sources([three])), source="three")
    assert (info.page_count, counts.kept) == (9, 3)
    assert not (tmp_path / "w" / "adding").exists()


def test_an_addition_of_damaged_pages_is_in_nobodys_way(tmp_path):
    one, two, three = (write_pages(tmp_path / name, numbers) for name, numbers in
                       (("one", range(3)), ("two", range(3, 6)), ("three", range(6, 9))))  # fmt: skip
    for name, pages in (("w", one), ("damaged", two)):
        build_world(tmp_path / name, Gathering(open_sources([pages])), name=name, source="test")
    (file,) = (tmp_path / "damaged").glob("pages-*.sqlite")
    whole = file.read_bytes()
    at = whole.rindex(b"word4")
    file.write_bytes(whole[:at] + b"ward" + whole[at + 4 :])
    for build in (add_to_world, partial(build_world, name="new")):
        with pytest.raises(UserError, match="is damaged"):
            build(
                tmp_path / ("w" if build is add_to_world else "new"),
                Gathering(open_sources([tmp_path / "damaged"])),
                source="x",
            )
    assert not (tmp_path / "w" / "adding").exists() and not (tmp_path / ".new.building").exists()
    info, counts = add_to_world(tmp_path / "w", Gathering(open_sources([three])), source="three")
    assert (info.page_count, counts.kept) == (6, 3)
