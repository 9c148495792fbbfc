"""`sanderling recipe` after Ctrl-C: one sentence that says how to go on, and status 130."""

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from sanderling.cli import INTERRUPTED
from sanderling.cli import main as shell
from sanderling.cli.recipe import base
from sanderling.core.errors import UserError


def test_a_place_that_cannot_be_written_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match=r"^Cannot use .*file \(File exists\)"):
        base(tmp_path / "file")


def interrupt(*_: object, **__: object) -> None:
    raise KeyboardInterrupt


@pytest.fixture
def call(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    monkeypatch.setenv("TERM", "dumb")
    monkeypatch.setattr("sanderling.recipes.tiny_stages.run_tiny", interrupt)
    monkeypatch.setattr("sanderling.recipes.base.train_base", interrupt)

    def run(*arguments: str) -> str:
        monkeypatch.setattr(sys, "argv", ["sanderling", "recipe", *arguments])
        with pytest.raises(SystemExit) as stop:
            shell.main()
        assert stop.value.code == INTERRUPTED
        return capsys.readouterr().err

    return run


def test_an_interrupted_recipe_goes_on_with_the_same_command(call: Callable[..., str], tmp_path: Path) -> None:
    sentence = "Interrupted: the same command goes on where it stopped.\n"
    assert call("run", "tiny", "--out", str(tmp_path / "run")) == sentence
    assert call("base", "--out", str(tmp_path / "base")) == sentence
