"""``sanderling data import`` as a person runs it."""

import json

import pytest
from typer.testing import CliRunner

from sanderling.cli.data import app
from sanderling.core.errors import UserError

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


def test_what_was_met_and_not_written_is_said(source, tmp_path):
    (source / "notes.json").write_text('{"nothing": 1}')
    said = run(source, "--out", tmp_path / "t.jsonl").output
    assert "1 questions were met and not written" in said and "entries could not be read" in said and "no recordings" in said
    said = run(source, "--questions", tmp_path / "q.jsonl").output
    assert "trajectories were met and not written" in said
