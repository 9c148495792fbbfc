"""Rankings of agents in two places: tau-b against an independent implementation, ties, intervals, and what is refused."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import kendalltau
from typer.testing import CliRunner

from sanderling.cli.world import app
from sanderling.core.errors import UserError
from sanderling.core.types import Ending
from sanderling.evaluate.fidelity.agents import compare_agents, kendall_tau_b
from sanderling.evaluate.result import Estimate, EvalResult, QuestionCounts

FEW = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=2, max_size=9)


def result(model: str, right: list[int], attempts: int = 2) -> EvalResult:
    counts = tuple(QuestionCounts(id=f"q{n}", attempts=attempts, scored=attempts, correct=c) for n, c in enumerate(right))
    share = sum(right) / (attempts * len(right))
    estimate = Estimate(value=share, interval=None, questions=len(right), too_few=0)
    return EvalResult(
        model=model, world="w", judge="exact", command="c", seed=0, version="0", date="2026-01-01T00:00:00Z",
        attempts=attempts, questions=counts, pass_at_k={1: estimate}, pass_hat_k={1: estimate},
        endings={Ending.ANSWERED: attempts * len(right)}, unscored=0, mean_turns=None, mean_calls=None,
        mean_sampled_tokens=None, seconds=0.0, episode_seconds=0.0, resumed=0,
    )  # fmt: skip


def places(**agents: tuple[list[int], list[int]]) -> tuple[dict[str, EvalResult], dict[str, EvalResult]]:
    local = {name: result(name, right) for name, (right, _) in agents.items()}
    return local, {name: result(name, right) for name, (_, right) in agents.items()}


@given(FEW)
def test_tau_b_is_scipys(pairs):
    x, y = [float(a) for a, _ in pairs], [float(b) for _, b in pairs]
    theirs = kendalltau(x, y, variant="b").statistic
    ours = kendall_tau_b(x, y)
    assert (ours is None and theirs != theirs) or ours == pytest.approx(theirs)
    assert kendall_tau_b(y, x) == ours
    if ours is not None:
        assert kendall_tau_b(x, [-value for value in y]) == pytest.approx(-ours)


def test_agents_that_rank_alike():
    local, live = places(a=([2, 2, 2, 1], [2, 2, 1, 1]), b=([1, 1, 2, 0], [1, 1, 1, 0]), c=([0, 0, 1, 0], [0, 1, 0, 0]))
    found = compare_agents(local, live, seed=1)
    assert found.tau_b == 1.0 and found.discordant == () and found.questions == 4
    assert [(row.agent, row.local, row.live) for row in found.agents] == [
        ("a", 0.875, 0.75),
        ("b", 0.5, 0.375),
        ("c", 0.125, 0.125),
    ]
    assert found.interval is not None and found.interval[1] == 1.0
    assert compare_agents(local, live, seed=1) == found


def test_only_common_questions_count_and_ties_are_said():
    local, live = places(a=([2, 0], [2, 0]), b=([2, 0], [1, 0]), c=([2, 0], [0, 0]))
    live["c"] = live["c"].model_copy(update={"questions": live["c"].questions[:1]})
    found = compare_agents(local, live)
    assert (found.questions, found.tau_b, found.interval) == (1, None, None)
    with pytest.raises(UserError, match="No question"):
        compare_agents(local, live | {"c": live["c"].model_copy(update={"questions": ()})})
    with pytest.raises(UserError, match="2 agents"):
        compare_agents({name: local[name] for name in "ab"}, live)


def test_the_command(tmp_path):
    local, live = places(a=([2, 2], [2, 2]), b=([1, 1], [1, 1]), c=([0, 0], [0, 0]))
    options = []
    for where, found in (("local", local), ("live", live)):
        for name, one in found.items():
            one.save(tmp_path / f"{where}-{name}.json")
            options += [f"--{where}", str(tmp_path / f"{where}-{name}.json")]

    def run(*arguments: str) -> str:
        done = CliRunner().invoke(app, ["agents", *arguments], catch_exceptions=False, env={"COLUMNS": "200"})
        assert done.exit_code == 0, done.output
        return done.output

    told = run(*options)
    assert "Kendall's tau-b 1.00" in told and "3 agents, 2 common questions" in told
    with pytest.raises(UserError, match="Two results are of the agent 'a'"):
        run(*options, "--local", str(tmp_path / "local-a.json"))
    (tmp_path / "no.json").write_text(json.dumps({"model": "a"}))
    with pytest.raises(UserError, match="not an evaluation result"):
        run("--local", str(tmp_path / "no.json"), "--live", str(tmp_path / "no.json"))
