"""`sanderling synth graph` and `show` from the command line: questions of an encyclopedia, and wrong wishes in one sentence."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from sanderling.cli.synth import app
from sanderling.core.errors import UserError
from sanderling.data.questions import read_questions
from sanderling.synth.capabilities import Capability
from sanderling.world.contract import Page
from sanderling.world.disk.building import build_world
from sanderling.world.encyclopedia import generate_pages


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("worlds") / "encyclopedia"
    build_world(place, generate_pages(80, 2), name="encyclopedia-80-2", source="encyclopedia --size 80 --seed 2", seed=2)
    return place


def run(*arguments: str) -> str:
    result = CliRunner().invoke(app, list(arguments), catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


def test_questions_are_written_and_shown(world: Path, tmp_path: Path) -> None:
    out = tmp_path / "deep" / "questions.jsonl"
    told = run("graph", str(world), "--out", str(out), "--count", "25", "--seed", "3")
    questions = read_questions(out)
    assert len(questions) == 25
    assert "25 questions" in told
    assert all(f"5 {capability.value}" in told for capability in Capability)
    shown = run("show", str(out), "--most", "1")
    assert questions[0].text in shown and questions[0].answers[0] in shown and "proven" in shown
    assert all(fact["quote"] in shown and fact["url"] in shown for fact in questions[0].meta["facts"])
    assert questions[1].text not in shown


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--size", "6-5"], "size 6-5 does not go upwards"),
        (["--hops", "0"], "hops 0-0 does not go upwards"),
        (["--hops", "many"], "--hops 'many'"),
        (["--size", "2", "--hops", "4"], "raise size"),
    ],
)
def test_a_wrong_wish_is_one_sentence(world: Path, tmp_path: Path, options: list[str], said: str) -> None:
    with pytest.raises(UserError, match=said):
        run("graph", str(world), "--out", str(tmp_path / "q.jsonl"), *options)


def test_a_world_whose_facts_nobody_knows_is_one_sentence(tmp_path: Path) -> None:
    build_world(tmp_path / "w", [Page(url="https://a.example/x", title="x", text="Just words.")], name="w", source="folder")
    with pytest.raises(UserError, match=r"No facts are known.*--model"):
        run("graph", str(tmp_path / "w"), "--out", str(tmp_path / "q.jsonl"))


def test_a_world_that_is_not_there_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no world"):
        run("graph", str(tmp_path / "none"), "--out", str(tmp_path / "q.jsonl"))
