"""``sanderling eval score`` as a person calls it: others' records joined, judged, measured, reported beside our own."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_files import save
from typer.testing import CliRunner, Result

from sanderling.cli.evaluate import app
from sanderling.core.errors import UserError
from sanderling.core.record import Question, Trajectory, question_id
from sanderling.core.types import Ending
from sanderling.evaluate.log import PeerFacts, RunLog
from sanderling.evaluate.peers import UNMATCHED, Found, Joiner, open_records, planned, rewritten
from sanderling.evaluate.result import EvalResult, JudgedAttempt
from sanderling.judge.verdict import Code
from sanderling.runs.jsonl import write_trajectories
from sanderling.runs.run import RECORDS

ROWS = [
    {"task_id": "t1", "Question": "What is t1?", "Final answer": "one", "Level": 1},
    {"task_id": "t2", "Question": "What is t2?", "Final answer": "two", "Level": 2},
    {"task_id": "t3", "Question": "What is t3?", "Final answer": "three", "Level": 2},
    {"task_id": "t4", "Question": "What is t4?", "Final answer": "four", "Level": 3},
]


SEEN = "<tool_response>\n[]\n</tool_response>"


def benchmark(*rows: tuple[str, str, str]) -> list[Question]:
    """Questions of a benchmark called ``b``: native id, text, accepted answer."""
    return [Question(id=f"b/{native}", text=text, answers=(answer,) if answer else ()) for native, text, answer in rows]


def history(query: str, answer: str | None) -> list[dict[str, Any]]:
    """One search, and an answer between tags; None: last words without any."""
    called = {"id": "1", "type": "function", "function": {"name": "search", "arguments": '{"query": ["a"]}'}}
    last = "I do not know." if answer is None else f"<answer>{answer}</answer>"
    return [
        {"role": "system", "content": "sys"},
        {"role": "user", "content": f"Your task is to answer the user's question: {query}"},
        {"role": "assistant", "content": "", "thought": "hm", "tool_calls": [called]},
        {"role": "user", "content": SEEN},
        {"role": "assistant", "content": last, "thought": "so"},
    ]


def result_of(task: str, query: str, answer: str | None, **changes: Any) -> dict[str, Any]:
    """What AgentToLeaP writes of an attempt."""
    told = {"task_id": task, "query": query, "success": True, "conversation_history": history(query, answer)}
    told |= {"tool_calls": [], "execution_time": 60.0, "interactions": 2, "max_interactions_reached": False, "logprobs": []}
    return told | changes


def save_attempt(folder: Path, task: str, query: str, answer: str | None, **changes: Any) -> Path:
    """An attempt's folder with the files that stand in it."""
    folder.mkdir(parents=True, exist_ok=True)
    told = result_of(task, query, answer, **changes)
    (folder / "result.json").write_text(json.dumps(told, indent=2), encoding="utf-8")
    (folder / "dialog.json").write_text(json.dumps(told["conversation_history"][1:]), encoding="utf-8")
    (folder / "trace.json").write_text("[]", encoding="utf-8")
    (folder / "meta_config.json").write_text(json.dumps({"model": "agent-4b", "provider": "openai"}), encoding="utf-8")
    return folder


def copy_judged(raw: Path, to: Path, task: str, index: int, runs: int, *, right: bool) -> Path:
    """What the harness copies of an attempt once it is judged."""
    name = f"{task}_run_{index}" if runs > 1 else task
    target = to / ("success" if right else "fail") / name
    shutil.copytree(raw / task / f"traj_{index}", target)
    return target


def score(*arguments: object) -> Result:
    return CliRunner().invoke(app, ["score", *map(str, arguments)])


def scored(*arguments: object, out: Path, code: int = 0) -> tuple[EvalResult, PeerFacts, dict[tuple[str, int], JudgedAttempt]]:
    done = score(*arguments, "--out", out)
    assert done.exit_code == code, f"{done.output} {done.exception!r}"
    directory = RunLog(out)
    about = directory.require().about
    assert about.peers is not None
    return EvalResult.load(directory.result_file), about.peers, {one.key: one for one in directory.verdicts()}


