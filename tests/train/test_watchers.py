"""Views of a run, through the libraries themselves where they are installed."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from sanderling.core.errors import UserError
from sanderling.train.metrics import WATCHERS, check_watchers, open_watcher


def test_unknown_and_missing_views_are_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    with pytest.raises(UserError, match="tensorboard, trackio, wandb"):
        open_watcher("paper", tmp_path, {}, 0)
    monkeypatch.setattr("sanderling.train.metrics.find_spec", lambda name: None)
    for name in WATCHERS:
        with pytest.raises(UserError, match=f"pip install {name}"):
            check_watchers([name])


def test_tensorboard_has_every_step_once_after_a_resume(tmp_path: Path):
    reader = pytest.importorskip(
        "tensorboard.backend.event_processing.event_accumulator", reason="tensorboard is not installed"
    )
    for first, last in ((1, 5), (4, 6)):  # killed after step 5, whose checkpoint was step 3
        watcher = open_watcher("tensorboard", tmp_path, {}, first - 1)
        for step in range(first, last + 1):
            watcher.log(step, {"loss": step + first / 10})
        watcher.close()
    written = reader.EventAccumulator(str(tmp_path / "tensorboard"))
    written.Reload()
    seen = [(event.step, round(event.value, 1)) for event in written.Scalars("loss")]
    assert seen == [(1, 1.1), (2, 2.1), (3, 3.1), (4, 4.4), (5, 5.4), (6, 6.4)]


TRACKED = """
import os
import re
import subprocess
import sys
from pathlib import Path
from sanderling.train.metrics import open_watcher
watcher = open_watcher("trackio", Path(sys.argv[1]), {"lr": 1e-5}, 0)
watcher.log(1, {"loss": 2.5})
watcher.close()
import trackio
from trackio.sqlite_storage import SQLiteStorage
(run,) = trackio.Api().runs("sanderling")
print("seen", run.name, [(one["step"], one["loss"]) for one in SQLiteStorage.get_logs("sanderling", run.name)])
"""


def test_trackio_keeps_what_was_logged(tmp_path: Path):
    pytest.importorskip("trackio", reason="trackio is not installed")
    done = subprocess.run(
        [sys.executable, "-c", TRACKED, str(tmp_path / "my run")],
        env={**os.environ, "TRACKIO_DIR": str(tmp_path / "trackio")},  # it is read once, when the library is imported
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert re.search(r"seen my run-[0-9a-f]{8} \[\(1, 2\.5\)\]", done.stdout), done.stderr


def test_wandb_offline_stays_in_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    pytest.importorskip("wandb", reason="wandb is not installed")
    monkeypatch.setenv("WANDB_MODE", "offline")
    watcher = open_watcher("wandb", tmp_path, {"lr": 1e-5}, 0)
    watcher.log(1, {"loss": 2.0})
    watcher.close()
    assert list((tmp_path / "wandb").glob("offline-run-*"))
