"""``sanderling eval run gaia`` from the publisher's file to the printed figures, with a model behind a real chat server.

Rows, questions and answers are made up; columns, levels and the folder are those of the published file.
"""

import json
import re
from pathlib import Path

import pytest
from billing_server import billing
from typer.testing import CliRunner, Result

from sanderling.cli.evaluate import app
from sanderling.evaluate.log import RunLog
from sanderling.evaluate.result import EvalResult
from sanderling.synth.chains import chain_questions
from sanderling.world.disk.store import build_world
from sanderling.world.encyclopedia import generate_encyclopedia

WITH_FILE = (4, 9)
"""Places of rows about an attached file."""
GIVEN_OTHERWISE = {0: ("1250", "$1,250"), 1: ("red, 7", "Red; 7.0"), 2: ("Saint-Malo", "saint malo")}
"""Accepted answers that only GAIA's own rule finds in what the agent says."""


def rows() -> list[dict]:
    """Twelve rows, four of each level."""
    world = generate_encyclopedia(60, 3)
    found = []
    for place, question in enumerate(chain_questions(world, 12, 0, {2: 1.0})):
        accepted, _ = GIVEN_OTHERWISE.get(place, (question.answers[0], ""))
        found.append(
            {
                "task_id": f"{place:08x}-0000-4000-8000-000000000000",
                "Question": question.text,
                "Level": place % 3 + 1,
                "Final answer": accepted,
                "file_name": f"{place}.xlsx" if place in WITH_FILE else "",
                "Annotator Metadata": {
                    "Steps": "1. Look.",
                    "Number of steps": "1",
                    "Tools": "1. Search",
                    "Number of tools": "1",
                },
            }
        )
    return found


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small world, and the data set's folder."""
    root = tmp_path_factory.mktemp("gaia")
    world = generate_encyclopedia(60, 3)
    build_world(root / "world", [item.page for item in world.pages], name=world.name, source="encyclopedia", seed=3)
    folder = root / "GAIA" / "2023" / "validation"
    folder.mkdir(parents=True)
    (folder / "metadata.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows()))
    return root


def agent(messages: list[dict[str, str]], before: int) -> str | int:
    """Searches once, then answers: level 1 right, level 2 in every second attempt, level 3 wrong, but for odd writings."""
    told = " ".join(message["content"] for message in messages)
    number, row = next((place, row) for place, row in enumerate(rows()) if row["Question"] in told)
    if sum(message["role"] == "assistant" for message in messages) == 0:
        call = {"name": "search", "arguments": {"query": [row["Question"]]}}
        return f"look\n</think>\n<tool_call>\n{json.dumps(call)}\n</tool_call>"
    _, odd = GIVEN_OTHERWISE.get(number, ("", ""))
    right = odd or (row["Level"] == 1 or (row["Level"] == 2 and before % 2 == 0))
    return f"so\n</think>\n<answer>{odd or (row['Final answer'] if right else 'nobody knows')}</answer>"


def run(place: Path, url: str, out: Path, *more: object) -> Result:
    arguments = ["run", "gaia", place / "GAIA", "--set", "split=validation", "--world", place / "world", "--model", f"{url}#m"]
    wanted = [*map(str, (*arguments, "--profile", "tiny", "--attempts", 2, "--concurrency", 1, "--out", out, *more))]
    return CliRunner().invoke(app, wanted, env={"COLUMNS": "200"})


def test_from_the_file_to_the_figures(place: Path, tmp_path: Path) -> None:
    with billing(agent) as server:
        done = run(place, server.url, tmp_path / "run")
        asked = len(server.asked)
        again = run(place, server.url, tmp_path / "run")
        assert len(server.asked) == asked == 2 * 20, "a search and an answer in each attempt, and no attempt twice"
    assert done.exit_code == again.exit_code == 0, done.output
    assert "Left out: 2 about an attached file (row 5, 10)." in done.output
    assert "12 rows of the 165 that are published" in done.output
    # Level 1 is right (3 questions), level 2 once for its odd writing and else every second time (3), level 3 once (4).
    assert "avg@2 60.0%" in done.output and "10 questions × 2. Judge: gaia." in done.output
    assert re.search(r"^ +2 +10 +70\.0% .* 50\.0% *$", done.output, re.MULTILINE), "pass@2, pass^2"
    levels = {"1": (3, "100.0%"), "2": (3, "66.7%"), "3": (4, "25.0%")}
    for level, (count, share) in levels.items():
        assert re.search(rf"^ +{level} +{count} +{re.escape(share)} ", done.output, re.MULTILINE), done.output
    result = EvalResult.load(tmp_path / "run" / "result.json")
    assert result.pass_at_1.value == pytest.approx(0.6) and result.valid and result.unscored == 0
    assert {level: one.pass_at_1.questions for level, one in result.groups["level"].items()} == {"1": 3, "2": 3, "3": 4}
    stored = list(RunLog(tmp_path / "run").records())
    assert len(stored) == 20 and {one.question.id.partition("/")[0] for one in stored} == {"gaia"}
    kept = RunLog(tmp_path / "run").read()
    assert kept is not None and (kept.about.benchmark, kept.about.split, kept.about.private) == ("gaia", "validation", True)