@pytest.fixture
def gaia(tmp_path: Path) -> Path:
    return save(tmp_path / "gaia_text.jsonl", ROWS)


@pytest.fixture
def leap(tmp_path: Path) -> Path:
    """Three tasks of four: t1 twice, t2 at the limit and out of order, t3 begun and failed."""
    raw = tmp_path / "eval" / "_temp_raw_outputs" / "gaia_text_m"
    save_attempt(raw / "t1" / "traj_0", "t1", "What is t1?", "one")
    save_attempt(raw / "t1" / "traj_1", "t1", "What is t1?", "uno")
    save_attempt(raw / "t2" / "traj_0", "t2", "What is t2?", None, max_interactions_reached=True)
    save_attempt(raw / "t2" / "traj_3", "t2", "What is t2?", "two")
    save_attempt(raw / "t3" / "traj_0", "t3", "What is t3?", "three", success=False, error="down")
    begun = raw / "t3" / "traj_1"
    begun.mkdir()
    (begun / "trace.json").write_text("[]")
    part = raw / "t1-context-1"
    part.mkdir()
    (part / "dialog.json").write_text(json.dumps(history("What is t1?", "one")))
    judged = tmp_path / "eval" / "gaia_text" / "m"
    copy_judged(raw, judged, "t1", 0, 2, right=True)
    copy_judged(raw, judged, "t1", 1, 2, right=True)
    return tmp_path / "eval"


def test_the_same_command_goes_on_and_other_files_do_not(gaia: Path, leap: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    first = scored(leap, "--benchmark", "gaia-text-103", "--questions", gaia, out=out, code=3)
    written = RunLog(out).episodes()
    again = scored(leap, "--benchmark", "gaia-text-103", "--questions", gaia, out=out, code=3)
    assert RunLog(out).episodes() == written and again[1:] == first[1:]
    with RunLog(out).exclusive():
        log = RunLog(out)
        log.run.table(RECORDS).remove(written[-1].id)  # killed before all records stood there
        log.write_state(log.require().model_copy(update={"finished": False}), log.questions())
        del log
    judged = CliRunner().invoke(app, ["judge", str(out)])
    assert isinstance(judged.exception, UserError) and "go on with sanderling eval score" in str(judged.exception)
    assert scored(leap, "--benchmark", "gaia-text-103", "--questions", gaia, out=out, code=3)[2] == first[2]
    raw = leap / "_temp_raw_outputs" / "gaia_text_m"
    for place, told in ((raw / "t1" / "traj_2", "the records are others"), (raw / "t4" / "traj_0", "questions was 3 and is 4")):
        task = place.parent.name
        save_attempt(place, task, f"What is {task}?", "four")
        done = score(leap, "--benchmark", "gaia-text-103", "--questions", gaia, "--out", out)
        assert isinstance(done.exception, UserError) and "begun with something else" in str(done.exception)
        assert told in str(done.exception)


def test_records_of_another_benchmark_are_unmatched_and_unscored(gaia: Path, leap: Path, tmp_path: Path) -> None:
    raw = leap / "_temp_raw_outputs" / "gaia_text_m"
    save_attempt(raw / "t4" / "traj_0", "t4", "What is something else?", "four")
    result, facts, judged = scored(leap, "--benchmark", "gaia-text-103", "--questions", gaia, out=tmp_path / "run", code=3)
    assert facts.unmatched == {"asked by no question of the benchmark": 1}
    assert judged["unmatched/t4", 0].code is Code.NO_ACCEPTED and judged["unmatched/t4", 0].correct is None
    assert result.pass_at_1.value == pytest.approx(0.5), "it is in no mean"


def reported(out: Path, to: Path, *more: str) -> str:
    done = CliRunner().invoke(app, ["report", str(out), "--out", str(to), *more])
    assert done.exit_code == 0, done.output
    return (to / "report.html").read_text()


def test_records_without_a_benchmarks_file_are_private(leap: Path, tmp_path: Path) -> None:
    _, facts, _ = scored(leap, "--judge", "exact", out=tmp_path / "run", code=3)
    assert facts.benchmark_questions is None and RunLog(tmp_path / "run").require().about.private
    assert "What is t1?" not in reported(tmp_path / "run", tmp_path / "hidden")
    assert "What is t1?" in reported(tmp_path / "run", tmp_path / "shown", "--show-texts")


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("nowhere.jsonl", "--judge", "exact"), "There is no file or folder"),
        (("{leap}",), "nothing says who judges"),
        (("{leap}", "--benchmark", "gaia-text-103"), "Give the file of gaia-text-103 with --questions"),
        (("{leap}", "--judge", "exact", "--canary", "x"), "with --questions"),
        (("{leap}", "--questions", "{gaia}"), "nothing says who judges"),
        (("{leap}", "{gaia}", "--judge", "exact"), "cannot be scored together"),
        (("{gaia}", "--judge", "exact"), "No trajectory can be read"),
        (("{empty}", "--judge", "exact"), "holds no recorded file"),
    ],
)
def test_what_cannot_be_scored(gaia: Path, leap: Path, tmp_path: Path, arguments: tuple[str, ...], told: str) -> None:
    (tmp_path / "empty").mkdir()
    places = {"leap": leap, "gaia": gaia, "empty": tmp_path / "empty"}
    done = score(*(one.format(**places) for one in arguments), "--out", tmp_path / "run")
    assert isinstance(done.exception, UserError) and told in str(done.exception), done.output
    assert not (tmp_path / "run" / "run.db").exists()


