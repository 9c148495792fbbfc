"""``sanderling synth mix``: files of questions to files of stages."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from sanderling.cli.synth import app
from sanderling.core.errors import UserError
from sanderling.core.record import Question
from sanderling.data.questions import read_questions, write_questions

PLAN = """
seed = 1
[[stages]]
name = "first"
count = 8
parts = [{share = 3, maker = ["facts"]}, {share = 1, maker = ["graph"]}]
[[stages]]
name = "second"
count = 100
"""


@pytest.fixture
def plan(tmp_path: Path) -> Path:
    path = tmp_path / "mix.toml"
    path.write_text(PLAN)
    return path


def write(path: Path, maker: str, count: int) -> Path:
    write_questions(path, [Question(id=f"{maker}{n}", text=f"Q{n}?", meta={"maker": maker}) for n in range(count)])
    return path


def run(*arguments: object) -> str:
    result = CliRunner().invoke(app, ["mix", *map(str, arguments)], catch_exceptions=False, env={"COLUMNS": "200"})
    assert result.exit_code == 0, result.output
    return result.output


def test_stages_become_files(tmp_path, plan):
    facts, graphs = write(tmp_path / "f.jsonl", "facts", 20), write(tmp_path / "g.jsonl", "graph", 5)
    said = run(facts, graphs, "--plan", plan, "--out", tmp_path / "stages")
    first = read_questions(tmp_path / "stages" / "first.jsonl")
    second = read_questions(tmp_path / "stages" / "second.jsonl")
    assert sorted(q.meta["maker"] for q in first) == ["facts"] * 6 + ["graph"] * 2
    assert len(second) == 17 and "17 (17 of 100: a part ran short)" in said


def test_what_is_wrong_is_one_sentence(tmp_path, plan):
    facts = write(tmp_path / "f.jsonl", "facts", 3)
    with pytest.raises(UserError, match="no question for its part"):
        run(facts, "--plan", plan, "--out", tmp_path / "s")
    with pytest.raises(UserError, match="did you mean stages"):
        run(facts, "--plan", plan, "--out", tmp_path / "s", "--set", "stage=3")
    with pytest.raises(UserError, match="no question"):
        run(write(tmp_path / "e.jsonl", "facts", 0), "--plan", plan, "--out", tmp_path / "s")
