"""A private run's files are for their owner alone: its directory, its judges' replies, and its reports."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from inspect_runs import make_run, plain
from typer.testing import CliRunner

from sanderling.cli.evaluate import app
from sanderling.core.errors import UserError
from sanderling.evaluate.log import RunLog
from sanderling.policy.load import ReplyCache
from sanderling.runs.files import close_directory


@pytest.fixture(autouse=True)
def usual_umask() -> Iterator[None]:
    before = os.umask(0o022)
    yield
    os.umask(before)


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


@pytest.mark.parametrize("private", [True, False])
def test_a_private_runs_directory_is_closed(tmp_path: Path, private: bool) -> None:
    make_run(tmp_path / "run", [plain()], 1, private=private)
    assert mode(tmp_path / "run") == (0o700 if private else 0o755)
    (tmp_path / "run").chmod(0o755)
    directory = RunLog(tmp_path / "run")
    directory.write_state(directory.begin(directory.require().about, directory.questions(), 1, "again"), directory.questions())
    assert mode(tmp_path / "run") == (0o700 if private else 0o755), "one that was there as well"
    done = CliRunner().invoke(app, ["report", str(tmp_path / "run"), "--out", str(tmp_path / "out")])
    assert done.exit_code == 0 and {mode(path) for path in (tmp_path / "out").iterdir()} == {0o600 if private else 0o644}


def test_a_directory_for_everybody_is_not_closed(tmp_path: Path) -> None:
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared").chmod(0o1777)
    with pytest.raises(PermissionError):
        close_directory(tmp_path / "shared")
    with pytest.raises(UserError, match="choose another directory"):
        ReplyCache(tmp_path / "shared", private=True)
    with pytest.raises(UserError, match="choose a directory of your own"):
        make_run(tmp_path / "shared", [plain()], 1, private=True)
    assert mode(tmp_path / "shared") == 0o777 and not any((tmp_path / "shared").iterdir())
