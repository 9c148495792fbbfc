"""``sanderling world embed`` and ``--search``: from no index to hybrid results; one sentence for what cannot be done."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from sanderling.cli.world import app
from sanderling.core.errors import UserError
from sanderling.world.contract import Page
from sanderling.world.disk.store import build_world

PAGES = [
    Page(url="https://w.example/h", title="Herring", text="Herring are silvery fish. They school in the north."),
    Page(url="https://w.example/o", title="Orlo", text="Orlo is a town. It was founded in 1203 by a poet."),
    Page(url="https://w.example/g", title="Glass", text="Glass is blown in winter. " * 300),
]


def run(*arguments: object) -> str:
    result = CliRunner().invoke(app, [str(a) for a in arguments], catch_exceptions=False, env={"COLUMNS": "200"})
    assert result.exit_code == 0, result.output
    return result.output


@pytest.fixture
def world(tmp_path: Path) -> Path:
    build_world(tmp_path / "w", PAGES, name="t", source="test")
    return tmp_path / "w"


def test_from_no_index_to_hybrid_results(world: Path) -> None:
    assert "dense search  none" in run("info", world)
    with pytest.raises(UserError, match="no dense index: make one"):
        run("search", world, "herring", "--search", "hybrid")
    with pytest.raises(UserError, match="Name the embedder"):
        run("embed", world)
    assert "3 pages as 6 passages of 64 dimensions by hashed-1:64" in run("embed", world, "--embedder", "hashed:64")
    assert "3 pages as 6 passages, 64 dimensions by hashed-1:64 " in run("info", world)
    assert "Herring" in run("search", world, "herrings", "--search", "dense", "--limit", 1)
    assert "Orlo" in run("search", world, "founded poets", "--search", "hybrid", "--limit", 1)
    assert "Orlo" in run("search", world, "founded by", "--search", "hybrid", "--profile", "tiny", "--faults", "web")
    assert "No results." in run("search", world, "zzzz")


def test_what_cannot_be_embedded_is_one_sentence(world: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="There is no world at"):
        run("embed", tmp_path / "none", "--embedder", "hashed")
    with pytest.raises(UserError, match="There is no embedder 'word2vec'"):
        run("embed", world, "--embedder", "word2vec")
    assert not (world / "dense" / "dense.json").exists()
