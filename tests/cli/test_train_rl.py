"""Options of `train rl` that are wrong get a sentence each; what it does is tested in tests/recipes."""

from typer.testing import CliRunner

from sanderling.cli.train import app
from sanderling.core.errors import UserError


def refused(*words: str) -> str:
    result = CliRunner().invoke(app, ["rl", *words])
    assert isinstance(result.exception, UserError), result.output
    return str(result.exception)


def test_wrong_options_are_told():
    assert "names no model: write http://host:port/v1#model" in refused("--endpoint", "http://localhost:1/v1")
    assert "choose agentcpm-explore-4b, dr-venus-4b" in refused("--recipe", "dr-venus")
    assert "did you mean rl.steps?" in refused("--set", "rl.stepz=3")
    assert "give --model" in refused()
