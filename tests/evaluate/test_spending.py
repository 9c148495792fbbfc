"""What attempts took: sums by hand, and None wherever somebody did not count."""

from dataclasses import replace
from pathlib import Path

import pytest
from test_evaluate_result import INFO, QUESTIONS, episode

from sanderling.core.types import Ending
from sanderling.evaluate.figures import summarise
from sanderling.evaluate.log import About, RunLog, sha256_of_questions
from sanderling.policy.budget import Prices

PRICES = Prices(prompt=2.0, sampled=10.0)
ROWS = [
    episode("a", 0, True, sampled_tokens=100_000, prompt_tokens=1_000_000, seconds=10.0),
    episode("b", 0, False, sampled_tokens=200_000, prompt_tokens=500_000, seconds=30.0),
    episode("c", 0, True, sampled_tokens=50_000, prompt_tokens=250_000, seconds=20.0),
]


def test_what_a_right_answer_costs_counts_the_wrong_ones_too() -> None:
    found = summarise(ROWS, QUESTIONS, 1, replace(INFO, prices=PRICES)).cost
    assert found is not None
    assert (found.total, found.attempt, found.right) == pytest.approx((7.0, 7.0 / 3, 3.5))
    assert found.right_interval is not None and found.right_interval.low <= 3.5 <= found.right_interval.high
    assert (found.prompt_price, found.sampled_price) == (2.0, 10.0)


def test_without_prices_or_counts_nothing_is_known() -> None:
    assert summarise(ROWS, QUESTIONS, 1, INFO).cost is None
    silent = [ROWS[0], ROWS[1], episode("c", 0, True, sampled_tokens=5, prompt_tokens=None)]
    found = summarise(silent, QUESTIONS, 1, replace(INFO, prices=PRICES)).cost
    assert found is not None
    assert (found.total, found.attempt, found.right, found.right_interval) == (None, None, None, None)
    free_prompts = summarise(silent, QUESTIONS, 1, replace(INFO, prices=Prices(0.0, 10.0))).cost
    assert free_prompts is not None and free_prompts.total == pytest.approx(3.00005), "what costs nothing need not be counted"


def test_an_outage_before_the_first_turn_took_nothing_and_one_after_it_is_not_known() -> None:
    began = [*ROWS[:2], episode("c", 0, None, Ending.POLICY_OUTAGE, turns=0, sampled_tokens=None, prompt_tokens=None)]
    found = summarise(began, QUESTIONS, 1, replace(INFO, prices=PRICES)).cost
    assert found is not None and found.total == pytest.approx(6.0)
    later = [*ROWS[:2], episode("c", 0, None, Ending.POLICY_OUTAGE, turns=4, sampled_tokens=None, prompt_tokens=None)]
    unknown = summarise(later, QUESTIONS, 1, replace(INFO, prices=PRICES)).cost
    assert unknown is not None and unknown.total is None


def test_nothing_right_has_no_price() -> None:
    rows = [episode(one.id, 0, False, sampled_tokens=1, prompt_tokens=1) for one in QUESTIONS]
    found = summarise(rows, QUESTIONS, 1, replace(INFO, prices=PRICES)).cost
    assert found is not None and found.right is None and found.total == pytest.approx(3 * 12e-6)


def test_seconds_of_attempts_and_of_right_ones() -> None:
    rows = [episode("a", 0, True, seconds=10.0, model_seconds=6.0, tool_seconds=3.0),
            episode("b", 0, False, seconds=40.0, model_seconds=20.0, tool_seconds=0.0),
            episode("c", 0, None, Ending.TOOL_OUTAGE, seconds=900.0)]  # fmt: skip
    found = summarise(rows, QUESTIONS, 1, INFO).latency
    assert found is not None
    assert (found.mean, found.median, found.right_mean, found.right_median) == (25.0, 25.0, 10.0, 10.0)
    assert (found.model, found.tools) == (13.0, 1.5)
    timeless = summarise([episode(one.id, 0, True, seconds=0.0) for one in QUESTIONS], QUESTIONS, 1, INFO)
    assert timeless.latency is not None and timeless.latency.mean is None and timeless.latency.model is None
    assert timeless.spending is not None and timeless.spending.seconds is None, "no clock is that quick: nobody looked at one"


def test_how_many_turns_right_and_wrong_attempts_took() -> None:
    rows = [episode("a", 0, True, turns=3, calls=2), episode("b", 0, True, turns=3), episode("c", 0, False, turns=9, calls=0)]
    found = summarise(rows, QUESTIONS, 1, INFO)
    assert found.turn_counts == {"right": {3: 2}, "wrong": {9: 1}}
    assert found.call_counts == {"right": {2: 2}, "wrong": {0: 1}}


def test_prices_stand_beside_the_commands_and_may_change(tmp_path: Path) -> None:
    directory = RunLog(tmp_path / "run")
    about = About(benchmark="jsonl", questions=3, questions_sha256=sha256_of_questions(QUESTIONS), seed=0)
    assert directory.begin(about, QUESTIONS, 1, "eval run").prices is None
    assert directory.begin(about, QUESTIONS, 1, "eval run --price 2,10", PRICES).prices == PRICES
    assert directory.begin(about, QUESTIONS, 1, "eval run").prices == PRICES, "who names none knows of no others"
    kept = directory.read()
    assert kept is not None and kept.prices == PRICES
