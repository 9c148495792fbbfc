"""``sanderling ask`` against an endpoint: it needs a profile."""

from pathlib import Path

import pytest
import typer
from policy_tiny import model_directory
from scripted_server import serve

from sanderling.cli.ask import ask
from sanderling.errors import UserError
from sanderling.protocol.profiles import PROFILES
from sanderling.trajectory.jsonl import TrajectoryStore
from sanderling.world.contract import Page
from sanderling.world.store import build_world


@pytest.fixture
def world(tmp_path: Path) -> Path:
    pages = [Page(url="https://w.example/kent", title="Kent", text="The river Kent.")]
    build_world(tmp_path / "w", pages, name="rivers", source="test")
    return tmp_path / "w"


def test_an_endpoint_needs_a_profile(world: Path) -> None:
    with serve() as server:
        with pytest.raises(UserError) as refused:
            ask("Which river?", world, f"{server.url}#m")
        assert not server.asked
    assert all(name in str(refused.value) for name in ("--profile", *PROFILES))


def test_a_directory_has_the_tiny_profile(world: Path, tmp_path: Path) -> None:
    with pytest.raises(typer.Exit):  # such a model finds nothing out
        ask("Which river?", world, str(model_directory()), max_turns=1, out=tmp_path / "asked.jsonl")
    assert [trajectory.profile for trajectory in TrajectoryStore(tmp_path / "asked.jsonl")] == ["tiny"]
