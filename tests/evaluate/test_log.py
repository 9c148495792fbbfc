"""The log of a run: what is stored comes back, in short and whole; and what stands in files of trajectories alone."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest
from inspect_runs import JUDGE, answering, calling, episode, judged, make_run, node, plain, question_node, seen, system
from typer.testing import CliRunner

from sanderling.cli.evaluate import app
from sanderling.cli.main import build_app
from sanderling.core.errors import UserError
from sanderling.core.record import NodeKind, Question, Seeds, Trajectory
from sanderling.core.types import Ending, Role, ToolStatus
from sanderling.data.importing import Import
from sanderling.evaluate.inspect_log import export_run, messages_of, sample_of, scores_of
from sanderling.evaluate.log import About, RunLog, check_same_setup
from sanderling.evaluate.result import JudgedAttempt
from sanderling.judge.verdict import Code
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
    assert list(Import(log.root)) == list(log.records()), "a run is read like a file"
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


# -- A run as a log of Inspect: messages, samples, verdicts, the head, and the file that is written ------------------------


def test_an_observation_answers_its_turns_first_call() -> None:
    turn = calling(1, ("search", {"query": ["a"]}), ("visit", {"url": ["u"]}))
    results = seen(2, ("found", ToolStatus.OK), ("no such page", ToolStatus.NOT_FOUND))
    talk = node(NodeKind.TURN, "I only talk.", 3, Role.ASSISTANT)
    told = messages_of(episode([system(), question_node(), turn, results, talk, seen(4, ("text", ToolStatus.OK))]))
    assert told[3] == {"role": "tool", "content": results.text, "tool_call_id": "2-0", "function": "search"}
    assert told[4]["content"] == [{"type": "text", "text": "I only talk."}]
    assert set(told[5]) == {"role", "content"}, "nobody called"


def sample(trajectory: Trajectory, one: JudgedAttempt | None = None, **more: Any) -> dict[str, Any]:
    scores = scores_of(trajectory, one or judged(trajectory), JUDGE, texts=more.get("texts", True))
    return sample_of(trajectory, scores, **more)


def test_each_judge_has_its_score() -> None:
    one = judged(plain(), reason="yes", second=False, second_reason="no")
    assert scores_of(plain(), one, JUDGE, "second") == {
        JUDGE: {"value": "C", "answer": "Vumhum", "explanation": "yes", "metadata": {"code": "judged"}},
        "second": {"value": "I", "answer": "Vumhum", "explanation": "no"},
    }
    assert scores_of(plain(), judged(plain()), JUDGE, "second")["second"]["reason"] == "not_judged"
    assert scores_of(plain(), None, JUDGE)[JUDGE]["reason"] == "not_judged"
    by_hand = judged(plain(), judge="by hand", code=Code.BY_HAND, correct=False, before={"correct": True}, score=None)
    assert scores_of(plain(), by_hand, JUDGE)[JUDGE]["metadata"] == {"code": "by_hand", "by": "by hand"}


def test_tokens_are_told_where_all_were_counted() -> None:
    counts = {"prompt_tokens": 100, "prefilled_tokens": 30, "sampled_tokens": 7}
    counted = [system(), question_node(), answering(1, rejected=True, **counts), answering(1, **counts)]
    usage = {"input_tokens": 200, "output_tokens": 14, "total_tokens": 214}
    found = sample(episode(counted))
    assert found["model_usage"] == {"sanderling/made-up": usage} and found["metadata"]["rejected_turns"] == 1
    unknown = [system(), question_node(), answering(1, prompt_tokens=100), answering(1, **counts)]
    assert sample(episode(unknown))["model_usage"] == {}, "a sum with a hole is no sum"


def test_an_archive_holds_samples_summaries_and_head(tmp_path: Path) -> None:
    stored = [episode(ending=Ending.POLICY_OUTAGE), plain(attempt=1), plain(answer="the \ud800 town")]
    make_run(tmp_path / "run", stored, 2).append(plain(attempt=2))
    path = tmp_path / "new" / "a.eval"
    assert export_run(tmp_path / "run", path, texts=True) == 2
    with ZipFile(path) as archive:
        found = {name: json.loads(archive.read(name)) for name in archive.namelist()}
    assert sorted(found) == ["header.json", "samples/q/1_epoch_1.json", "samples/q/1_epoch_2.json", "summaries.json"]
    assert [(one["id"], one["turn_count"]) for one in found["summaries.json"]] == [("q/1", 2)] * 2
    assert found["samples/q/1_epoch_1.json"]["scores"]["exact"]["answer"] == "the ? town", "the last record counts"
    assert [one.name for one in path.parent.iterdir()] == ["a.eval"]


@pytest.mark.parametrize(("more", "shown"), [([], False), (["--show-texts"], True), (["--no-texts"], False)])
def test_private_texts_are_left_out_unless_asked_for(tmp_path: Path, more: list[str], shown: bool) -> None:
    make_run(tmp_path / "run", [plain()], 1, private=True)
    done = CliRunner().invoke(app, ["export", str(tmp_path / "run"), "--out", str(tmp_path / "a.eval"), *more])
    assert done.exit_code == 0 and "1 attempts" in done.output and ("left out" in done.output) is not shown
    with ZipFile(tmp_path / "a.eval") as archive:
        inside = "".join(archive.read(name).decode() for name in archive.namelist())
    assert ("Which town" in inside) == ("Vumhum" in inside) == ("[1] Town" in inside) == shown


def test_bad_input(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="ends in"):
        export_run(tmp_path, tmp_path / "a.zip", texts=True)
    with pytest.raises(UserError, match="no run of an evaluation"):
        export_run(tmp_path, tmp_path / "a.eval", texts=True)
    make_run(tmp_path / "run", [plain()], 1).result_file.unlink()
    with pytest.raises(UserError, match="run the evaluation"):
        export_run(tmp_path / "run", tmp_path / "a.eval", texts=True)
    assert not (tmp_path / "a.eval").exists()
