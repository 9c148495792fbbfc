"""Worlds on disk: whole or absent, counted, torn files told apart, the index rebuilt."""

import json
import random
import re
import shutil
import sqlite3
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sanderling.core.errors import UserError
from sanderling.core.types import ToolStatus
from sanderling.world.addresses import canonical_url
from sanderling.world.contract import Occasion, Page, answered
from sanderling.world.disk.building import add_to_world, build_world
from sanderling.world.disk.parts import absorb, verify_world
from sanderling.world.disk.store import open_as_met, open_world, read_manifest
from sanderling.world.encyclopedia import generate_pages
from sanderling.world.filters import GuardedWorld, MaskedWorld
from sanderling.world.guard import Blocklist, Guard, GuardKind, GuardLine, spots
from sanderling.world.local import LocalWorld


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
        ('{"format": 2}', "has format 2, and this version reads 3: build the world again"),
        ('{"format": 3, "name": "w", "source": "s"}', "is damaged .*its checksum does not agree"),
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


@pytest.fixture(scope="module")
def grown(tmp_path_factory) -> Path:
    """A world of two files of pages, with near-duplicates and long pages."""
    place = tmp_path_factory.mktemp("grown") / "w"
    given = list(generate_pages(40, 3))
    twins = [page.model_copy(update={"url": f"{page.url}?again"}) for page in given[:5]]
    build_world(place, [*given, *pages(30)], name="t", source="test")
    add_to_world(place, twins, source="test")
    assert len(read_manifest(place).parts) == 2
    return place


def met(place: Path) -> dict[str, object]:
    """All that an agent may meet in a world: each page by its address, addresses without a page, lists of results."""
    world = open_as_met(place)
    urls = [page.url for page in open_world(place).all_pages()]
    urls += ["https://w.example/none", "https://nowhere.example/"]
    found: dict[str, object] = {url: answered(world.visit(url)) for url in urls}
    masked = Occasion(masked=frozenset(urls[:3]))
    for query in ("number7 page", "born in", "founded harbour"):
        found[query] = answered(world.search(query, limit=20, occasion=masked))
    return found


def test_whatever_byte_is_wrong_no_page_is(grown, tmp_path):
    """Bytes are changed one at a time, at places drawn over all files: each time all is as before, or damage is told."""
    place = tmp_path / "w"
    shutil.copytree(grown, place)
    before, files = met(place), sorted(path for path in place.rglob("*") if path.is_file() and path.suffix != ".lock")
    known, draw, told = set(before), random.Random(7), Counter[str]()
    for file in files:
        whole = file.read_bytes()
        for _ in range(40 if file.suffix == ".sqlite" else 4):
            wrong = bytearray(whole)
            wrong[draw.randrange(len(wrong))] ^= draw.randrange(1, 256)
            file.unlink()  # whoever has it open or mapped keeps what it had
            file.write_bytes(wrong)
            try:
                found = met(place)
            except UserError as error:
                assert re.fullmatch(r"\S+ (is damaged|.* has format).*\.", str(error)) and "\n" not in str(error)
                told[file.suffix] += 1
            else:
                assert found == before and set(found) == known, f"{file.name} served something else"
            if file.parent == place:
                file.write_bytes(whole)
            else:  # an index that was made anew
                shutil.rmtree(file.parent)
                shutil.copytree(grown / file.parent.name, file.parent)
    assert told[".sqlite"] > 15 and told[".json"] > 4, told


