"""``sanderling eval list`` and ``eval check`` as a person calls them."""

import csv
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sanderling.cli import main as shell
from sanderling.data.questions import read_questions
from sanderling.evaluate.benchmarks import BENCHMARKS

Call = Callable[..., tuple[int, str, str]]


@pytest.fixture
def call(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Call:
    monkeypatch.setenv("TERM", "dumb")
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "100")

    def run(*arguments: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["sanderling", "eval", *map(str, arguments)])
        with pytest.raises(SystemExit) as stop:
            shell.main()
        out, err = capsys.readouterr()
        return int(stop.value.code or 0), out, err

    return run


def gaia(path: Path, count: int = 4, **changed: Any) -> Path:
    rows = [
        {
            "task_id": f"t{number}",
            "Question": f"How many doves sit on roof {number}?",
            "Level": number % 2 + 1,
            "Final answer": f"dove {number}",
            "file_name": "",
            **changed,
        }
        for number in range(count)
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def test_the_list_has_them_all(call: Call) -> None:
    status, out, _ = call("list")
    lines = [line.rstrip() for line in out.splitlines()]
    assert status == 0 and all(any(line.startswith(f"{key} ") for line in lines) for key in BENCHMARKS)
    assert all(len(line) <= 100 for line in lines)
    status, out, _ = call("list", "--json")
    assert [one["key"] for one in json.loads(out)] == list(BENCHMARKS)


@pytest.mark.parametrize("key", BENCHMARKS)
def test_one_is_told_whole(call: Call, key: str) -> None:
    status, out, _ = call("list", key, "--json")
    told = json.loads(out)
    assert status == 0
    for name in ("title", "about", "obtain", "licence", "published_judge", "source"):
        assert told[name].strip(), name
    for fact in (told["obtain"], told["licence"]):
        assert not fact.startswith("TODO")
    _, out, _ = call("list", key)
    words = " ".join(out.split())
    assert BENCHMARKS[key].title in words and "licence" in words and "get it from" in words
    for unknown in told["not_known"]:
        assert unknown.split()[-1] in words


def test_a_wrong_key_is_one_sentence(call: Call) -> None:
    for words in (("list", "browscomp"), ("check", "browscomp", "x.csv")):
        status, out, err = call(*words)
        assert status == 2 and out == "" and "did you mean 'browsecomp'" in err


def test_a_check_counts_and_shows_no_private_text(call: Call, tmp_path: Path) -> None:
    path = gaia(tmp_path / "metadata.jsonl")
    status, out, _ = call("check", "gaia", path)
    assert status == 0 and "4 questions" in out and "Levels: 1 (2), 2 (2)" in out and "165" in out
    assert "doves" not in out and "dove 1" not in out and "H… (29 characters)" in out
    status, out, _ = call("check", "gaia", path, "--show")
    assert "How many doves sit on roof 0? → dove 0" in out and "not to be published" in out
    told = json.loads(call("check", "gaia", path, "--json")[1])
    assert (told["questions"], told["rows"], told["published"], told["levels"]) == (4, 4, 165, {"1": 2, "2": 2})
    assert "doves" not in json.dumps(told)


def test_ones_own_questions_are_shown(call: Call, tmp_path: Path) -> None:
    path = tmp_path / "own.csv"
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([["Frage", "Antwort"], ["Wer\x1b[2J war das?", "Nolhum"]])
    status, out, err = call("check", "jsonl", path)
    assert status == 2 and "--columns question=NAME" in err and "'Frage', 'Antwort'" in err
    status, out, _ = call("check", "jsonl", path, "--columns", "question=Frage,answer=antwort")
    assert status == 0 and "Nolhum" in out and "\x1b" not in out


def test_what_is_written_is_for_its_owner(call: Call, tmp_path: Path) -> None:
    path, out = gaia(tmp_path / "metadata.jsonl"), tmp_path / "questions" / "gaia.jsonl"
    assert call("check", "gaia", path, "--out", out)[0] == 0
    assert out.stat().st_mode & 0o777 == 0o600
    assert [one.id for one in read_questions(out)] == [f"gaia/t{number}" for number in range(4)]
    status, told, _ = call("check", "jsonl", out)
    assert status == 0 and "doves" not in told, "a private question stays private in another file"
    assert call("check", "gaia", path, "--out", path)[0] == 2


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--split", "valid"), "did you mean 'validation'"),
        (("--columns", "qestion=Q"), "did you mean 'question'"),
        (("--columns", "question"), "question=Prompt"),
        (("--columns", "question=A,question=B"), "keep one"),
        (("--columns", "question=Nowhere"), "no column 'Nowhere'"),
    ],
)
def test_wrong_options_are_one_sentence(call: Call, tmp_path: Path, arguments: tuple[str, ...], said: str) -> None:
    status, out, err = call("check", "gaia", gaia(tmp_path / "metadata.jsonl"), *arguments)
    assert status == 2 and out == "" and said in " ".join(err.split())


def test_what_is_odd_is_noted(call: Call, tmp_path: Path) -> None:
    rows = gaia(tmp_path / "a.jsonl").read_text() + "{broken\n" + gaia(tmp_path / "b.jsonl", 1).read_text()
    path = tmp_path / "both.jsonl"
    path.write_text(
        rows + json.dumps({"task_id": "t9", "Question": "How many doves sit on roof 0?", "Final answer": "?"}) + "\n"
    )
    _, out, _ = call("check", "gaia", path, "--split", "test")
    said = " ".join(out.split())
    assert "Left out: 1 not readable as a row (row 5)" in said and "Left out: 1 with an id that came before (row 6)" in said
    assert "Of 7 rows 2 ought to be questions" in said and "Without an accepted answer in the file: 1 q" in said
    assert "7 rows of the 300" in said and "before them: 1 q" in said


def test_a_split_of_that_size_is_pointed_at(call: Call, tmp_path: Path) -> None:
    path = gaia(tmp_path / "metadata.jsonl", 300)
    assert "--split test" in " ".join(call("check", "gaia", path)[1].split())
