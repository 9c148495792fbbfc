"""Views of a run, through the libraries themselves where they are installed."""

from pathlib import Path

import pytest

from sanderling.core.errors import UserError
from sanderling.train.metrics import WATCHERS, check_watchers


def test_unknown_and_missing_views_are_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    with pytest.raises(UserError, match="tensorboard, trackio, wandb"):
        check_watchers(["paper"])
    monkeypatch.setattr("sanderling.train.metrics.find_spec", lambda name: None)
    for name in WATCHERS:
        with pytest.raises(UserError, match=f"pip install {name}"):
            check_watchers([name])


def test_tensorboard_has_every_step_once_after_a_resume(tmp_path: Path):
    reader = pytest.importorskip(
        "tensorboard.backend.event_processing.event_accumulator", reason="tensorboard is not installed"
    )
    for first, last in ((1, 5), (4, 6)):  # killed after step 5, whose checkpoint was step 3
        watcher = WATCHERS["tensorboard"](tmp_path, {}, first - 1)
        for step in range(first, last + 1):
            watcher.log(step, {"loss": step + first / 10})
        watcher.close()
    written = reader.EventAccumulator(str(tmp_path / "tensorboard"))
    written.Reload()
    seen = [(event.step, round(event.value, 1)) for event in written.Scalars("loss")]
    assert seen == [(1, 1.1), (2, 2.1), (3, 3.1), (4, 4.4), (5, 5.4), (6, 6.4)]
