"""``sanderling synth chains`` and ``difficulty``: an agent's attempts through the one loop, and the bands they give."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from sanderling.cli.synth import app
from sanderling.core.errors import UserError
from sanderling.core.record import Trajectory
from sanderling.core.types import Ending
from sanderling.data.questions import read_questions
from sanderling.runs.jsonl import TrajectoryStore
from sanderling.synth.generate import META, BandSettings, DifficultyConfig, sort_attempts
from sanderling.world.disk.building import build_world
from sanderling.world.encyclopedia import generate_encyclopedia


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    made = generate_encyclopedia(60, 3)
    pages = (item.page for item in made.pages)
    build_world(tmp_path / "world", pages, name=made.name, source="encyclopedia", seed=3)
    return tmp_path / "world"


def run(command: str, *arguments: object) -> str:
    result = CliRunner().invoke(app, [command, *map(str, arguments)], catch_exceptions=False, env={"COLUMNS": "200"})
    assert result.exit_code == 0, result.output
    return result.output


def test_questions_are_sorted_by_how_often_the_agent_is_right(directory, tmp_path):
    questions, out = tmp_path / "q.jsonl", tmp_path / "kept.jsonl"
    told = run("chains", directory, "--out", questions, "--count", 24, "--hops", "1-3")
    assert "24 questions" in told and {q.hops for q in read_questions(questions)} == {1, 2, 3}
    options = (questions, "--world", directory, "--model", "teacher:60/3", "--attempts", 4, "--keep", "1-3", "--out", out)
    told = run("difficulty", *options)
    kept = read_questions(out)
    others = [read_questions(tmp_path / f"kept.{band}.jsonl") for band in ("too-hard", "too-easy", "untold")]
    assert kept and others[1] and not others[2] and len(kept) + sum(map(len, others)) == 24
    assert all(1 <= q.meta[META]["right"] <= 3 and q.meta[META]["scored"] == 4 for q in kept)
    assert all(q.meta[META]["right"] == 4 for q in others[1]) and kept[0].meta[META]["agent"] == "scripted-teacher"
    assert "4/4" in told


def test_the_last_record_of_an_attempt_counts_and_other_words_are_another_question(tmp_path):
    questions, out = tmp_path / "q.jsonl", tmp_path / "kept.jsonl"
    questions.write_text('{"id": "1", "text": "Who?", "answers": ["x"]}\n')
    asked = read_questions(questions)[0]
    for correct in (False, True):
        made = Trajectory(id="1-0", question=asked, nodes=(), leaf=None, ending=Ending.ANSWERED, answer="x")
        record = made.model_copy(update={"meta": {"evaluation": {"correct": correct}}})
        TrajectoryStore(tmp_path / "kept.attempts.jsonl").append(record)
    config = DifficultyConfig(questions=questions, out=out, band=BandSettings(attempts=1, most_right=1))
    assert sort_attempts(config)[1] == {"1/1": 1}
    questions.write_text('{"id": "1", "text": "Where?", "answers": ["x"]}\n')
    with pytest.raises(UserError, match="another question '1'"):
        sort_attempts(config)
    with pytest.raises(UserError, match="is read and would be written"):
        run("difficulty", questions, "--model", "teacher:60/3", "--out", questions)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (("--model", "teacher:60/3", "--keep", "x"), "no range"),
        (("--model", "teacher:60/3", "--keep", "3-9"), "of 8 attempts"),
    ],
)
def test_what_is_wrong_is_one_sentence(tmp_path, options, sentence):
    questions = tmp_path / "q.jsonl"
    questions.write_text('{"id": "1", "text": "Who?", "answers": ["x"]}\n')
    with pytest.raises(UserError, match=sentence):
        run("difficulty", questions, "--out", tmp_path / "o.jsonl", *options)


def test_chains_need_a_generated_world(tmp_path, directory):
    with pytest.raises(UserError, match="upwards from 1"):
        run("chains", directory, "--out", tmp_path / "q.jsonl", "--hops", "0-2")
    with pytest.raises(UserError, match="There is no world"):
        run("chains", tmp_path / "none", "--out", tmp_path / "q.jsonl")
