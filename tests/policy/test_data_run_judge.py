"""``sanderling data run`` with a model as judge: asked where rules fail, paid once, and open until every verdict is there."""

from pathlib import Path

import pytest
from billing_server import billing
from typer.testing import CliRunner, Result

from sanderling.cli import exits
from sanderling.cli.data import app
from sanderling.core.errors import UserError
from sanderling.core.record import Question, Trajectory
from sanderling.core.types import Ending
from sanderling.runs.jsonl import TrajectoryStore
from sanderling.runs.stages import is_done

WORDS = ("harbour lamps", "mountain bread", "river glass", "winter horses", "salt ships", "copper bells")


def say(messages: list[dict[str, str]], _: int) -> str | int:
    """Right for even numbers, wrong for odd ones, nonsense for 4."""
    number = int(messages[1]["content"].split("answer ")[1].split()[0])
    return "hm" if number == 4 else f"reasoning: number {number}\ncorrect: {'no' if number % 2 else 'yes'}"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Six that a rule finds wrong but the last, and an outage."""
    store = TrajectoryStore(tmp_path / "in" / "raw.jsonl")
    for number, words in enumerate(WORDS):
        question = Question(id=f"q{number}", text=f"Who sold the {words}?", answers=("42",))
        answer = f"answer {number} it is" + (" 42" if number == 5 else "")
        store.append(Trajectory(id=f"t{number}", question=question, nodes=(), leaf=None, ending=Ending.ANSWERED, answer=answer))
    return store.path


def run(file: Path, out: Path, url: str, *arguments: object, judges: str = '"contains", ') -> Result:
    given = ["run", file, "--out", out, "--cache", out.with_name("cache"), "--set", f'judge.judges=[{judges}"{url}#m"]']
    settings = ["--set", 'clean.settings.steps=["ids"]', "--set", "split.shares=train=1"]
    return CliRunner().invoke(app, [str(one) for one in (*given, *settings, *arguments)], catch_exceptions=False)


def kept(out: Path) -> list[str]:
    return [one.id for one in TrajectoryStore(out / "3-judged.jsonl")]


def test_a_spent_limit_leaves_the_step_open_and_a_larger_one_goes_on(file: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    with billing(say) as server:
        options = ("--judge-price", "1000,1000", "--concurrency", 1)
        done = run(file, out, server.url, "--max-tokens", 3_500, *options)
        assert done.exit_code == exits.UNFINISHED and "still open" in done.output and "budget" in done.output
        asked = len(server.asked)
        assert 0 < asked < 6 and server.tokens <= 3_500
        assert not (out / "3-judged.jsonl").exists() and not is_done(out, "judge")
        done = run(file, out, server.url, "--max-tokens", 100_000, *options)
        assert done.exit_code == 0, done.output
        assert "done before" in done.output and len(server.asked) == 6 and kept(out) == ["t0", "t2", "t5"]


def test_bad_judges_are_told_before_anything_is_done(file: Path, tmp_path: Path) -> None:
    for url, more, told in (
        ("http://host", (), "lacks the host"),
        ("./none", (), "no model at"),
        ("http://host/v1?retry=1", (), "Unknown option"),
        ("http://host/v1", ("--max-cost", "1"), "needs the price"),
        ("http://host/v1", ("--judge-price", "free"), "is no price"),
        ("http://host/v1", ("--judge-price", "1,1", "--judge-price", "2,2"), "2 prices were given for 1 models"),
    ):
        with pytest.raises(UserError, match=told):
            run(file, tmp_path / "out", url, *more) if "v1" in url or "." in url else _without_model(
                file, tmp_path / "out", url
            )
    assert not (tmp_path / "out").exists()


def _without_model(file: Path, out: Path, url: str) -> None:
    arguments = ["run", str(file), "--out", str(out), "--set", f'judge.judges=["{url}"]']
    CliRunner().invoke(app, arguments, catch_exceptions=False)
