"""``sanderling eval list`` and ``eval check`` as a person calls them."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from sanderling.cli.evaluate import app
from sanderling.core.errors import UserError
from sanderling.data.questions import read_questions
from sanderling.evaluate.benchmarks import BENCHMARKS


def call(*arguments: object) -> str:
    done = CliRunner().invoke(app, [*map(str, arguments)], env={"COLUMNS": "100"})
    assert done.exit_code == 0, f"{done.output}{done.exception!r}"
    return done.output


def gaia(path: Path, count: int = 4) -> Path:
    rows: list[dict[str, Any]] = [
        {
            "task_id": f"t{number}",
            "Question": f"How many doves sit on roof {number}?",
            "Level": number % 2 + 1,
            "Final answer": f"dove {number}",
            "file_name": "",
        }
        for number in range(count)
    ]
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
