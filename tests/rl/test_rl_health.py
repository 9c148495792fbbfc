"""Alarms: LiteResearcher's collapse as its authors measured it, each rule on both sides of its threshold, and resuming."""

import json
import re
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from sanderling.core.errors import UserError
from sanderling.recipes.find import find_rl_recipe
from sanderling.rl.health import RULES, THRESHOLDS, Alarm, Health, HealthConfig, HealthPause, Kind

COLLAPSE = {
    # Figures per rollout of the authors' behaviour study, at steps 1, 220, 480 and 510 of stage 1.
    "reward": (0.50, 0.70, 0.72, 0.51),
    "no_answer": (0.23, 0.017, 0.010, 0.38),
    "quoted_queries": (0.46, 0.16, 0.09, 0.01),
    "turns": (28.0, 19.0, 21.0, 10.0),
    "length": (17_400.0, 10_800.0, 10_300.0, 9_300.0),
}
MEASURED = (1, 220, 480, 510)
STEPS = range(1, 511)


def collapse(step: int, *names: str) -> dict[str, float]:
    return {name: float(np.interp(step, MEASURED, COLLAPSE[name])) for name in names or COLLAPSE}


def first_alarms(config: HealthConfig, *names: str) -> dict[Alarm, int]:
    health, found = Health(config), {}
    for step in STEPS:
        for raised in health.heard(collapse(step, *names)):
            found.setdefault(raised.alarm, step)
    return found


def test_literesearcher_s_collapse_is_heard_before_it_has_happened():
    found = first_alarms(HealthConfig())
    assert found[Alarm.QUERY_STYLE] < 220, "the step that its authors went back to"
    assert found[Alarm.NO_ANSWER] < 510 and found[Alarm.TURNS] < 510
    at = found[Alarm.QUERY_STYLE]
    rewards = [collapse(step)["reward"] for step in range(1, at + 1)]
    assert all(later > earlier for earlier, later in pairwise(rewards)), "while reward only rose"


def test_the_reward_alone_would_not_have_shown_it():
    assert first_alarms(HealthConfig(), "reward", "length") == {}


def test_its_recipe_pauses_in_the_collapse_and_not_at_the_beginning():
    config = find_rl_recipe("literesearcher-4b").rl.health
    health = Health(config)
    with pytest.raises(HealthPause, match=r"after step (?:49\d|50\d)\. Share of rollouts without an answer"):
        for step in STEPS:
            health.pause(step, health.heard(collapse(step)))


@pytest.mark.parametrize("window", [1, 5, 10])
def test_the_window_delays_an_alarm_by_less_than_itself(window: int):
    sudden = [0.1] * 20 + [0.9] * 20
    health = Health(HealthConfig(window=window))
    steps = [step for step, value in enumerate(sudden) for _ in health.heard({"no_answer": value})]
    assert len(steps) == 1 and 20 <= steps[0] < 20 + window


CONFIG = HealthConfig(window=2, thresholds={"least_entropy": 0.2, "least_entropy_share": 0.0})
SIDES = {
    "no_answer": (0.3, 0.31),
    "truncated": (0.5, 0.51),
    "entropy": (0.2, 0.19),
    "sampler_gap_fresh": (0.1, 0.11),
    "sampler_gap": (0.3, 0.31),
    "stopped": (0.5, 0.51),
    "ratio_far": (0.1, 0.11),
    "groups_with_signal": (0.05, 0.04),
    "malformed_share": (0.5, 0.51),
    "credit_outcome_share": (0.1, 0.09),
    "unscored": (0.25, 0.26),
}
AGAINST_BEFORE = {
    "quoted_queries": (0.4, [0.3, 0.5], [0.19, 0.61]),
    "query_words": (6.0, [4.0, 8.0], [2.0, 10.0]),
    "think_tokens": (40.0, [10.0, 400.0], [9.0]),
    "turns": (10.0, [4.0, 40.0], [3.9]),
    "reward": (0.6, [0.3, 0.9], [0.29]),
    "gain": (0.2, [0.0, 0.4], [0.41]),
}


@pytest.mark.parametrize("figure", SIDES)
def test_a_threshold_is_the_last_value_without_an_alarm(figure: str):
    well, ill = SIDES[figure]
    for value, alarms in ((well, 0), (ill, 1)):
        health = Health(CONFIG)
        assert [len(health.heard({figure: value})) for _ in range(4)] == [0, alarms, 0, 0]


@pytest.mark.parametrize("figure", AGAINST_BEFORE)
def test_changes_are_against_the_run_s_own_past(figure: str):
    before, well, ill = AGAINST_BEFORE[figure]
    for value in [*well, *ill]:
        health = Health(CONFIG)
        raised = [one for seen in (before, before, value, value, value) for one in health.heard({figure: seen})]
        assert bool(raised) == (value in ill), value
        assert all(one.figure == figure for one in raised)


