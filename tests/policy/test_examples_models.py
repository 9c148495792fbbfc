"""The examples that ask a model: of an endpoint, and of a directory in this process."""

import runpy
import sys
from pathlib import Path

import pytest
from policy_tiny import model_directory
from scripted_server import plain, serve

EXAMPLES = Path(__file__).parents[2] / "examples"
ANSWERED = plain({"choices": [{"message": {"content": "x</think><answer>Kent</answer>"}, "finish_reason": "stop"}]})


def ran(name: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, *arguments: object) -> str:
    monkeypatch.setattr(sys, "argv", [name, *map(str, arguments)])
    runpy.run_path(str(EXAMPLES / f"{name}.py"), run_name="__main__")
    return capsys.readouterr().out


def test_examples_ask_models(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "kent.md").write_text("# Kent\nThe river Kent flows through Kendal.")
    with serve(ANSWERED) as server:
        assert ran("ask_endpoint", capsys, monkeypatch, f"{server.url}#m", tmp_path, "Which?") == "answered Kent\n[]\n"
    assert ran("ask_model", capsys, monkeypatch, model_directory(), tmp_path, "Which?").endswith(" tokens sampled\n")
