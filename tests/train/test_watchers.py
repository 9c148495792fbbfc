"""Views of a run, through the libraries themselves where they are installed."""

import sys
from pathlib import Path

import pytest

from sanderling.errors import UserError
from sanderling.train.watchers import WATCHERS, open_watcher


def test_unknown_and_missing_views_are_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    with pytest.raises(UserError, match="tensorboard, trackio, wandb"):
        open_watcher("paper", tmp_path, {}, 0)
    for name, module in (("tensorboard", "torch.utils.tensorboard"), ("trackio", "trackio"), ("wandb", "wandb")):
        monkeypatch.setitem(sys.modules, module, None)
        with pytest.raises(UserError, match=f"pip install {name}"):
            open_watcher(name, tmp_path, {}, 0)


def test_tensorboard_has_every_step_once_after_a_resume(tmp_path: Path):
    reader = pytest.importorskip(
        "tensorboard.backend.event_processing.event_accumulator", reason="tensorboard is not installed"
    )
    for first, last in ((1, 5), (4, 6)):  # killed after step 5, whose checkpoint was step 3
        watcher = open_watcher("tensorboard", tmp_path, {}, first - 1)
        for step in range(first, last + 1):
            watcher.log(step, {"loss": step + first / 10})
        watcher.close()
    events = reader.EventAccumulator(str(tmp_path / "tensorboard"))
    events.Reload()
    assert [(e.step, round(e.value, 1)) for e in events.Scalars("loss")] == [
        (1, 1.1),
        (2, 2.1),
        (3, 3.1),
        (4, 4.4),
        (5, 5.4),
        (6, 6.4),
    ]


def test_trackio_keeps_what_was_logged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    pytest.importorskip("trackio", reason="trackio is not installed")
    monkeypatch.setenv("TRACKIO_DIR", str(tmp_path / "trackio"))
    watcher = open_watcher("trackio", tmp_path / "run", {"lr": 1e-5}, 0)
    watcher.log(1, {"loss": 2.0})
    watcher.close()
    assert any((tmp_path / "trackio").rglob("*")), "it wrote into its own folder"


def test_wandb_offline_stays_in_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    pytest.importorskip("wandb", reason="wandb is not installed")
    monkeypatch.setenv("WANDB_MODE", "offline")
    watcher = open_watcher("wandb", tmp_path, {"lr": 1e-5}, 0)
    watcher.log(1, {"loss": 2.0})
    watcher.close()
    assert list((tmp_path / "wandb").glob("offline-run-*"))


def test_the_table_names_every_view():
    assert sorted(WATCHERS) == ["tensorboard", "trackio", "wandb"]
