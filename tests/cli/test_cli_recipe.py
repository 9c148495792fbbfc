"""`sanderling recipe` after Ctrl-C: one sentence that says how to go on, and status 130."""

import sys
from pathlib import Path

import pytest

from sanderling.cli import INTERRUPTED, USER_ERROR
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
    assert capsys.readouterr().err == "Interrupted: run the same command again to resume.\n"


def test_a_recipe_without_steps_of_sft_is_refused_before_any_work(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "mine.toml").write_text("")
    monkeypatch.setattr(
        sys, "argv", ["sanderling", "recipe", "run", str(tmp_path / "mine.toml"), "--out", str(tmp_path / "run")]
    )
    with pytest.raises(SystemExit) as stop:
        shell.main()
    assert stop.value.code == USER_ERROR
    assert capsys.readouterr().err == "error: The two SFT arms are compared at equal steps: set sft.max_steps.\n"
    assert not (tmp_path / "run").exists()
