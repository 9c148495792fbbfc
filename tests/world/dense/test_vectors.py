"""Vectors on disk: whole after any kill, extended by what is new, refused where they do not fit; cells over them."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from dense_fakes import made_pages
from typer.testing import CliRunner

from sanderling.cli.world import app
from sanderling.core.errors import UserError
from sanderling.world.contract import Page, answered
from sanderling.world.dense import vectors as build
from sanderling.world.dense.embedders import HashedEmbedder, Prefixes
from sanderling.world.dense.index import DenseIndex, SearchChoice, SearchMode, open_dense, ranked_world
from sanderling.world.dense.vectors import (
    DIRECTORY,
    Chunking,
    DenseInfo,
    build_cells,
    embed_world,
    open_cells,
    passages,
    read_arrays,
    read_info,
    settings_for,
)
from sanderling.world.local import LocalWorld
from sanderling.world.store import build_world, open_world

EMBEDDER = HashedEmbedder(32)
SETTINGS = settings_for(EMBEDDER)


def world_at(directory: Path, pages: list[Page]) -> LocalWorld:
    build_world(directory, pages, name="t", source="test")
    return open_world(directory)


def embedded(directory: Path, world: LocalWorld) -> DenseInfo:
    return embed_world(directory, world, EMBEDDER, SETTINGS, spec="hashed:32")


def files(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted((directory / DIRECTORY).iterdir())}


def test_every_page_has_its_passages(tmp_path: Path) -> None:
    long = Page(
        url="https://w.example/long", title="Long", text="\n\n".join(f"Paragraph {n}. " + "word " * 150 for n in range(9))
    )
    noise = Page(url="https://w.example/noise", title="", text="\x01" * 200)
    world = world_at(tmp_path / "w", [*made_pages(3), noise, long])
    info = embedded(tmp_path / "w", world)
    assert (info.pages, info.world) == (5, world.fingerprint)
    assert np.fromfile(tmp_path / "w" / DIRECTORY / "owners.bin", np.uint32).tolist() == [0, 1, 2, 4, 4, 4, 4]
    assert read_info(tmp_path / "w" / DIRECTORY) == info


def test_passages_end_at_paragraphs_and_carry_the_title() -> None:
    page = Page(url="u", title="Flats", text="# One\n\n" + "a b. " * 30 + "\n\n" + "c d. " * 30 + "\n\n" + "e f. " * 400)
    found = passages(page, Chunking(most=3, chars=200))
    assert len(found) == 3 and all(text.startswith("Flats\n") and len(text) <= 206 for text in found)
    assert found[0].endswith("a b.") and "c" not in found[0]
    assert passages(page, Chunking(most=1, chars=200)) == found[:1]
    assert passages(Page(url="u", title="", text=""), Chunking()) == []
    assert passages(Page(url="u", title="Only a title", text=""), Chunking()) == ["Only a title"]
    unbroken = passages(Page(url="u", title="", text="字" * 1_000), Chunking(most=4, chars=300))
    assert [len(text) for text in unbroken] == [300, 300, 300, 100]


CHILD = """
import os, signal, sys
from pathlib import Path
from sanderling.world.dense import vectors as build
from sanderling.world.dense.embedders import HashedEmbedder
from sanderling.world.store import open_world

directory, kill_at = Path(sys.argv[1]), int(sys.argv[2])
syncs = 0
real = os.fsync

def fsync(handle):
    global syncs
    syncs += 1
    if syncs == kill_at:
        os.kill(os.getpid(), signal.SIGKILL)
    real(handle)

