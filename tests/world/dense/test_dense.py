"""Dense ranking against a plain reference, its fusion with others; vectors on disk: whole after any kill, then extended."""

import os
import signal
import subprocess
import sys
from collections.abc import Collection, Sequence
from pathlib import Path

import numpy as np
import pytest
from dense_fakes import TableEmbedder, made_pages
from hypothesis import given, settings
from hypothesis import strategies as st

from sanderling.core.errors import UserError
from sanderling.world.contract import Page
from sanderling.world.disk import dense
from sanderling.world.disk import dense as build
from sanderling.world.disk import dense as dense_index
from sanderling.world.disk.building import build_world
from sanderling.world.disk.embedders import HashedEmbedder, Prefixes
from sanderling.world.disk.index import Ranked, Ranker, SearchMode
from sanderling.world.disk.store import open_world
from sanderling.world.local import LocalWorld

AXES = {"east": [1.0, 0.0], "north": [0.0, 1.0], "between": [1.0, 1.0], "west": [-1.0, 0.0]}


def index_of(rows: list[list[float]], owners: list[int], table: dict | None = None) -> dense.DenseIndex:
    vectors = np.array(rows, np.float32).reshape(len(owners), -1 if rows else 2)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    embedder = TableEmbedder(AXES if table is None else table, vectors.shape[1])
    return dense.DenseIndex(dense.settings_for(embedder), vectors.astype(np.float16), np.array(owners, np.uint32), embedder)


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_batches_blocks_and_a_plain_reference_agree(data: st.DataObject) -> None:
    """Small whole numbers make many ties; blocks of a few rows cut everywhere."""
    number = st.integers(-2, 2).map(float)
    vector = st.lists(number, min_size=3, max_size=3).filter(any)
    counts = data.draw(st.lists(st.integers(0, 3), min_size=1, max_size=12))
    owners = [page for page, count in enumerate(counts) for _ in range(count)]
    rows = [data.draw(vector) for _ in owners]
    queries = data.draw(st.lists(vector, min_size=1, max_size=4))
    table = {f"q{i}": query for i, query in enumerate(queries)}
    limit, hidden = data.draw(st.integers(1, 14)), data.draw(st.sets(st.integers(0, 12)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(dense_index, "_BLOCK_VALUES", 3 * data.draw(st.integers(1, 9)))
        index = index_of(rows or [], owners, table) if owners else index_of([], [])
    together = index.rank_many(list(table), limit, hidden)
    assert together == [index.rank(query, limit, hidden) for query in table]
    if not owners:
        return
    stored = (np.array(rows) / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32).astype(np.float16)
    for query, ranked in zip(queries, together, strict=True):
        unit = (np.float32(query) / np.float32(np.linalg.norm(query))).astype(np.float64)
        best: dict[int, float] = {}
        for owner, row in zip(owners, stored.astype(np.float64) @ unit, strict=True):
            best[owner] = max(best.get(owner, -9.0), float(row))
        expected = sorted(((n, round(s, 5)) for n, s in best.items() if n not in hidden), key=lambda p: (-p[1], p[0]))[:limit]
        assert [round(score, 5) for _, score in ranked] == pytest.approx([score for _, score in expected], abs=2e-5)
        assert {n for n, _ in ranked} <= set(best) - hidden and len(ranked) == len(expected)
        assert ranked == sorted(ranked, key=lambda pair: (-pair[1], pair[0]))


class Fixed(Ranker):
    """Ranks the same pages for any query; counts what it is asked."""

    def __init__(self, pages: Sequence[int], identity: str = "") -> None:
        self.pages, self.identity = pages, identity
        self.asked: list[tuple[tuple[str, ...], int]] = []

    def rank_many(self, queries: Sequence[str], limit: int, hidden: Collection[int] = ()) -> list[Ranked]:
        self.asked.append((tuple(queries), limit))
        shown = [page for page in self.pages if page not in hidden][:limit]
        return [[(page, float(-at)) for at, page in enumerate(shown)] for _ in queries]


def test_the_formula_of_cormack_2009() -> None:
    fused = dict(dense.HybridRanker([Fixed([7, 3]), Fixed([3, 8])]).rank("q", 10))
    assert fused == pytest.approx({3: 1 / 62 + 1 / 61, 7: 1 / 61, 8: 1 / 62})


EMBEDDER = HashedEmbedder(32)
SETTINGS = dense.settings_for(EMBEDDER)


def world_at(directory: Path, pages: list[Page]) -> LocalWorld:
    build_world(directory, pages, name="t", source="test")
    return open_world(directory)


def embedded(directory: Path, world: LocalWorld) -> dense.DenseInfo:
    return dense.embed_world(directory, world, EMBEDDER, SETTINGS, spec="hashed:32")


def files(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (directory / dense.DIRECTORY).iterdir() if "partial" not in path.name}


def test_passages_end_at_paragraphs_and_carry_the_title() -> None:
    page = Page(url="u", title="Flats", text="# One\n\n" + "a b. " * 30 + "\n\n" + "c d. " * 30 + "\n\n" + "e f. " * 400)
    found = dense.passages(page, dense.Chunking(most=3, chars=200))
    assert len(found) == 3 and all(text.startswith("Flats\n") and len(text) <= 206 for text in found)
    assert found[0].endswith("a b.") and "c" not in found[0]
    assert dense.passages(Page(url="u", title="", text=""), dense.Chunking()) == []
    assert dense.passages(Page(url="u", title="Only a title", text=""), dense.Chunking()) == ["Only a title"]
    unbroken = dense.passages(Page(url="u", title="", text="字" * 1_000), dense.Chunking(most=4, chars=300))
    assert [len(text) for text in unbroken] == [300, 300, 300, 100]


CHILD = """
import os, signal, sys
from pathlib import Path
from sanderling.world.disk import dense as build
from sanderling.world.disk.embedders import HashedEmbedder
from sanderling.world.disk.store import open_world

directory, kill_at, syncs, real = Path(sys.argv[1]), int(sys.argv[2]), 0, os.fsync

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


@pytest.mark.parametrize("kill_at", [1, 3, 6])
def test_killed_while_it_writes_it_goes_on_to_the_same_bytes(
    tmp_path: Path, kill_at: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(build, "BATCH_PAGES", 10)
    pages = made_pages(33)
    embedded(tmp_path / "whole", world_at(tmp_path / "whole", pages))
    world = world_at(tmp_path / "killed", pages)
    done = subprocess.run([sys.executable, "-c", CHILD, tmp_path / "killed", str(kill_at)], env=os.environ, timeout=60)
    assert done.returncode == -signal.SIGKILL
    before = dense.read_info(tmp_path / "killed" / dense.DIRECTORY)
    assert before is None or (before.world, before.pages % 10) == ("", 0)
    with pytest.raises(UserError, match="world embed"):
        dense.ranked_world(tmp_path / "killed", world, SearchMode.DENSE)
    embedded(tmp_path / "killed", world)
    assert files(tmp_path / "killed") == files(tmp_path / "whole")


def test_new_pages_alone_are_embedded(tmp_path: Path) -> None:
    pages = made_pages(30)
    embedded(tmp_path / "old", world_at(tmp_path / "old", pages[:20]))
    world = world_at(tmp_path / "grown", pages)
    (tmp_path / "old" / dense.DIRECTORY).rename(tmp_path / "grown" / dense.DIRECTORY)
    with pytest.raises(UserError, match=r"holds 20 pages .* \(30 pages\): run `sanderling world embed"):
        dense.ranked_world(tmp_path / "grown", world, SearchMode.DENSE)
    texts: list[str] = []

    class Counting(HashedEmbedder):
        def embed(self, given, kind):
            texts.extend(given)
            return super().embed(given, kind)

    seen: list[int] = []
    for _ in range(2):
        dense.embed_world(tmp_path / "grown", world, Counting(32), SETTINGS, spec="hashed:32", progress=seen.append)
    assert len(texts) == 10 and seen[:20] == list(range(1, 21)) and seen[-1] == 30
    embedded(tmp_path / "fresh", world_at(tmp_path / "fresh", pages))
    assert files(tmp_path / "fresh") == files(tmp_path / "grown")


def test_changed_pages_are_refused(tmp_path: Path) -> None:
    pages = made_pages(12)
    embedded(tmp_path / "old", world_at(tmp_path / "old", pages))
    changed = world_at(tmp_path / "new", [*pages[:5], pages[5].model_copy(update={"text": "another"}), *pages[6:]])
    (tmp_path / "old" / dense.DIRECTORY).rename(tmp_path / "new" / dense.DIRECTORY)
    with pytest.raises(UserError, match="not those"):
        embedded(tmp_path / "new", changed)
    with pytest.raises(UserError, match="not of the world as it is"):
        dense.ranked_world(tmp_path / "new", changed, SearchMode.DENSE)


@pytest.mark.parametrize(
    "other",
    [{"chunking": dense.Chunking(most=1)}, {"prefixes": Prefixes("query: ", "")}, {"precision": "float32"},
     {"dimension": 64, "model": "hashed-1:64"}],
)  # fmt: skip
def test_other_settings_are_refused(tmp_path: Path, other: dict) -> None:
    world = world_at(tmp_path / "w", made_pages(4))
    embedded(tmp_path / "w", world)
    with pytest.raises(UserError, match="remove it to embed again"):
        dense.embed_world(tmp_path / "w", world, EMBEDDER, SETTINGS.model_copy(update=other), spec="x")
    assert SETTINGS.model_copy(update=other).identity != SETTINGS.identity


@pytest.mark.parametrize("name", ["vectors.bin", "owners.bin"])
def test_torn_files_are_told(tmp_path: Path, name: str) -> None:
    world = world_at(tmp_path / "w", made_pages(4))
    embedded(tmp_path / "w", world)
    file = tmp_path / "w" / dense.DIRECTORY / name
    file.write_bytes(file.read_bytes()[:-1])
    with pytest.raises(UserError, match="torn"):
        dense.ranked_world(tmp_path / "w", world, SearchMode.DENSE)
    with pytest.raises(UserError, match="torn"):
        embedded(tmp_path / "w", world)
    (tmp_path / "w" / dense.DIRECTORY / "dense.json").write_text('{"format": 2}')
    with pytest.raises(UserError, match="embed again"):
        dense.ranked_world(tmp_path / "w", world, SearchMode.DENSE)


def test_another_embedder_and_a_world_without_an_index_are_refused(tmp_path: Path) -> None:
    world = world_at(tmp_path / "w", made_pages(2))
    for mode in (SearchMode.DENSE, SearchMode.HYBRID):
        with pytest.raises(UserError, match="no dense index: make one with `sanderling world embed"):
            dense.ranked_world(tmp_path / "w", world, mode)
    assert dense.ranked_world(tmp_path / "w", world, SearchMode.LEXICAL) is world
    dense.embed_world(tmp_path / "w", world, EMBEDDER, SETTINGS, spec="hashed:64")
    with pytest.raises(UserError, match="made by hashed-1:32 with 32 dimensions, and hashed-1:64 has 64"):
        dense.ranked_world(tmp_path / "w", world, SearchMode.DENSE)
