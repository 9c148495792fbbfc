"""Cells propose, exact scores decide: deterministic, masked exactly, refused when they are of other passages."""

import sys
from pathlib import Path

import pytest
from dense_fakes import made_pages
from typer.testing import CliRunner

from sanderling.cli.world import app
from sanderling.core.errors import UserError
from sanderling.world.contract import answered
from sanderling.world.dense.embedders import HashedEmbedder
from sanderling.world.dense.index import DenseIndex, SearchChoice, SearchMode, open_dense, ranked_world
from sanderling.world.dense.vectors import DIRECTORY, build_cells, embed_world, open_cells, read_arrays, read_info, settings_for
from sanderling.world.store import build_world, open_world

pytest.importorskip("faiss", reason="needs the extra [dense]")
EMBEDDER = HashedEmbedder(64)
QUERIES = ["river poet", "glass island 17", "museum", "zzzz", "", "winter garden music"]


@pytest.fixture(scope="module")
def exact(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, DenseIndex]:
    place = tmp_path_factory.mktemp("cells") / "w"
    build_world(place, made_pages(1_500), name="t", source="test")
    world = open_world(place)
    embed_world(place, world, EMBEDDER, settings_for(EMBEDDER), spec="hashed:64")
    return place, open_dense(place, world.fingerprint, world.page_count, EMBEDDER)


@pytest.fixture(scope="module")
def cells(exact: tuple[Path, DenseIndex]) -> DenseIndex:
    place, plain = exact
    info = read_info(place / DIRECTORY)
    assert info is not None and open_cells(place / DIRECTORY, info) is None
    build_cells(place / DIRECTORY, info, read_arrays(place / DIRECTORY, info)[0])
    found = open_dense(place, info.world, info.pages, EMBEDDER)
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
    embed_world(tmp_path / "new", world, EMBEDDER, settings_for(EMBEDDER), spec="hashed:64")
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
    build_world(tmp_path / "w", made_pages(5), name="t", source="test")
    info = embed_world(tmp_path / "w", open_world(tmp_path / "w"), EMBEDDER, settings_for(EMBEDDER), spec="hashed:64")
    vectors = read_arrays(tmp_path / "w" / DIRECTORY, info)[0]
    with pytest.raises(UserError, match="too few"):
        build_cells(tmp_path / "w" / DIRECTORY, info, vectors)
    monkeypatch.setitem(sys.modules, "faiss", None)
    with pytest.raises(UserError, match=r"pip install '.\[dense\]'"):
        build_cells(tmp_path / "w" / DIRECTORY, info, vectors)