def test_a_result_json_of_somebody_else_makes_no_folder_agenttoleaps(leap: Path, tmp_path: Path) -> None:
    """Such as the figures that our own runs write, beside the lines that were exported from one."""
    scored(leap, "--judge", "exact", out=tmp_path / "run", code=3)
    folder = tmp_path / "exported"
    folder.mkdir()
    write_trajectories(folder / "all.jsonl", RunLog(tmp_path / "run").records())
    (folder / "result.json").write_text((tmp_path / "run" / "result.json").read_text())
    _, facts, _ = scored(folder, "--judge", "exact", out=tmp_path / "again", code=3)
    assert facts.layouts == ("sanderling",) and facts.records


def test_agenttoleaps_folders_are_such_by_name_too(leap: Path, tmp_path: Path) -> None:
    """Read as single files, the copies of judged attempts would count as attempts, and what was killed would not."""
    plain, facts, _ = scored(leap, "--judge", "exact", out=tmp_path / "plain", code=3)
    named, by_name, _ = scored(leap, "--judge", "exact", "--set", "layout=agenttoleap", out=tmp_path / "named", code=3)
    assert by_name == facts and facts.lost and named.questions == plain.questions


def test_a_run_is_not_written_into_what_is_read(leap: Path) -> None:
    done = score(leap, "--judge", "exact", "--out", leap / "run")
    assert isinstance(done.exception, UserError) and "lies in a folder that is read" in str(done.exception)


# -- Others' records: AgentToLeaP's folders, which question of a benchmark a record asks, and which attempt each becomes ---


def read(*sources: Path, tasks: frozenset[str] = frozenset()) -> list[Found]:
    return list(open_records(sources, tasks=tasks))


def names(found: list[Found]) -> list[tuple[str, int | None]]:
    return [(one.task, one.number) for one in found]


def raw_of(tmp_path: Path, tasks: dict[str, int]) -> Path:
    raw = tmp_path / "_temp_raw_outputs" / "b_m"
    for task, attempts in tasks.items():
        for number in range(attempts):
            save_attempt(raw / task / f"traj_{number}", task, f"What is {task}?", f"{task}{number}")
    return raw