def test_verify_compares_what_no_visit_reads(grown, tmp_path):
    assert verify_world(grown) == (len(list(open_world(grown).all_pages())), [])
    whole = (grown / "pages-0.sqlite").read_bytes()
    with sqlite3.connect(grown / "pages-0.sqlite") as store:
        text, signature = (store.execute(f"SELECT {name} FROM {table} WHERE number = 9").fetchone()[0] for name, table in
                           (("text", "pages"), ("signature", "signatures")))  # fmt: skip
    store.close()
    place = tmp_path / "w"
    shutil.copytree(grown, place)
    for content, reason in ((text.encode(), "page 9 does not"), (signature, "the signature of page 9 does not")):
        at = whole.index(content[:30])
        (place / "pages-0.sqlite").write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        assert verify_world(place)[1] == [f"{reason} agree with its checksum"]
    (place / "pages-0.sqlite").write_bytes(whole)
    segment = next((place / "index-1").glob("*.store"))
    kept = bytearray(segment.read_bytes())
    segment.unlink()
    kept[len(kept) // 2] ^= 1
    segment.write_bytes(kept)
    assert [line.split(" ")[0] for line in verify_world(place)[1]] == ["index-1"]
    assert answered(open_world(place).search("number7")).hits and verify_world(place)[1] == [], "the index was made anew"


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


def test_pages_are_made_findable_again_after_a_kill_behind_it(tmp_path: Path) -> None:
    pages = [Page(url=f"https://a.example/{n}", title=f"Page {n}", text=f"Text {n}.") for n in range(40)]
    build_world(tmp_path / "w", pages, name="w", source="test")
    before = (tmp_path / "w" / "pages-0.sqlite").read_bytes()
    absorb(tmp_path / "w" / "pages-0.sqlite", [])
    assert answered(open_world(tmp_path / "w").visit("https://a.example/7")).text == "Text 7."
    assert len(before) == (tmp_path / "w" / "pages-0.sqlite").stat().st_size


# -- Addresses: one key for their spellings, and what a blocklist blocks however they are wrapped --------------------------


# Keys


URL_TEXT = st.text(alphabet="ahttps:/.?#%25eE()[]@&=+ :8043\u00e9\u6771~'\"\\\n-_,;", max_size=40)


@given(st.one_of(st.text(max_size=60), URL_TEXT, st.builds("http{}://{}".format, st.sampled_from(["", "s"]), URL_TEXT)))
@example("http://a:80:80/")
@example("https:///../..//.")
@example("%68ttp://x.y/%2e%2E/a#b")
@example("x.com:443")
@example("https://\u00e9.\u6771:80./")
@example("https://a%2Fb%3A.\u00e9/c")
@example("//x.y//z")
@example("///x.y")
@example("\ud800/\x00")
@example("https://a.b/%%41%zz")
def test_idempotent(url):
    once = canonical_url(url)
    assert canonical_url(once) == once
    assert once.isascii()


RULES = Blocklist.parse(
    "huggingface.co/datasets\nhub.example/data/quiz\nleaks.example\nmünchen.example\ngithub.com/own/quiz\n"
    "https://raw.githubusercontent.com/other/set\n*/datasets/owner/quiz"
)
TARGET = "huggingface.co/datasets/a/b"
WAYS_ROUND = [
    f"HTTP://me:secret@WWW.HuggingFace.CO.:8443/{TARGET.partition('/')[2].title()}",
    "https://huggingface.co/api/datasets/a/b",
    "https://huggingface.co//x/%2E%2E%2Fdatasets//a",
    "https://huggingface.co/%252Fdatasets%25252Fa",
    "https://hf.co/datasets/a/b",
    "https://huggingface.co\\datasets\\a",
    f"https://web.archive.org/web/20240102030405if_/http:/{TARGET}",
    f"https://r.jina.ai/{TARGET}",
    f"https://translate.example/t?u=https%253A%252F%252F{TARGET.replace('/', '%252F')}",
    "https://huggingface-co.translate.goog/datasets/a/b?_x_tr_sl=en",
    f"https://webcache.googleusercontent.com/search?q=cache:AbC123:{TARGET}",
    f"https://web.archive.org/web/2024/https://r.jina.ai/https://{TARGET}",
    f"view-source:https://{TARGET}",
    f"https://proxy.example/?x=1&url={TARGET.replace('/', '%252F')}",
    "https://proxy.example/raw.githubusercontent.com/own/quiz/main/x",
    "https://deepwiki.com/own/quiz",
    "https://a.b.leaks.example/x",
    "https://xn--mnchen-3ya.example/x",
    "https://cdn.jsdelivr.net/gh/own/quiz@main/test.json",
    "https://github.com/own/quiz.git",
    "https://mirror-of-it.example/api/datasets/Owner/quiz",
]


@pytest.mark.parametrize("url", WAYS_ROUND)
def test_a_way_round_is_blocked_in_search_and_visit(url: str) -> None:
    assert RULES.blocks(url) and RULES.blocks(canonical_url(url))
    pages = [
        Page(url=url, title="Quiz", text="the tide quiz with answers"),
        Page(url="https://w.example/a", title="Tide", text=f"the tide quiz, [see]({url})"),
        Page(url="https://w.example/b", title="Tide tables", text="tide and time"),
    ]
    lines: list[GuardLine] = []
    local = LocalWorld.in_memory(pages, name="w")
    for world in (MaskedWorld(local, blocklist=RULES), GuardedWorld(local, Guard(RULES, {}, (), lines.append))):
        found = answered(world.search("tide quiz", occasion=Occasion(question="q", attempt=2)))
        assert {hit.url for hit in found.hits} == {"https://w.example/a", "https://w.example/b"}
        assert answered(world.visit(url, occasion=Occasion(question="q", attempt=2))).status is ToolStatus.NOT_FOUND
        assert answered(world.visit("https://w.example/a")).text.startswith("the tide quiz, see")
    assert [(one.question, one.attempt, one.tool, one.kind) for one in lines] == [
        ("q", 2, "search", GuardKind.ADDRESS),
        ("q", 2, "visit", GuardKind.ADDRESS),
    ]
    assert all(one.url in (url, canonical_url(url)) and one.rule and not one.sha256 for one in lines)


def test_lists_are_joined() -> None:
    both = Blocklist.parse("a.example\nb.example/x") | Blocklist.parse("b.example/x\n*/y/z")
    assert both == Blocklist.parse("a.example\nb.example/x\n*/y/z") and both.paths == ("/y/z",)


@pytest.mark.parametrize("line", ["*/", "*", "*//x", "a b", "*/x y"])
def test_a_line_that_would_block_nothing_or_everything_is_refused(line: str) -> None:
    with pytest.raises(UserError, match="Line 2 of the blocklist"):
        Blocklist.parse(f"# comment\n{line}")


@pytest.mark.parametrize("piece", ["https://r.jina.ai/", "https%3A//r.jina.ai/x.y/", "https%253A//google.com/?u=a.b/", "a.b/"])
def test_a_hostile_address_is_looked_at_in_bounds(piece: str) -> None:
    assert len(spots("https://r.jina.ai/" + piece * 2_000)) <= 2 * (1 + 3 * 64)
