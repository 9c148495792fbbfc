"""The log of a run: what is stored comes back, in short and whole; and what stands in files of trajectories alone."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from sanderling.cli.evaluate import app
from sanderling.cli.main import build_app
from sanderling.core.errors import UserError
from sanderling.core.record import Question, Seeds, Trajectory
from sanderling.core.types import Ending
from sanderling.evaluate.log import About, RunLog, check_same_setup
from sanderling.evaluate.result import asked_digest
from sanderling.judge.verdict import META_KEY
from sanderling.runs.jsonl import TrajectoryStore
from sanderling.runs.run import RECORDS, Run

VERDICT = {"judge": "exact", "correct": True, "score": 1.0, "reason": "alike"}


def record(number: int, answer: str | None = "Oslo", **meta: object) -> Trajectory:
    question = Question(id=f"q{number}", text=f"What is {number}?", answers=("Oslo",))
    return Trajectory(
        id=f"q{number}-0", question=question, nodes=(), leaf=None, ending=Ending.ANSWERED, answer=answer,
        seeds=Seeds(run=3, attempt=0), meta=meta, model="m", profile="tiny",
    )  # fmt: skip


def test_an_episode_says_what_its_record_says(tmp_path: Path) -> None:
    log = RunLog(tmp_path)
    log.append(record(0))
    one = log.append(record(1, "Oslo", **{META_KEY: VERDICT}))
    assert RunLog(tmp_path).episodes() == log.episodes() and one == log.episodes()[1]
    assert (one.id, one.key, one.seed, one.answer, one.profile) == ("q1-0", ("q1", 0), 3, "Oslo", "tiny")
    asked = record(1).question
    assert one.ruling("exact", asked) is True and one.ruling("f1", asked) is None
    assert one.ruling("exact", asked.model_copy(update={"answers": ("Bergen",)})) is None
    assert one.correct is None and one.model == "m"
    assert RunLog(tmp_path).record(one).id == "q1-0" and [whole.id for whole in log.records()] == ["q0-0", "q1-0"]
    case = one.case(asked)
    assert (case.id, case.answer, case.ending, case.question) == ("q1-0", "Oslo", Ending.ANSWERED, asked)


@given(st.text(st.characters(), max_size=40) | st.just("half \ud83d of a pair") | st.none())
@settings(max_examples=60, deadline=None)
def test_any_answer_comes_back(tmp_path_factory: pytest.TempPathFactory, answer: str | None) -> None:
    root = tmp_path_factory.mktemp("any")
    one = RunLog(root).append(record(0, answer))
    assert RunLog(root).episodes() == [one] and one.answer == answer == next(RunLog(root).records()).answer


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


def test_masks_and_words_make_the_question_blanks_do_not_hide() -> None:
    question = record(0).question
    other = [{"text": "What?"}, {"masked_urls": ("https://a.example",)}]
    same = [{"answers": ("Bergen",)}, {"hops": 3}, {"meta": {"level": "1"}}]
    digests = [asked_digest(question.model_copy(update=change)) for change in (*other, *same)]
    assert digests[2:] == [asked_digest(question)] * 3 and len(set(digests)) == 3
    twice = {"masked_urls": ("https://b.example", "https://a.example", "https://b.example")}
    once = {"masked_urls": ("https://a.example", "https://b.example")}
    assert asked_digest(question.model_copy(update=twice)) == asked_digest(question.model_copy(update=once))


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
