"""The examples that train: on trajectories, and by reinforcement with an estimator written outside the package."""

import json
import runpy
import sys
from pathlib import Path

import pytest
from rl_runs import write_given
from sft_runs import write_data

EXAMPLES = Path(__file__).parents[2] / "examples"


def ran(name: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, *arguments: object) -> str:
    monkeypatch.setattr(sys, "argv", [name, *map(str, arguments)])
    runpy.run_path(str(EXAMPLES / f"{name}.py"), run_name="__main__")
    return capsys.readouterr().out.splitlines()[-1]


@pytest.mark.filterwarnings("ignore")
def test_examples_train(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    given = write_given(tmp_path)
    write_data(given / "data.jsonl")
    few = ["epochs=1", "data.profile=tiny", "trainer.lr=1e-3"]
    adapter = ran("train_sft", capsys, monkeypatch, given / "base", given / "data.jsonl", given / "sft", *few)
    assert (Path(adapter) / "adapter_config.json").is_file()
    sets = (
        "rl.steps=1",
        "rl.questions_per_step=2",
        "rl.group_size=2",
        "rl.selection.every=0",
        "rollout.turn_tokens=8",
        "rollout.max_turns=2",
    )
    model = ran("train_rl", capsys, monkeypatch, given / "base", given / "q1.jsonl", given / "w1", given / "rl", *sets)
    assert (Path(model) / "config.json").is_file()
    assert "own_estimator.py:above_average" in (given / "rl" / "rl.toml").read_text()
    (line,) = (given / "rl" / "metrics.jsonl").read_text().splitlines()
    assert json.loads(line)["step"] == 1
