"""``sanderling world push``: from a world to a directory that stands for it, searched and visited like one."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from sanderling.cli.world import app
from sanderling.core.errors import UserError
from sanderling.world.contract import Page
from sanderling.world.disk.store import build_world

pytest.importorskip("pymilvus", reason="needs the extra [milvus]")
pytest.importorskip("milvus_lite", reason="needs milvus-lite")
PAGES = [
    Page(url="https://w.example/h", title="Herring", text="Herring are silvery fish. They school in the north."),
    Page(url="https://w.example/o", title="Orlo", text="Orlo is a town. It was founded in 1203 by a poet."),
]


def run(*arguments: object) -> str:
    result = CliRunner().invoke(app, [str(a) for a in arguments], catch_exceptions=False, env={"COLUMNS": "200"})
    assert result.exit_code == 0, result.output
    return result.output


def test_a_pushed_world_is_used_like_any_other(tmp_path: Path) -> None:
    world, there = tmp_path / "w", tmp_path / "there"
    build_world(world, PAGES, name="t", source="test")
    uri = tmp_path / "lite.db"
    assert "2 pages and 0 passages are on" in run("push", world, "--milvus", uri, "--out", there)
    with pytest.raises(UserError, match="no dense index"):
        run("search", there, "herring", "--search", "dense")
    run("embed", world, "--embedder", "hashed:64")
    assert "2 pages and 2 passages" in run("push", world, "--milvus", uri, "--out", there, "--vectors", "FLAT")
    assert "Orlo" in run("search", there, "founded poets", "--search", "hybrid", "--limit", 1)
    assert "founded in 1203" in run("visit", there, "w.example/o", "--goal", "founded")
    assert "pages" in run("info", there)
