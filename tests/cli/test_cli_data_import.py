"""``sanderling data import`` as a person runs it."""

import json

import pytest
from typer.testing import CliRunner

from sanderling.cli.data import app
from sanderling.core.errors import UserError
from sanderling.data.importing import open_trajectories
from sanderling.data.questions import read_questions

TALK = [
    {"role": "user", "content": "why?"},
    {"role": "assistant", "content": "<think>\nok\n</think>\n\n<answer>\n42\n</answer>"},
]


def run(*arguments):
    return CliRunner().invoke(app, ["import", *map(str, arguments)], catch_exceptions=False)


@pytest.fixture
def source(tmp_path):
    folder = tmp_path / "raw"
    folder.mkdir()
    lines = [{"messages": TALK, "gt": "42"}, {"messages": [*TALK, 7]}, {"question": "q?", "answer": "a"}, {"odd": 1}]
    (folder / "a.jsonl").write_text("\n".join(map(json.dumps, lines)) + "\nnonsense\n")
    return folder


@pytest.mark.parametrize("suffix", ["jsonl", "parquet"])
def test_a_folder_becomes_a_store_with_its_report(tmp_path, source, suffix):
    out, questions = tmp_path / "made" / f"t.{suffix}", tmp_path / "made" / "q.jsonl"
    done = run(source, "--out", out, "--questions", questions)
    assert done.exit_code == 0 and "dr-venus-sft" in done.output and f"t.{suffix}.unread.jsonl" in done.output.replace("\n", "")
    found = list(open_trajectories(out))
    assert [t.id for t in found] == ["raw/a#0", "raw/a#1"] and found[1].nodes[2].raw == {"message": 7}
    assert [q.text for q in read_questions(questions)] == ["q?"]
    told = json.loads((tmp_path / "made" / f"t.{suffix}.import.json").read_text())
    assert (told["entries"], told["trajectories"], told["questions"], told["unread"], told["raw"]) == (5, 2, 1, 2, 1)
    assert {odd["code"]: odd["count"] for odd in told["odd"]}["odd_entry"] == 1
    unread = (tmp_path / "made" / f"t.{suffix}.unread.jsonl").read_text().splitlines()
    assert list(map(json.loads, unread)) == [
        {"place": "raw/a#3", "code": "odd_entry", "value": {"odd": 1}},
        {"place": "raw/a#4", "code": "unreadable_line", "value": "nonsense"},
    ]
    assert sorted(path.name for path in out.parent.iterdir() if "partial" in path.name or path.name.startswith(".")) == []


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
def test_bad_commands_are_one_sentence_and_leave_nothing(tmp_path, source, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").mkdir()
    (tmp_path / "folder.jsonl").mkdir()
    (tmp_path / "old.jsonl.unread.jsonl").write_text("{}")
    (tmp_path / "log.json").write_text('{"x": 1}')
    (tmp_path / "t.jsonl").write_text("before")
    with pytest.raises(UserError, match=message):
        run(*arguments)
    assert (tmp_path / "t.jsonl").read_text() == "before"
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "empty",
        "folder.jsonl",
        "log.json",
        "old.jsonl.unread.jsonl",
        "raw",
        "t.jsonl",
    ]
