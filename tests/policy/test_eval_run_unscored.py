"""``sanderling eval run`` tells why attempts went unscored: the model stayed away, or the judge was not understood."""

import json
from pathlib import Path

import pytest
from billing_server import Say, billing
from typer.testing import CliRunner

from sanderling.cli.evaluate import app
from sanderling.world.contract import Page
from sanderling.world.disk.store import build_world

ANSWERS: Say = lambda messages, before: "<think>so</think>\n<answer>blue</answer>"  # noqa: E731
AWAY: Say = lambda messages, before: 503  # noqa: E731
RAMBLES: Say = lambda messages, before: "That is a good question."  # noqa: E731


@pytest.mark.parametrize(
    ("agent", "judge", "told"),
    [
        (AWAY, ANSWERS, "gave no answer in 1 attempts (status 503: not now) (3 of 3)."),
        (ANSWERS, RAMBLES, "2 replies"),
    ],
    ids=["no model", "no verdict"],
)
def test_the_commonest_reason_is_told(agent: Say, judge: Say, told: str, tmp_path: Path) -> None:
    build_world(tmp_path / "w", [Page(url="https://w.example/", title="Colours", text="Blue.")], name="w", source="test")
    rows = [{"id": str(number), "question": f"Which colour has number {number}?", "answer": "red"} for number in range(3)]
    (tmp_path / "q.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    with billing(agent) as model, billing(judge) as says:
        arguments = ["run", "jsonl", tmp_path / "q.jsonl", "--world", tmp_path / "w", "--model", f"{model.url}?retries=0#m"]
        cache = ["--set", f"budget.cache={tmp_path / 'cache'}"]
        more = ["--profile", "tiny", "--judge", f"{says.url}#j", *cache, "--out", tmp_path / "run"]
        done = CliRunner().invoke(app, [*map(str, (*arguments, *more))], env={"COLUMNS": "200"})
    assert done.exit_code == 3
    (line,) = [line for line in done.output.splitlines() if line.startswith("Unscored, most often: ")]
    assert told in line and "(3 of 3)" in line
    assert "An attempt:" not in done.output, "where nothing was scored there is no mean of it"
