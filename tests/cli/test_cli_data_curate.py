"""The commands that choose and arrange trajectories, from the command line."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from sanderling.cli.data import app
from sanderling.cli.main import build_app
from sanderling.core.errors import UserError
from sanderling.core.record import Question, Trajectory
from sanderling.core.types import Ending
from sanderling.runs.jsonl import write_trajectories


def run(*arguments: object) -> str:
    done = CliRunner().invoke(app, [str(argument) for argument in arguments], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.output


@pytest.fixture
def file(tmp_path: Path) -> Path:
    write_trajectories(
        tmp_path / "in.jsonl",
        [Trajectory(id="a", question=Question(id="a", text="Who?"), nodes=(), leaf=None, ending=None, answer="x")],
    )
    return tmp_path / "in.jsonl"


@pytest.mark.parametrize(
    "arguments",
    [
        ["dedupe", "in.jsonl", "--out", "in.jsonl"],
        ["dedupe", "in.jsonl", "--out", "out.jsonl", "--report", "link"],
        ["dedupe", "in.jsonl", "--out", "out.jsonl", "--report", "out.jsonl"],
        ["resample", "in.jsonl", "--out", "link"],
        ["split", "in.jsonl", "--out", ".", "--share", "in=1"],
        ["stats", "in.jsonl", "--out", "link"],
        ["stats", "in.jsonl", "--out", "p", "--json", "p"],
        ["contamination", "in.jsonl", "--against", "bench.jsonl", "--report", "bench.jsonl"],
        ["judge", "in.jsonl", "--judge", "exact", "--out", "in.jsonl"],
        ["judge", "in.jsonl", "--judge", "exact", "--out", "out.jsonl", "--verdicts", "out.jsonl.judge.json"],
    ],
)
def test_what_is_read_is_never_written(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("bench.jsonl", "out.jsonl.judge.json"):
        (tmp_path / name).write_text("not read")
    (tmp_path / "link").symlink_to(file)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    with pytest.raises(UserError, match=r"is read and would be written|would be written twice"):
        run(*arguments)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["clean", "in.jsonl", "--out", "x.txt"], "x.txt is neither .jsonl nor .parquet"),
        (["dedupe", "in.jsonl", "--out", "x"], "x is neither"),
        (["contamination", "in.jsonl", "--against", "empty.jsonl"], "empty.jsonl holds no question"),
        (["stats", "odd.jsonl"], r"Line 1 of odd.jsonl is damaged \(leaf 7 is not one of the 0 nodes"),
    ],
)
def test_bad_files_are_one_sentence_and_write_nothing(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], told: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty.jsonl").touch()
    (tmp_path / "odd.jsonl").write_text(file.read_text().replace('"leaf":null', '"leaf":7'))
    before = sorted(tmp_path.iterdir())
    with pytest.raises(UserError, match=told):
        run(*arguments)
    assert sorted(tmp_path.iterdir()) == before


def test_numbers_that_are_none_are_refused(file: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="--weights"):
        run("resample", file, "--out", tmp_path / "o.jsonl", "--weights", "1,two,3")


def test_a_file_is_not_cleaned_into_itself(file: Path) -> None:
    with pytest.raises(UserError, match="is read and would be written"):
        run("clean", file, "--out", file)


def test_statistics_go_to_the_terminal_a_page_and_a_file(file: Path, tmp_path: Path) -> None:
    said = run("stats", file, "--out", tmp_path / "page.html", "--json", tmp_path / "figures.json")
    assert "trajectories" in said and json.loads((tmp_path / "figures.json").read_text())[0]["trajectories"] == 1
    assert "<table" in (tmp_path / "page.html").read_text()


def test_a_table_in_a_file_is_as_wide_as_its_figures(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    said = run("stats", *[file] * 9)
    row = next(line for line in said.splitlines() if "trajectories" in line)
    assert row.split() == ["trajectories", *["1"] * 9] and len(row) > 40


@pytest.mark.parametrize(("judge", "told"), [("exact", "incorrect"), ("contains", "correct")])
def test_a_judged_trajectory_is_shown_with_its_verdict(file: Path, tmp_path: Path, judge: str, told: str) -> None:
    asked = Question(id="a", text="Who?", answers=("Ada Vell",))
    done = Trajectory(id="a", question=asked, nodes=(), leaf=None, ending=Ending.ANSWERED, answer="It was Ada Vell.")
    write_trajectories(file, [done])
    assert "judged" not in shown(file)
    run("judge", file, "--judge", judge, "--out", tmp_path / "out.jsonl")
    assert f"judged: {told}\n" in shown(tmp_path / "out.jsonl")


def test_a_rule_that_was_mended_judges_anew(file: Path, tmp_path: Path) -> None:
    asked = Question(id="a", text="Who?", answers=("Ada",))
    write_trajectories(file, [Trajectory(id="a", question=asked, nodes=(), leaf=None, ending=Ending.ANSWERED, answer="Ada")])
    for right, told in (("True", "judged: correct"), ("False", "judged: incorrect")):
        (tmp_path / "rule.py").write_text(f"def by(answer, accepted):\n    return {right}\n")
        words = "data", "judge", file, "--judge", f"{tmp_path / 'rule.py'}:by", "--out", tmp_path / "out.jsonl"
        subprocess.run([sys.executable, "-m", "sanderling", *map(str, words)], check=True)  # a process runs a file once
        assert f"{told}\n" in shown(tmp_path / "out.jsonl")


def shown(file: Path) -> str:
    done = CliRunner().invoke(build_app("show"), ["show", str(file)], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.output


def test_a_file_of_verdicts_that_is_about_nothing_is_said(file: Path, tmp_path: Path) -> None:
    (tmp_path / "by_hand.csv").write_text("id,correct\nnobody,1\n")
    said = run("judge", file, "--judge", "exact", "--out", tmp_path / "out.jsonl", "--verdicts", tmp_path / "by_hand.csv")
    assert "about no trajectory (such as" in said


# -- ``sanderling data import`` as a person runs it ------------------------------------------------------------------------

TALK = [
    {"role": "user", "content": "why?"},
    {"role": "assistant", "content": "<think>\nok\n</think>\n\n<answer>\n42\n</answer>"},
]


def import_file(*arguments):
    return CliRunner().invoke(app, ["import", *map(str, arguments)], catch_exceptions=False)


@pytest.fixture
def source(tmp_path):
    folder = tmp_path / "raw"
    folder.mkdir()
    lines = [{"messages": TALK, "gt": "42"}, {"messages": [*TALK, 7]}, {"question": "q?", "answer": "a"}, {"odd": 1}]
    (folder / "a.jsonl").write_text("\n".join(map(json.dumps, lines)) + "\nnonsense\n")
    return folder


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["none", "--out", "t.jsonl"], "no file or directory"),
        (["raw", "--out", "t.csv"], "neither .jsonl nor .parquet"),
        (["raw"], "give --out FILE"),
        (["raw/a.jsonl", "--out", "raw/a.jsonl"], "read and would be written"),
        (["t.jsonl", "--out", "t"], "neither .jsonl nor .parquet"),
        (["raw", "--out", "t.jsonl", "--questions", "t.jsonl"], "written twice"),
        (["raw", "--out", "t.jsonl", "--questions", "q.parquet"], "q.parquet is not .jsonl"),
        (["old.jsonl.unread.jsonl", "--out", "old.jsonl"], "read and would be written"),
        (["raw", "--out", "folder.jsonl"], "is a folder"),
        (["raw", "--out", "raw/new.jsonl"], "lies in a folder that is read"),
        (["empty", "--out", "t.jsonl"], "holds no recorded file"),
        (["log.json", "--out", "t.jsonl"], "no recorded trajectory"),
    ],
)
def test_bad_commands_are_one_sentence_and_leave_nothing(tmp_path, source, file, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").mkdir()
    (tmp_path / "folder.jsonl").mkdir()
    (tmp_path / "old.jsonl.unread.jsonl").write_text("{}")
    (tmp_path / "log.json").write_text('{"x": 1}')
    before = file.rename(tmp_path / "t.jsonl").read_bytes()
    with pytest.raises(UserError, match=message):
        import_file(*arguments)
    assert (tmp_path / "t.jsonl").read_bytes() == before
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "empty", "folder.jsonl", "log.json", "old.jsonl.unread.jsonl", "raw", "t.jsonl",
    ]  # fmt: skip


def test_what_was_met_and_not_written_is_said(source, tmp_path):
    (source / "notes.json").write_text('{"nothing": 1}')
    said = import_file(source, "--out", tmp_path / "t.jsonl").output
    assert "1 questions were met and not written" in said and "entries could not be read" in said and "no recordings" in said
    said = import_file(source, "--questions", tmp_path / "q.jsonl").output
    assert "trajectories were met and not written" in said
