"""A measured run as a person meets it: killed, met by outages, gone on with, told what it is not."""

import asyncio
import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

import measured_runs
import pytest
from measured_runs import go, questions

from sanderling.core.errors import UserError
from sanderling.evaluate.benchmark_files import load_benchmark
from sanderling.evaluate.benchmark_rows import Options
from sanderling.evaluate.benchmarks import get_benchmark
from sanderling.evaluate.log import About, RunLog
from sanderling.evaluate.result import EvalResult
from sanderling.evaluate.run import EvalConfig, judges_or_own, prepare
from sanderling.judge.opening import JudgeConfig

NOT_THE_SAME = {"seconds", "episode_seconds", "resumed", "date", "command"}
"""What a clock or a kill may change; the rest of a result may not."""


def killed(root: Path, count: int, attempts: int, after: int) -> None:
    """A life of the run that ends by SIGKILL after so many turns."""
    arguments = [root, count, attempts, after]
    child = subprocess.run([sys.executable, measured_runs.__file__, *map(str, arguments)], check=False, capture_output=True)
    assert child.returncode == -9, child.stderr.decode()


def figures(result: EvalResult) -> dict:
    return {name: value for name, value in result.model_dump(mode="json").items() if name not in NOT_THE_SAME}


@pytest.mark.parametrize(
    ("count", "attempts", "kills"), [(15, 4, (40, 5, 30)), pytest.param(250, 4, (900, 40, 700), marks=pytest.mark.slow)]
)
def test_kills_and_outages_change_no_figure(tmp_path: Path, count: int, attempts: int, kills: tuple[int, ...]) -> None:
    _, undisturbed = asyncio.run(go(tmp_path / "whole", count, attempts))
    for after in kills:
        killed(tmp_path / "killed", count, attempts, after)
    made, result = asyncio.run(go(tmp_path / "killed", count, attempts))
    assert figures(result) == figures(undisturbed)
    assert len(made.episodes) == count * attempts == sum(result.endings.values())
    assert 0 < result.unscored < count * attempts / 4 and "could not be scored" in result.invalid_because
    stored = Counter(one.id for one in RunLog(tmp_path / "killed").records())
    assert set(stored.values()) == {1} and stored.total() == count * attempts
    turns = Counter((tmp_path / "killed.server" / "turns").read_text().splitlines())
    assert turns.total() - len(turns) <= 8 * len(kills), "at most the turns under way at a kill are sampled again"


def test_a_finished_round_with_outages_is_followed_by_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _, first = asyncio.run(go(tmp_path / "run", 15, 2))
    again, second = asyncio.run(go(tmp_path / "run", 15, 2))
    assert first.unscored == second.unscored > 0 and again.resumed == 30 - first.unscored
    monkeypatch.setattr(measured_runs, "DOWN", 0.0)
    monkeypatch.setattr(measured_runs, "FLAKY", 0.0)
    _, third = asyncio.run(go(tmp_path / "run", 15, 2))
    run = RunLog(tmp_path / "run").read()
    assert run is not None
    assert (third.unscored, third.valid, run.finished) == (0, True, True)
    assert third.resumed == 30 - first.unscored, "what was scored is not made again"


def test_attempts_may_become_more_and_never_fewer(tmp_path: Path) -> None:
    asyncio.run(go(tmp_path / "run", 6, 1))
    made, result = asyncio.run(go(tmp_path / "run", 6, 3))
    assert result.attempts == 3 and len(made.episodes) == 18
    with pytest.raises(UserError, match=r"begun with 3 attempts: give as many, or more"):
        asyncio.run(go(tmp_path / "run", 6, 2))


def test_a_directory_of_something_else_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("mine")
    about = About(benchmark="jsonl", questions=1, questions_sha256="", seed=0)
    with pytest.raises(UserError, match=r"holds something else than a run \(thesis.tex\)"):
        RunLog(tmp_path).begin(about, questions(1), 1, "c")


def test_which_questions_and_which_judge(tmp_path: Path) -> None:
    (tmp_path / "own.jsonl").write_text(
        "".join(json.dumps({"question": f"What is number {i}?", "answer": f"a{i}"}) + "\n" for i in range(9))
    )
    own = get_benchmark("jsonl")
    loaded = load_benchmark(own, tmp_path / "own.jsonl", Options())
    first = prepare(loaded, EvalConfig(limit=4))
    drawn, again = (prepare(loaded, EvalConfig(limit=4, sample_seed=5)) for _ in range(2))
    assert [one.text for one in first[1]] == [f"What is number {i}?" for i in range(4)]
    assert drawn == again != first and drawn[0].chosen == "4 by seed 5"
    assert prepare(loaded, EvalConfig(limit=99))[0].chosen == "all"
    with pytest.raises(UserError, match="sample_seed draws a sample"):
        prepare(loaded, EvalConfig(sample_seed=5))
    with pytest.raises(UserError, match=r"BrowseComp is scored by a model .*: name one with --judge"):
        judges_or_own(get_benchmark("browsecomp"), JudgeConfig())
    assert judges_or_own(get_benchmark("gaia"), JudgeConfig()).judges == ("gaia",)
