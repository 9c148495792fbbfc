"""`sanderling recipe` after Ctrl-C: one sentence that says how to go on, and status 130."""

import sys
from pathlib import Path

import pytest

from sanderling.cli import INTERRUPTED
from sanderling.cli import main as shell


def interrupt(*_: object, **__: object) -> None:
    raise KeyboardInterrupt


def test_an_interrupted_recipe_goes_on_with_the_same_command(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setenv("TERM", "dumb")
    monkeypatch.setattr("sanderling.recipes.tiny_stages.run_tiny", interrupt)
    monkeypatch.setattr(sys, "argv", ["sanderling", "recipe", "run", "tiny", "--out", str(tmp_path / "run")])
    with pytest.raises(SystemExit) as stop:
        shell.main()
    assert stop.value.code == INTERRUPTED
    assert capsys.readouterr().err == "Interrupted: the same command goes on where it stopped.\n"