os.fsync = fsync
build.BATCH_PAGES = 10
embedder = HashedEmbedder(32)
build.embed_world(directory, open_world(directory), embedder, build.settings_for(embedder), spec="hashed:32")
"""


@pytest.mark.parametrize("kill_at", [1, 2, 3, 6, 11, 14])
def test_killed_while_it_writes_it_goes_on_to_the_same_bytes(
    tmp_path: Path, kill_at: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(build, "BATCH_PAGES", 10)
    pages = made_pages(33)
    embedded(tmp_path / "whole", world_at(tmp_path / "whole", pages))
    world = world_at(tmp_path / "killed", pages)
    done = subprocess.run([sys.executable, "-c", CHILD, tmp_path / "killed", str(kill_at)], env=os.environ, timeout=60)
    assert done.returncode == -signal.SIGKILL
    before = read_info(tmp_path / "killed" / DIRECTORY)
    assert before is None or (before.world, before.pages % 10) == ("", 0)
    with pytest.raises(UserError, match="world embed"):
        open_dense(tmp_path / "killed", world.fingerprint, world.page_count, EMBEDDER)
    embedded(tmp_path / "killed", world)
    assert {**files(tmp_path / "killed"), "dense.json.partial": b""} == {
        **files(tmp_path / "whole"),
        "dense.json.partial": b"",
    }


class Counting(HashedEmbedder):
    """Counts the texts it embeds."""

    texts = 0

    def embed(self, texts, kind):
        self.texts += len(texts)
        return super().embed(texts, kind)


def test_new_pages_alone_are_embedded(tmp_path: Path) -> None:
    pages = made_pages(30)
    embedded(tmp_path / "old", world_at(tmp_path / "old", pages[:20]))
    world = world_at(tmp_path / "grown", pages)
    (tmp_path / "old" / DIRECTORY).rename(tmp_path / "grown" / DIRECTORY)
    with pytest.raises(UserError, match=r"holds 20 pages .* \(30 pages\): run `sanderling world embed"):
        open_dense(tmp_path / "grown", world.fingerprint, world.page_count, EMBEDDER)
    counting = Counting(32)
    seen: list[int] = []
    embed_world(tmp_path / "grown", world, counting, SETTINGS, spec="hashed:32", progress=seen.append)
    assert counting.texts == 10
    assert seen[:20] == list(range(1, 21)) and seen[-1] == 30
    fresh = world_at(tmp_path / "fresh", pages)
    embedded(tmp_path / "fresh", fresh)
    assert files(tmp_path / "fresh") == files(tmp_path / "grown")
    embed_world(tmp_path / "grown", world, counting, SETTINGS, spec="hashed:32")
    assert counting.texts == 10


def test_changed_pages_are_refused(tmp_path: Path) -> None:
    pages = made_pages(12)
    embedded(tmp_path / "old", world_at(tmp_path / "old", pages))
    changed = world_at(tmp_path / "new", [*pages[:5], pages[5].model_copy(update={"text": "another"}), *pages[6:]])
    (tmp_path / "old" / DIRECTORY).rename(tmp_path / "new" / DIRECTORY)
    with pytest.raises(UserError, match="not those"):
        embedded(tmp_path / "new", changed)
    with pytest.raises(UserError, match="not of the world as it is"):
        open_dense(tmp_path / "new", changed.fingerprint, changed.page_count, EMBEDDER)
    fewer = world_at(tmp_path / "fewer", pages[:6])
    (tmp_path / "new" / DIRECTORY).rename(tmp_path / "fewer" / DIRECTORY)
    with pytest.raises(UserError, match="not those"):
        embedded(tmp_path / "fewer", fewer)


@pytest.mark.parametrize(
    "other",
    [
        {"chunking": Chunking(most=1)},
        {"prefixes": Prefixes("query: ", "")},
        {"precision": "float32"},
        {"dimension": 64, "model": "hashed-1:64"},
    ],
)
def test_other_settings_are_refused(tmp_path: Path, other: dict) -> None:
    world = world_at(tmp_path / "w", made_pages(4))
    embedded(tmp_path / "w", world)
    with pytest.raises(UserError, match="remove it to embed again"):
        embed_world(tmp_path / "w", world, EMBEDDER, SETTINGS.model_copy(update=other), spec="x")
    assert SETTINGS.model_copy(update=other).identity != SETTINGS.identity


@pytest.mark.parametrize("name", ["vectors.bin", "owners.bin"])
@pytest.mark.parametrize("harm", ["cut", "remove"])
def test_torn_files_are_told(tmp_path: Path, name: str, harm: str) -> None:
    world = world_at(tmp_path / "w", made_pages(4))
    embedded(tmp_path / "w", world)
    file = tmp_path / "w" / DIRECTORY / name
    if harm == "cut":
        file.write_bytes(file.read_bytes()[:-1])
    else:
        file.unlink()
    with pytest.raises(UserError, match="torn"):
        open_dense(tmp_path / "w", world.fingerprint, world.page_count, EMBEDDER)
    with pytest.raises(UserError, match="torn"):
        embedded(tmp_path / "w", world)


@pytest.mark.parametrize("text", ["", "{", "[]", '{"format": 2}', '{"format": 1}'])
def test_a_damaged_manifest_is_told(tmp_path: Path, text: str) -> None:
    world = world_at(tmp_path / "w", made_pages(2))
    embedded(tmp_path / "w", world)
    (tmp_path / "w" / DIRECTORY / "dense.json").write_text(text)
    with pytest.raises(UserError, match="embed again"):
        ranked_world(tmp_path / "w", world, SearchChoice(SearchMode.DENSE))


def test_two_at_a_time_are_refused(tmp_path: Path) -> None:
    world = world_at(tmp_path / "w", made_pages(2))

    class Again(HashedEmbedder):
        def embed(self, texts, kind):
            embedded(tmp_path / "w", world)
            return super().embed(texts, kind)

    with pytest.raises(UserError, match="Another process"):
        embed_world(tmp_path / "w", world, Again(32), SETTINGS, spec="x")


def test_a_world_without_an_index_says_how_to_make_one(tmp_path: Path) -> None:
    world = world_at(tmp_path / "w", made_pages(2))
    for mode in (SearchMode.DENSE, SearchMode.HYBRID):
        with pytest.raises(UserError, match="no dense index: make one with `sanderling world embed"):
            ranked_world(tmp_path / "w", world, SearchChoice(mode))
    assert ranked_world(tmp_path / "w", world, SearchChoice()) is world


# Cells propose, exact scores decide

WIDE = HashedEmbedder(64)
QUERIES = ["river poet", "glass island 17", "museum", "zzzz", "", "winter garden music"]


@pytest.fixture(scope="module")
def exact(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, DenseIndex]:
    pytest.importorskip("faiss", reason="needs the extra [dense]")
    place = tmp_path_factory.mktemp("cells") / "w"
    build_world(place, made_pages(1_500), name="t", source="test")
    world = open_world(place)
    embed_world(place, world, WIDE, settings_for(WIDE), spec="hashed:64")
    return place, open_dense(place, world.fingerprint, world.page_count, WIDE)


@pytest.fixture(scope="module")
def cells(exact: tuple[Path, DenseIndex]) -> DenseIndex:
    place, plain = exact
    info = read_info(place / DIRECTORY)
    assert info is not None and open_cells(place / DIRECTORY, info) is None
    build_cells(place / DIRECTORY, info, read_arrays(place / DIRECTORY, info)[0])
    found = open_dense(place, info.world, info.pages, WIDE)
    assert found.identity != plain.identity
    return found


def test_what_both_find_has_the_same_score_and_order(exact: tuple[Path, DenseIndex], cells: DenseIndex) -> None:
    found = wanted = 0
    for query in QUERIES:
        full = exact[1].rank(query, 1_500)
        near = cells.rank(query, 10)
        assert set(near) <= set(full) and near == sorted(near, key=lambda pair: (-pair[1], pair[0]))
        found, wanted = found + len(set(near) & set(full[:10])), wanted + len(full[:10])
    assert found / wanted > 0.9


def test_batches_and_masks_are_exact(cells: DenseIndex) -> None:
    hidden = [page for page, _ in cells.rank("river poet", 5)]
    for masked in ((), hidden):
        together = cells.rank_many(QUERIES, 10, masked)
        assert together == [cells.rank(query, 10, masked) for query in QUERIES]
        assert not {page for ranked in together for page, _ in ranked} & set(masked)
    assert len(cells.rank("river poet", 10, hidden)) == 10
    assert cells.rank("river poet", 5) == cells.rank("river poet", 50)[:5]


def test_the_same_vectors_give_the_same_file(exact: tuple[Path, DenseIndex], cells: DenseIndex) -> None:
    place = exact[0] / DIRECTORY
    before, info = (place / "cells.faiss").read_bytes(), read_info(place)
    assert info is not None
    build_cells(place, info, read_arrays(place, info)[0])
    assert (place / "cells.faiss").read_bytes() == before


def test_the_command_keeps_them_up_to_date_and_others_are_refused(tmp_path: Path) -> None:
    pytest.importorskip("faiss", reason="needs the extra [dense]")

    def run(*arguments: object) -> str:
        result = CliRunner().invoke(app, [str(a) for a in arguments], catch_exceptions=False)
        assert result.exit_code == 0, result.output
        return result.output

    pages = made_pages(150)
    build_world(tmp_path / "old", pages[:100], name="t", source="test")
    build_world(tmp_path / "new", pages, name="t", source="test")
    run("embed", tmp_path / "old", "--embedder", "hashed:64", "--approximate")
    assert run("search", tmp_path / "old", "river", "--search", "dense", "--limit", 1)
    (tmp_path / "old" / DIRECTORY).rename(tmp_path / "new" / DIRECTORY)
    world = open_world(tmp_path / "new")
    embed_world(tmp_path / "new", world, WIDE, settings_for(WIDE), spec="hashed:64")
    with pytest.raises(UserError, match=r"of other passages: run `sanderling world embed` again"):
        ranked_world(tmp_path / "new", world, SearchChoice(SearchMode.DENSE))
    run("embed", tmp_path / "new")
    assert answered(ranked_world(tmp_path / "new", world, SearchChoice(SearchMode.DENSE)).search("river")).hits
    # A new file: one that somebody still has mapped cannot be cut off below them.
    (tmp_path / "new" / DIRECTORY / "cells.faiss").unlink()
    (tmp_path / "new" / DIRECTORY / "cells.faiss").write_bytes(b"torn")
    with pytest.raises(UserError, match="cannot be read"):
        ranked_world(tmp_path / "new", world, SearchChoice(SearchMode.DENSE))


def test_too_few_and_no_library_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("faiss", reason="needs the extra [dense]")
    build_world(tmp_path / "w", made_pages(5), name="t", source="test")
    info = embed_world(tmp_path / "w", open_world(tmp_path / "w"), WIDE, settings_for(WIDE), spec="hashed:64")
    vectors = read_arrays(tmp_path / "w" / DIRECTORY, info)[0]
    with pytest.raises(UserError, match="too few"):
        build_cells(tmp_path / "w" / DIRECTORY, info, vectors)
    monkeypatch.setitem(sys.modules, "faiss", None)
    with pytest.raises(UserError, match=r"pip install '.\[dense\]'"):
        build_cells(tmp_path / "w" / DIRECTORY, info, vectors)
