"""Rankings of agents in two places: tau-b against an independent implementation, ties, intervals, and what is refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import kendalltau
from typer.testing import CliRunner

from sanderling.cli.world import app
from sanderling.core.errors import UserError
from sanderling.core.record import Question
from sanderling.core.types import Ending
from sanderling.evaluate.episodes import Episode
from sanderling.evaluate.figures import RunInfo, summarise
from sanderling.evaluate.ranking import compare_agents, kendall_tau_b


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=2, max_size=9))
def test_tau_b_is_scipys(pairs):
    x, y = [float(a) for a, _ in pairs], [float(b) for _, b in pairs]
    theirs, ours = kendalltau(x, y, variant="b").statistic, kendall_tau_b(x, y)
    assert (ours is None and theirs != theirs) or ours == pytest.approx(theirs)


@pytest.fixture
def results(tmp_path):
    """Writes an agent's results for its right attempts, of two, at each question in both places; -1: none was scored."""

    def write(agent: str, *sides: list[int]):
        for where, right in zip(("local", "live"), sides, strict=True):
            tries = [(n, count, attempt) for n, count in enumerate(right) for attempt in range(2)]
            rows = [
                Episode(f"q{n}", attempt, Ending.ANSWERED, None if count < 0 else attempt < count, agent, "w", 1, 1, 0, 1, 0.1)
                for n, count, attempt in tries
            ]
            asked = [Question(id=f"q{n}", text="t", answers=("x",)) for n in range(len(right))]
            found = summarise(rows, asked, 2, RunInfo("c", 0, "0", "2026", 1.0, 0, judge="exact"))
            found.save(tmp_path / f"{where}-{agent}.json")
        return [tmp_path / f"{where}-{agent}.json" for where in ("local", "live")]

    return write


def test_agents_that_rank_alike(results):
    rights = {"a": ([2, 2, 2, 1], [2, 2, 1, 1]), "b": ([1, 1, 2, 0], [1, 1, 1, 0]), "c": ([0, 0, 1, 0], [0, 1, 0, 0])}
    sides = zip(*(results(agent, *sides) for agent, sides in rights.items()), strict=True)
    found = compare_agents(*sides)
    assert (found.tau_b, found.questions) == (1.0, 4)
    assert list(found.scores.items()) == [("a", (0.875, 0.75)), ("b", (0.5, 0.375)), ("c", (0.125, 0.125))]
    assert found.interval is not None and found.interval.high == 1.0


def test_only_common_questions_count(results):
    """One question is left, and all agents tie on it in the world."""
    a, b, c = results("a", [2, 0], [2, 0]), results("b", [2, 0], [1, 0]), results("c", [2, 0], [0, -1])
    local, live = zip(a, b, c, strict=True)
    found = compare_agents(local, live)
    assert (found.questions, found.tau_b, found.interval) == (1, None, None)
    with pytest.raises(UserError, match="2 agents"):
        compare_agents(local[:2], live)
    with pytest.raises(UserError, match="Two results are of the agent 'a'"):
        compare_agents([*local, local[0]], live)
    results("c", [0, 0], [-1, -1])
    with pytest.raises(UserError, match="No question"):
        compare_agents(local, live)


@pytest.mark.parametrize(("most", "printed"), [(2, "tau-b 1.00 (95% over questions 1.00 to 1.00)"), (0, "all tie in one")])
def test_the_command(results, most, printed):
    arguments = ["agents"]
    for agent, local, live in (("a", most, 2), ("b", most // 2, 1), ("c", 0, 0)):
        here, there = map(str, results(agent, [local] * 2, [live] * 2))
        arguments += ["--local", here, "--live", there]
    assert printed in CliRunner().invoke(app, arguments, catch_exceptions=False, env={"COLUMNS": "200"}).output