def test_every_figure_that_is_watched_is_tested_on_both_sides_and_stands_in_the_page():
    watched = {rule.figure for rule in RULES}
    assert watched == {*SIDES, *AGAINST_BEFORE}
    page = (Path(__file__).parents[2] / "docs" / "rl-health.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(\w+)` \| (.+?) \| (.+?) \|$", page.partition("## Alarms")[2], re.MULTILINE)
    assert {alarm for alarm, _, _ in rows} == set(Alarm), "a row for each alarm"
    for rule in RULES:
        (when,) = [when for alarm, when, _ in rows if alarm == rule.alarm]
        assert f"`{rule.figure}`" in when, rule
    thresholds = {name for _, _, threshold in rows for name in re.findall(r"`(\w+)`", threshold)}
    assert thresholds == set(THRESHOLDS)


def test_every_alarm_has_a_rule_and_every_rule_a_sentence():
    assert {rule.alarm for rule in RULES} == set(Alarm)
    for rule in RULES:
        health = Health(CONFIG)
        low, high = (1.0, 0.0) if rule.kind in (Kind.BELOW, Kind.BELOW_FIRST, Kind.BELOW_BEST) else (0.1, 100.0)
        if rule.figure == "entropy" and rule.kind is Kind.BELOW_FIRST:
            continue  # its sister speaks first in this configuration
        raised = [one for value in (low, low, high, high) for one in health.heard({rule.figure: value})]
        (one,) = [found for found in raised if found.figure == rule.figure]
        assert one.sentence.endswith(f"{rule.advice}.") and f"alarm {rule.alarm} at" in one.sentence
        assert f"{one.value:.3g}" in one.sentence


def test_entropy_is_held_against_its_beginning_too():
    health = Health(HealthConfig(window=1))
    assert [len(health.heard({"entropy": value})) for value in (1.0, 0.2, 0.09)] == [0, 0, 1]


def test_a_share_that_began_at_next_to_nothing_is_no_drift():
    health = Health(HealthConfig(window=1))
    assert not any(health.heard({"quoted_queries": value}) for value in (0.0, 0.05, 0.02, 0.05))
    assert health.heard({"quoted_queries": 0.2})


def test_a_gain_that_rises_without_the_reward_is_heard_and_one_that_rises_with_it_is_not():
    """A gain that is won without being right more often: pages that name the answer and help nobody."""
    for last, alarms in ((0.5, 1), (0.49, 1), (0.51, 0)):
        health = Health(HealthConfig(window=2))
        steps = [(0.1, 0.5), (0.1, 0.5), (0.15, 0.5), (0.3, last), (0.3, last)]
        assert sum(len(health.heard({"gain": gain, "reward": reward})) for gain, reward in steps) == alarms
    small = Health(HealthConfig(window=1))
    assert not any(small.heard({"gain": gain, "reward": 0.5}) for gain in (0.001, 0.1, -0.2)), "noise about nothing"
    assert small.heard({"gain": 0.11, "reward": 0.5})


def test_an_alarm_is_told_once_and_again_after_it_was_over():
    health = Health(HealthConfig(window=1))
    told = [bool(health.heard({"no_answer": value})) for value in (0.9, 0.9, 0.1, 0.9)]
    assert told == [True, False, False, True]
    assert health.figures()["alarms"] == health.figures()["alarm_no_answer"] == 1.0


def test_a_step_without_the_figure_neither_raises_nor_ends_an_alarm():
    health = Health(HealthConfig(window=1))
    assert health.heard({"stopped": 0.9}) and not health.heard({"reward": 0.4})
    assert [raised.alarm for raised in health.standing] == [Alarm.RATIO]
    assert not health.heard({"stopped": 0.9}) and not health.heard({"stopped": 0.1}) and not health.standing


def test_resumed_at_any_step_it_judges_as_one_that_saw_all():
    config = HealthConfig(window=5)
    rng = np.random.default_rng(3)
    lines = [
        {"step": step, **collapse(step), "entropy": float(rng.random()), "alarms": 0.0, "note": "text"}
        for step in range(440, 511)
    ]
    lines = json.loads(json.dumps(lines))
    whole = Health(config)
    told = [[raised.sentence for raised in whole.heard(line)] for line in lines]
    assert sum(map(len, told)) >= 2
    for at in range(0, len(lines), 7):
        resumed = Health(config, lines[:at])
        assert [[raised.sentence for raised in resumed.heard(line)] for line in lines[at:]] == told[at:]
        assert resumed.figures() == whole.figures()


def test_an_alarm_pauses_only_where_it_was_asked_to():
    config = HealthConfig(window=1, pause_on=frozenset({Alarm.NO_ANSWER}))
    health = Health(config)
    health.pause(3, health.heard({"truncated": 0.9}))
    raised = health.heard({"no_answer": 0.5, "truncated": 0.9})
    with pytest.raises(HealthPause, match=r"after step 4.*0\.5 over the last 1 steps \(alarm no_answer at 0\.3\)") as caught:
        health.pause(4, raised)
    assert isinstance(caught.value, UserError)
    again = Health(config, [{"no_answer": 0.5}])
    again.pause(5, again.heard({"no_answer": 0.5}))  # whoever starts it again has read the sentence


def test_a_threshold_that_is_none_is_refused():
    with pytest.raises(ValueError, match="did you mean most_clipped"):
        HealthConfig(thresholds={"most_cliped": 0.1})


def test_settings_survive_json():
    config = HealthConfig(pause_on=frozenset({Alarm.ENTROPY, Alarm.RATIO}))
    assert HealthConfig.model_validate_json(config.model_dump_json()) == config
