"""The log of a run: what is stored comes back, in short and whole; and what stands in files of trajectories alone."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from inspect_runs import make_run, plain
from typer.testing import CliRunner

from sanderling.cli.evaluate import app
from sanderling.cli.main import build_app
from sanderling.core.errors import UserError
from sanderling.core.record import Question, Seeds, Trajectory
from sanderling.core.types import Ending
from sanderling.evaluate.log import About, RunLog, check_same_setup
from sanderling.policy.clients import ReplyCache
from sanderling.runs.files import close_directory
from sanderling.runs.jsonl import TrajectoryStore
from sanderling.runs.run import RECORDS, Run

VERDICT = {"judge": "exact", "correct": True, "score": 1.0, "reason": "alike"}


def record(number: int, answer: str | None = "Oslo", **meta: object) -> Trajectory:
    question = Question(id=f"q{number}", text=f"What is {number}?", answers=("Oslo",))
    return Trajectory(
        id=f"q{number}-0", question=question, nodes=(), leaf=None, ending=Ending.ANSWERED, answer=answer,
        seeds=Seeds(run=3, attempt=0), meta=meta, model="m", profile="tiny",
    )  # fmt: skip


def test_a_later_verdict_stands_in_short_and_no_record_is_written_twice(tmp_path: Path) -> None:
    log = RunLog(tmp_path)
    first = log.append(record(0))
    mended = record(0).question.model_copy(update={"answers": ("Bergen",)})
    later = log.judged(first, mended, VERDICT)
    assert later.ruling("exact", mended) is True and later.ruling("exact", record(0).question) is None
    assert log.episodes() == [later] and log.record(later) == record(0)


def test_what_another_version_wrote_is_told(tmp_path: Path) -> None:
    with Run(tmp_path) as run:
        run.table(RECORDS).put("q0-0", {"id": 3})
        run.table("about").put("evaluation", {"schema_version": 9})
        log = RunLog(tmp_path)
        for look in (log.episodes, log.read):
            with pytest.raises(UserError, match="another version of sanderling, or is damaged"):
                look()


def test_attempts_of_another_agent_are_refused(tmp_path: Path) -> None:
    made = {"agent": "m", "profile": {"name": "tiny"}, "world": {"name": "w", "fingerprint": "f"}, "judge": "exact"}
    store = TrajectoryStore(tmp_path / "t.jsonl")
    with Run(tmp_path) as run:
        check_same_setup(run, made, store, store.path)
        check_same_setup(run, made | {"agent": "other"}, store, store.path)  # nothing is made yet
        store.append(record(0))
        with pytest.raises(UserError, match="agent was"):
            check_same_setup(run, made, store, store.path)
        check_same_setup(run, made | {"agent": "other", "judge": "f1"}, store, store.path)


def test_a_run_gives_its_attempts_back_as_lines(tmp_path: Path) -> None:
    log, out = RunLog(tmp_path / "run"), tmp_path / "t.jsonl"
    about = About(benchmark="", questions=2, questions_sha256="", seed=3)
    with log.exclusive():
        log.begin(about, [record(0).question, record(1).question], 1, "c")
        for number in range(2):
            log.append(record(number))
    done = CliRunner().invoke(app, ["export", str(log.root), "--out", str(out)])
    assert done.exit_code == 0 and list(TrajectoryStore(out)) == list(log.records()) == [record(0), record(1)]
    shown = CliRunner().invoke(build_app("show"), ["show", str(log.root), "--id", "q1-0"])
    assert shown.exit_code == 0 and "What is 1?" in shown.output
    with log.exclusive():
        log.write_state(log.require().model_copy(update={"about": about.model_copy(update={"private": True})}), [])
    refused = CliRunner().invoke(app, ["export", str(log.root), "--out", str(out)])
    assert isinstance(refused.exception, UserError) and "--show-texts" in str(refused.exception)


def test_where_there_is_no_run(tmp_path: Path) -> None:
    log = RunLog(tmp_path / "none")
    assert (log.read(), log.episodes(), log.verdicts(), log.judged_by(), list(log.records())) == (None, [], [], None, [])
    with pytest.raises(UserError, match="is no run of an evaluation"):
        log.require()
    assert not (tmp_path / "none").exists()
    private = tmp_path / "file"
    private.write_text("")
    about = About(benchmark="", questions=0, questions_sha256="", seed=0)
    with pytest.raises(UserError):
        RunLog(private / "run").begin(about, [], 1, "c")


# A private run's files are for their owner alone --------------------------------------------------------------------------


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
