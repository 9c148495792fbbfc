"""A step's figures against a count by hand; alarms: LiteResearcher's collapse as its authors measured it, and in a run."""

import re
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from bandit import CONFIG, train
from pydantic import ValidationError
from train_records import record

from sanderling.core.profiles import ToolNames
from sanderling.core.record import Trajectory
from sanderling.core.types import Ending, ToolCall
from sanderling.rl.health import RULES, Health, HealthConfig, HealthPause, Rule, queries, rollout_figures, step_metrics
from sanderling.rl.rollouts import FinishedRollout, Group
from sanderling.rl.run import HealthWarning
from sanderling.rl.table import Graded, build_table
from sanderling.train.metrics import read_metrics

NAMES = ToolNames()
COLLAPSE = {
    # Figures per rollout of the authors' behaviour study, at steps 1, 220, 480 and 510 of stage 1.
    "reward": (0.50, 0.70, 0.72, 0.51),
    "no_answer": (0.23, 0.017, 0.010, 0.38),
    "quoted_queries": (0.46, 0.16, 0.09, 0.01),
    "turns": (28.0, 19.0, 21.0, 10.0),
    "length": (17_400.0, 10_800.0, 10_300.0, 9_300.0),
}
STEPS = range(1, 511)


# -- figures ---------------------------------------------------------------------------------------------------------------


def said(trajectory: Trajectory, *turns: dict) -> Trajectory:
    """The record, with what is given put into its turns."""
    left = iter(turns)
    nodes = [n.model_copy(update=next(left, {})) if n.kind == "turn" else n for n in trajectory.nodes]
    return trajectory.model_copy(update={"nodes": tuple(nodes)})


def search(*asked, name: str = "search", key: str = "query") -> dict:
    return {"calls": tuple(ToolCall(name=name, arguments={key: one}) for one in asked)}


def graded(trajectory: Trajectory, outcome: float | None, **more) -> Graded:
    turns = sum(n.kind == "turn" and not n.rejected for n in trajectory.nodes)
    return Graded(trajectory, 0, outcome, **{"penalties": [0.0] * turns, "capped": [False] * turns, **more})


def test_every_query_of_every_call_counts_by_the_profile_s_names():
    trajectory = said(
        record("sssa"),
        search('who was "Anna Berg"', ["tidal flats", "the “Wadden Sea” today"]),
        search('an unfinished "quote'),
        search("elsewhere", name="visit", key="url"),
    )
    assert list(queries(trajectory, NAMES)) == [
        'who was "Anna Berg"', "tidal flats", "the “Wadden Sea” today", 'an unfinished "quote',
    ]  # fmt: skip
    assert rollout_figures([FinishedRollout(trajectory, 1.0)], NAMES)["quoted_queries"] == 0.5
    other = ToolNames(search="web", search_query="q")
    assert list(queries(said(record("sa"), search("a", name="web", key="q")), other)) == ["a"]


def test_behaviour_is_measured_on_dropped_groups_and_turns_and_gains_on_the_table():
    # All of a group without an answer is flat: dynamic sampling drops it, and a collapse would be out of sight.
    silent = record("s", ending=Ending.NO_ANSWER, answer=None, question="silent")
    right, wrong = record("svma", name="r", question="q"), record("vba", name="w", question="q", answer="Bergen")
    used = Group(0, right.question, (FinishedRollout(right, 1.0), FinishedRollout(wrong, 0.0)))
    flat = Group(1, silent.question, (FinishedRollout(silent, 0.0), FinishedRollout(silent, 0.0)))
    table = build_table(
        [
            graded(right, 1.0, gains=[0.5, 0.0, None, None], penalties=[0, 0, -1, 0]),
            graded(wrong, 0.0, gains=[None, -1.0, None]),
        ]
    )
    figures = step_metrics(table, [used, flat], NAMES)
    assert (figures["no_answer"], figures["groups_with_signal"], figures["reward"]) == (0.5, 0.5, 0.25)
    assert figures["turns"] == 9 / 4, "turns of all rollouts, whatever is trained on"
    assert figures["gains_scored"] == 3 and figures["gain"] == pytest.approx(-0.5 / 3)
    assert figures["malformed_share"] == pytest.approx(1 / 7) and figures["browse_share"] == pytest.approx(3 / 4)


# -- alarms ----------------------------------------------------------------------------------------------------------------


def collapse(step: int, *names: str) -> dict[str, float]:
    return {name: float(np.interp(step, (1, 220, 480, 510), COLLAPSE[name])) for name in names or COLLAPSE}