def test_runs_behind_the_name_and_no_number_at_all(tmp_path: Path) -> None:
    for number in (0, 2):
        save_attempt(tmp_path / f"7_run_{number}", "7", "seven?", "7")
    save_attempt(tmp_path / "8", "8", "eight?", "8")
    save_attempt(tmp_path / "9_run_2", "9_run_2", "nine?", "9")
    assert names(read(tmp_path)) == [("7", 0), ("7", 2), ("8", 0), ("9_run_2", 0)]
    known = read(tmp_path, tasks=frozenset({"9"}))
    assert names(known) == [("7", 0), ("7", 2), ("8", 0), ("9", 2)], "the benchmark's ids decide"


def test_two_records_of_one_attempt_are_refused(tmp_path: Path) -> None:
    for number, folder in enumerate(["a_run_1", "a/traj_1"]):
        save_attempt(tmp_path / folder, "a", "a?", str(number))
    with pytest.raises(UserError, match="both attempt 1 of 'a'"):
        read(tmp_path)


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", "null", "[" * 100_000, '{"task_id": "t"}', '{"messages": [{"role": "user"}]}']
)
def test_a_record_that_is_none_is_lost(tmp_path: Path, text: str) -> None:
    raw = raw_of(tmp_path, {"t": 1, "u": 1})
    (raw / "t" / "traj_0" / "result.json").write_text(text)
    assert [one.lost for one in read(raw)] == [True, False]


# Joining --------------------------------------------------------------------------------------------------------------


# Attempts -------------------------------------------------------------------------------------------------------------

ASKED = benchmark(("1", "Who?", "Ada"), ("2", "Where?", "Lund"), ("3", "When?", ""))
TEXTS = st.sampled_from(["Who?", "Where", "WHEN", "Why?", "", "?"])


def recorded(text: str, answers: tuple[str, ...] = (), number: int = 0) -> Trajectory:
    asked = Question(id=question_id(text), text=text, answers=answers)
    return Trajectory(id=f"file#{number}", question=asked, nodes=(), leaf=None, ending=None, answer="x")


def gone(task: str) -> Trajectory:
    """An attempt without a record."""
    asked = Question(id=task, text="")
    return Trajectory(id="", question=asked, nodes=(), leaf=None, ending=Ending.CANCELLED, detail="gone")


@given(
    st.lists(st.tuples(TEXTS, st.sampled_from([(), ("a",), ("b",)])), min_size=1, max_size=12),
    st.lists(st.sampled_from(["1", "3", "9"]), max_size=3),
    st.booleans(),
)
def test_every_record_is_one_attempt(asked: list[tuple[str, tuple[str, ...]]], lost: list[str], joins: bool) -> None:
    records = [Found(recorded(text, answers, number), "sharegpt") for number, (text, answers) in enumerate(asked)]
    records += [Found(gone(task), "agenttoleap", task, 100 + number) for number, task in enumerate(lost)]
    plan = planned(records, Joiner(ASKED) if joins else None)
    stored = list(rewritten(records, plan))
    assert len(stored) == len({one.id for one in stored}) == len(records) and plan.lost == len(lost)
    assert {one.question.id for one in stored} == plan.questions.keys(), "no question without an attempt"
    assert all(one.id == f"{one.question.id}-{one.seeds.attempt}" for one in stored)
    for question in plan.questions:
        found = sorted(one.seeds.attempt for one in stored if one.question.id == question)
        assert found == list(range(len(found)))
    if joins:
        assert sum(plan.joined.values()) + sum(plan.unmatched.values()) == len(asked)
        assert all(not one.question.answers for one in stored if one.question.id.startswith(UNMATCHED))
    else:
        kept = [(one.question.text, one.question.answers) for one in stored if one.detail != "gone"]
        assert kept == asked, "each is judged by its own accepted answers"
