"""``sanderling eval run`` under its guard, as a person calls it: what is hidden, written down, compared and told."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from sanderling.cli.evaluate import app
from sanderling.core.errors import UserError
from sanderling.data.questions import read_questions, write_questions
from sanderling.evaluate.benchmark_files import load_benchmark
from sanderling.evaluate.benchmark_rows import Options
from sanderling.evaluate.benchmarks import get_benchmark
from sanderling.evaluate.log import RunLog
from sanderling.evaluate.run import EvalConfig, guard_of
from sanderling.synth.chains import chain_questions
from sanderling.world.contract import Page
from sanderling.world.disk.building import build_world
from sanderling.world.encyclopedia import generate_encyclopedia
from sanderling.world.guard import GuardKind

LEAKS = "quiz.example"


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A world with a page for each question that gives it away, and the questions."""
    root = tmp_path_factory.mktemp("leaky")
    made = generate_encyclopedia(60, 3)
    questions = chain_questions(made, 12, 0, {3: 1.0})
    write_questions(root / "q.jsonl", questions)
    told = {f"https://{LEAKS}/{question.id}": f"{question.text} It is {question.answers[0]}." for question in questions}
    leaks = [Page(url=url, title="Quiz", text=text) for url, text in told.items()]
    build_world(root / "world", [*(item.page for item in made.pages), *leaks], name=made.name, source="encyclopedia", seed=3)
    return root


def run(place: Path, out: Path, *more: object, key: str = "jsonl") -> Result:
    arguments = ["run", key, place / "q.jsonl", "--world", place / "world", "--model", "teacher:60/3", "--judge", "exact"]
    return CliRunner().invoke(app, [*map(str, (*arguments, "--out", out, *more))], env={"COLUMNS": "300"})


def read_by(out: Path) -> set[str]:
    """Pages that an attempt saw which give its own question away."""
    return {
        url
        for one in RunLog(out).records()
        for node in one.nodes
        for event in node.events
        for url in event.provenance
        if LEAKS in url and one.question.id.endswith(url.rpartition("/")[2])
    }


def told(result: Result) -> str:
    (line,) = [line for line in result.output.splitlines() if line.startswith("Guard:")]
    return line


def test_pages_that_hold_the_question_are_hidden_written_down_and_told(place: Path, tmp_path: Path) -> None:
    open_, shut = run(place, tmp_path / "open", "--set", "guard=false"), run(place, tmp_path / "shut")
    assert open_.exit_code == shut.exit_code == 0, shut.output
    assert read_by(tmp_path / "open") and not read_by(tmp_path / "shut")
    assert told(open_) == "Guard: off; leaks of the benchmark may have been read."
    lines = [json.loads(line) for line in (tmp_path / "shut" / "guard.jsonl").read_text().splitlines()]
    counts = RunLog(tmp_path / "shut").guard_counts()
    assert {line["kind"] for line in lines} == {"verbatim"} and (hidden := counts.kinds[GuardKind.VERBATIM]) > 0
    assert told(shut).startswith(f"Guard: {hidden} results and pages hidden (0 by address, {hidden} word for word")
    answers = {answer for question in read_questions(place / "q.jsonl") for answer in question.answers}
    assert not any(answer in line["url"] + line["rule"] for line in lines for answer in answers), (
        "the log is no copy of the leak"
    )
    assert not (tmp_path / "open" / "guard.jsonl").exists()


def test_lists_and_logs_that_cannot_be_used_are_refused(place: Path, tmp_path: Path) -> None:
    benchmark, log = get_benchmark("jsonl"), tmp_path / "guard.jsonl"
    loaded = load_benchmark(benchmark, place / "q.jsonl", Options())
    (tmp_path / "bad.txt").write_text("two words\n")
    (tmp_path / "good.txt").write_text("# found by hand\nmirror.example\n")
    for name, on, problem in (
        ("none.txt", True, "There is no blocklist at"),
        ("bad.txt", True, "Line 1 of the blocklist"),
        ("bad.txt", False, "leave one of them out"),
    ):
        with pytest.raises(UserError, match=problem):
            guard_of(benchmark, loaded, EvalConfig(blocklist=(tmp_path / name,), guard=on), log)
    _, guard = guard_of(benchmark, loaded, EvalConfig(blocklist=(tmp_path / "good.txt",)), log)
    assert guard is not None and guard.blocklist.blocks("https://mirror.example/q")