def first_alarms(*names: str) -> dict[str, int]:
    health, found = Health(HealthConfig()), {}
    for step in STEPS:
        for raised in health.heard(collapse(step, *names)):
            found.setdefault(raised, step)
    return found


def test_literesearcher_s_collapse_is_heard_before_it_has_happened():
    found = first_alarms()
    at = found["quoted_queries"]
    assert at < 220, "the step that its authors went back to"
    assert found["no_answer"] < 510
    assert all(later > earlier for earlier, later in pairwise(collapse(step)["reward"] for step in range(1, at + 1)))
    assert first_alarms("reward", "length") == {}, "the reward alone would not have shown it"


@pytest.mark.parametrize(("name", "rule"), RULES.items(), ids=RULES)
def test_a_threshold_is_the_last_value_without_an_alarm(name: str, rule: Rule):
    before = 1.0 if rule.kind == "fell" else rule.threshold
    limit, ill = rule.threshold * before if rule.kind == "fell" else rule.threshold, 0.01
    sign = 1 if rule.kind == "above" else -1
    for value, alarms in ((limit, 0), (limit + sign * ill, 1)):
        health = Health(HealthConfig(window=2))
        told = [health.heard({name: figure}) for figure in (before, before, value, value, value)]
        assert sum(map(len, told)) == alarms and health.figures()[f"alarm_{name}"] == alarms
        assert {raised for step in told for raised in step} <= {name}
    custom = Health(HealthConfig(window=1, thresholds={name: limit + 2 * sign * ill}))
    assert not custom.heard({name: before}) and not custom.heard({name: limit + sign * ill})


def test_every_alarm_stands_in_the_page_and_no_other_can_be_set():
    page = (Path(__file__).parents[2] / "docs" / "rl.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (`.*?) \|", page.partition("## Health alarms")[2].partition("\n## ")[0], re.MULTILINE)
    assert set(re.findall(r"`(\w+)`", " ".join(rows))) == set(RULES)
    with pytest.raises(ValidationError, match="there is no alarm 'no_anser': choose from no_answer"):
        HealthConfig(pause_on=frozenset({"no_anser"}))


def test_an_alarm_is_told_once_and_again_after_it_was_over_and_steps_without_the_figure_change_nothing():
    health = Health(HealthConfig(window=1))
    steps = [{"no_answer": 0.9}, {"no_answer": 0.9}, {"reward": 0.4}, {"no_answer": 0.1}, {"no_answer": 0.9}]
    assert [bool(health.heard(step)) for step in steps] == [True, False, False, False, True]


def test_resumed_at_any_step_it_judges_as_one_that_saw_all():
    config, rng = HealthConfig(window=5), np.random.default_rng(3)
    lines = [{"step": step, **collapse(step), "entropy": float(rng.random())} for step in range(440, 511)]
    whole = Health(config)
    told = [whole.heard(line) for line in lines]
    assert sum(map(len, told)) >= 2
    for at in range(0, len(lines), 7):
        resumed = Health(config, lines[:at])
        assert [resumed.heard(line) for line in lines[at:]] == told[at:]
        assert resumed.figures() == whole.figures()


def test_an_alarm_pauses_a_run_that_goes_on_as_if_nothing_had_been(base: Path, tmp_path: Path):
    health = HealthConfig(window=1, thresholds={"think_tokens": 0.0, "unscored": 0.05}, pause_on=frozenset({"unscored"}))
    config = CONFIG.model_copy(update={"health": health, "steps": 3})
    with (
        pytest.warns(HealthWarning, match="step 2: Share of rollouts without an outcome"),
        pytest.raises(HealthPause, match=r"Paused after step 2\..*0\.0833 over the last 1 steps \(alarm unscored at 0\.05\)"),
    ):
        train(config, base, tmp_path / "run", outage=12)
    (*_, last) = read_metrics(tmp_path / "run" / "metrics.jsonl")
    assert last["step"] == 2 and last["alarm_unscored"] == 1.0
    assert train(config, base, tmp_path / "run", outage=12), "whoever starts it again has read the sentence"


@pytest.mark.filterwarnings("ignore::sanderling.rl.run.HealthWarning")
def test_a_run_s_lines_have_what_the_alarms_read(base: Path, tmp_path: Path):
    config = CONFIG.model_copy(update={"steps": 4, "updates_per_step": 2})
    train(config, base, tmp_path / "run")
    lines = [line for line in read_metrics(tmp_path / "run" / "metrics.jsonl") if line["updates"]]
    for line in lines:
        assert set(RULES) <= set(line)
