"""``sanderling eval run`` under its guard, as a person calls it: what is hidden, written down, compared and told."""

import io
import json
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from typer.testing import CliRunner, Result

from sanderling.cli.attempting import bar
from sanderling.cli.evaluate import app
from sanderling.core.errors import UserError
from sanderling.core.types import Ending
from sanderling.data.questions import read_questions, write_questions
from sanderling.evaluate.benchmark_files import load_benchmark
from sanderling.evaluate.benchmark_rows import Options
from sanderling.evaluate.benchmarks import BENCHMARKS, get_benchmark
from sanderling.evaluate.log import RunLog
from sanderling.evaluate.result import Episode
from sanderling.evaluate.run import EvalConfig, guard_of
from sanderling.policy.budget import Spending
from sanderling.runs.progress import Report
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


# -- ``sanderling eval list`` and ``eval check`` as a person calls them ----------------------------------------------------


def call(*arguments: object) -> str:
    done = CliRunner().invoke(app, [*map(str, arguments)], env={"COLUMNS": "100"})
    assert done.exit_code == 0, f"{done.output}{done.exception!r}"
    return done.output


def gaia(path: Path, count: int = 4) -> Path:
    rows: list[dict[str, Any]] = [
        {
            "task_id": f"t{number}", "Question": f"How many doves sit on roof {number}?", "Level": number % 2 + 1,
            "Final answer": f"dove {number}", "file_name": "",
        }
        for number in range(count)
    ]  # fmt: skip
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def test_the_list_has_them_all_and_one_is_told_whole() -> None:
    lines = [line.rstrip() for line in call("list").splitlines()]
    assert all(any(line.startswith(f" {key} ") for line in lines) for key in BENCHMARKS)
    assert all(len(line) <= 100 for line in lines)
    words = " ".join(call("list", "browsecomp-plus").split())
    assert (
        BENCHMARKS["browsecomp-plus"].title in words and "not known" in words and BENCHMARKS["browsecomp-plus"].licence in words
    )


def test_a_check_counts_and_shows_no_private_text(tmp_path: Path) -> None:
    path, out = gaia(tmp_path / "metadata.jsonl"), tmp_path / "questions" / "gaia.jsonl"
    told = call("check", "gaia", path, "--out", out)
    assert "4 questions" in told and "Levels: 1 (2), 2 (2)" in told and "165" in told
    assert "doves" not in told and "dove 1" not in told and "H… (29 characters)" in told
    shown = call("check", "gaia", path, "--show")
    assert "How many doves sit on roof 0? → dove 0" in shown
    assert out.stat().st_mode & 0o777 == 0o600
    assert [one.id for one in read_questions(out)] == [f"gaia/t{number}" for number in range(4)]
    assert "doves" not in call("check", "jsonl", out), "a private question stays private in another file"
    assert "--split test" in " ".join(call("check", "gaia", gaia(tmp_path / "300.jsonl", 300)).split())


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("check", "browscomp", "{file}"), "did you mean 'browsecomp'"),
        (("check", "gaia", "{file}", "--split", "valid"), "did you mean 'validation'"),
        (("check", "gaia", "{file}", "--columns", "qestion=Q"), "names no column for question"),
        (("check", "gaia", "{file}", "--columns", "question=A,question=B"), "each once"),
        (("check", "gaia", "{file}", "--columns", "question=Nowhere"), "no column 'Nowhere'"),
        (("check", "gaia", "{file}", "--out", "{file}"), "is read and would be written"),
    ],
)
def test_wrong_options_are_one_sentence(tmp_path: Path, arguments: tuple[str, ...], said: str) -> None:
    file = str(gaia(tmp_path / "metadata.jsonl"))
    done = CliRunner().invoke(app, [one.replace("{file}", file) for one in arguments])
    assert isinstance(done.exception, UserError) and said in str(done.exception)


# -- What a person sees while attempts are made ----------------------------------------------------------------------------


def test_the_bar_counts_each_attempt_once_and_tells_the_last_warning() -> None:
    def episode(number: int, correct: bool | None, ending: Ending = Ending.ANSWERED) -> Episode:
        return Episode("q", number, ending, correct, "m", "w", 1, 0, 0, 1, 1.0)

    out = io.StringIO()
    with Report(Console(file=out, width=120)).task("Browse[bold]Comp", 4) as advance:
        hear = bar(advance, Spending(None))
        hear([episode(0, True)], "")
        hear((), "the server is\x1b away: q #1 is tried again in 4 s.")
        hear([episode(1, None, Ending.POLICY_OUTAGE)], "")
        hear([episode(1, False)], "")
        hear([episode(2, None, Ending.POLICY_OUTAGE)], "")
    shown = out.getvalue()
    assert "Browse[bold]Comp" in shown and "3/4" in shown and "\x1b" not in shown
    assert "1 correct, 1 incorrect, 1 unscored; cost 0; q #2: policy outage" in shown
