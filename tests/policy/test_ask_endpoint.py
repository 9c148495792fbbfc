"""``sanderling ask`` against an endpoint: it needs a profile, says when a server is asked again, and closes what it opened."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import typer
from policy_tiny import model_directory
from scripted_server import Answer, plain, serve

from sanderling.cli import exits
from sanderling.cli.ask import ask
from sanderling.core.errors import UserError
from sanderling.policy.endpoint import HttpClient
from sanderling.runs.jsonl import TrajectoryStore
from sanderling.world.contract import Page
from sanderling.world.disk.store import build_world

BUSY = plain({"error": {"message": "slow \x1b[31mdown [bold]"}}, 429, Retry_After="0.001")
REFUSED = plain({"error": {"message": "no such model"}}, 404)
ANSWERED = plain({"choices": [{"message": {"content": "x</think><answer>Kent</answer>"}, "finish_reason": "stop"}]})


@pytest.fixture
def world(tmp_path: Path) -> Path:
    pages = [Page(url="https://w.example/kent", title="Kent", text="The river Kent.")]
    build_world(tmp_path / "w", pages, name="rivers", source="test")
    return tmp_path / "w"


@pytest.fixture
def closed(monkeypatch: pytest.MonkeyPatch) -> list[HttpClient]:
    """The clients that were closed, each while its event loop ran."""
    found: list[HttpClient] = []
    close: Callable[[HttpClient], Any] = HttpClient.aclose

    async def noted(client: HttpClient) -> None:
        await close(client)
        found.append(client)

    monkeypatch.setattr(HttpClient, "aclose", noted)
    return found


def test_a_directory_has_the_tiny_profile(world: Path, tmp_path: Path) -> None:
    with pytest.raises(typer.Exit):  # such a model finds nothing out
        ask("Which river?", world=[world], model=str(model_directory()), max_turns=1, out=tmp_path / "asked.jsonl")
    assert [trajectory.profile for trajectory in TrajectoryStore(tmp_path / "asked.jsonl")] == ["tiny"]


def test_a_server_that_recovers_is_asked_again_in_sight(
    world: Path, closed: list[HttpClient], capsys: pytest.CaptureFixture[str]
) -> None:
    with serve(BUSY, BUSY, ANSWERED) as server:
        ask("Which river?", world=[world], model=f"{server.url}#m", profile="tiny")
    out = capsys.readouterr().out
    assert [f"attempt {number} of 6" in out for number in (2, 3, 4)] == [True, True, False]
    assert "down [bold]" in out and "\x1b[31m" not in out and "Kent" in out
    assert len(closed) == 1


@pytest.mark.parametrize(("answers", "error"), [((BUSY,) * 6, typer.Exit), ((REFUSED,), UserError)])
def test_connections_are_closed_however_it_ends(
    world: Path, closed: list[HttpClient], answers: tuple[Answer, ...], error: type[Exception]
) -> None:
    with serve(*answers) as server, pytest.raises(error) as ended:
        ask("Which river?", world=[world], model=f"{server.url}#m", profile="tiny")
    assert getattr(ended.value, "exit_code", exits.NO_ANSWER) == exits.NO_ANSWER
    assert len(server.asked) == len(answers)
    assert len(closed) == 1
