"""The commands that choose and arrange trajectories, from the command line."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from sanderling.cli.data import app
from sanderling.core.errors import UserError
from sanderling.core.record import Node, NodeKind, Question, Trajectory
from sanderling.core.types import Role
from sanderling.runs.jsonl import write_trajectories


def run(*arguments: object) -> str:
    done = CliRunner().invoke(app, [str(argument) for argument in arguments], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.output


def episode(id: str, text: str, turns: int, correct: bool | None = None) -> Trajectory:
    nodes = [Node(parent=None, role=Role.USER, kind=NodeKind.QUESTION, text=text)]
    nodes += [Node(parent=n, role=Role.ASSISTANT, kind=NodeKind.TURN, text="t") for n in range(turns)]
    meta = {} if correct is None else {"evaluation": {"judge": "exact", "correct": correct, "score": 1.0, "reason": ""}}
    return Trajectory(
        id=id, question=Question(id=id, text=text), nodes=tuple(nodes), leaf=turns, ending=None, answer="x", meta=meta
    )


@pytest.fixture
def file(tmp_path: Path) -> Path:
    rows = [
        episode("a", "Who won the great race of the year?", 3, correct=False),
        episode("b", "who won the great race of the year", 9, correct=True),
        episode("c", "Where is the source of the river that has no name?", 2),
        episode("d", "Tell me: who won the great race of the year?", 1),
    ]
    write_trajectories(tmp_path / "in.jsonl", rows)
    return tmp_path / "in.jsonl"


@pytest.mark.parametrize(
    "arguments",
    [
        ["dedupe", "in.jsonl", "--out", "in.jsonl"],
        ["dedupe", "in.jsonl", "--out", "out.jsonl", "--report", "in.jsonl"],
        ["dedupe", "in.jsonl", "--out", "out.jsonl", "--report", "link"],
        ["dedupe", "in.jsonl", "--out", "out.jsonl", "--report", "out.jsonl"],
        ["resample", "in.jsonl", "--out", "link"],
        ["split", "in.jsonl", "--out", ".", "--share", "in=1"],
        ["stats", "in.jsonl", "--json", "in.jsonl"],
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


def test_numbers_that_are_none_are_refused(file: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="--weights"):
        run("resample", file, "--out", tmp_path / "o.jsonl", "--weights", "1,two,3")
