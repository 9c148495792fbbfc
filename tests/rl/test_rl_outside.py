"""What is written outside the package trains as what is built in: an estimator, a loss, an outcome; and RL on one page."""

from pathlib import Path

import numpy as np
import pytest
from rl_runs import arguments, recipe_of, silent, write_given
from safetensors.numpy import load_file
from typer.testing import CliRunner

from sanderling.cli.train import app
from sanderling.core.config import load_config, to_toml
from sanderling.core.errors import UserError
from sanderling.core.record import Question, Trajectory
from sanderling.core.types import Ending
from sanderling.recipes.find import find_rl_recipe
from sanderling.rl.config import RlRecipe
from sanderling.rl.launch import Order, run_rl_command
from sanderling.train.metrics import read_metrics

MINE = """
from sanderling.rl.credit import Estimating


class Sharp(Estimating):
    by: float = 2.0


def credit(table, config: Sharp):
    return config.by * (table.outcome - 0.5)


def plain(table):
    return table.outcome - 0.5


def reinforce(tokens):
    return -tokens.advantages * tokens.logprobs


def short(table):
    return [0.5]


def nothing(table):
    return table.outcome * float("nan")


def long(answer: str, accepted: str) -> float:
    return float(len(answer) > 3)


def beyond(answer: str, accepted: str) -> float:
    return 5.0


NUMBER = 3
"""


@pytest.fixture(scope="module")
def given(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_given(tmp_path_factory.mktemp("given"))


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    file = tmp_path / "mine.py"
    file.write_text(MINE)
    return file


def test_an_estimator_and_a_loss_of_ones_own_go_through_the_command(given: Path, mine: Path, tmp_path: Path):
    sets = [f"rl.estimator.kind={mine}:credit", "rl.estimator.by=0.5", f"rl.loss.kind={mine}:reinforce", "rl.steps=2"]
    words = ["rl", *arguments(given, tmp_path / "out"), *(word for one in sets for word in ("--set", one))]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.output
    assert [line["updates"] for line in read_metrics(tmp_path / "out" / "metrics.jsonl")] == [1, 1]
    ours, base = (load_file(place / "model.safetensors") for place in (tmp_path / "out" / "model", given / "base"))
    assert any(not np.array_equal(ours[name], base[name]) for name in base), "it learnt something"
    mine.write_text(MINE + "\n# changed\n")
    with pytest.raises(UserError, match="other code"):
        run_rl_command(Order(recipe_of(given, *sets, date="2026-01-01"), tmp_path / "out"), silent())


def test_several_processes_load_ones_own_file_themselves(given: Path, mine: Path, tmp_path: Path):
    recipe = recipe_of(given, f"rl.estimator.kind={mine}:credit", "rl.steps=1", "parallel.kind=replicate")
    run_rl_command(Order(recipe, tmp_path / "out", 2), silent())
    assert (tmp_path / "out" / "model" / "config.json").is_file()


def test_settings_of_ones_own_are_checked_and_recorded_as_any(mine: Path):
    recipe = find_rl_recipe("tiny", [f"rl.estimator.kind={mine}:credit", "rl.estimator.by=3"])
    assert load_config(RlRecipe, to_toml(recipe), "rl.toml") == recipe
    assert find_rl_recipe("tiny", [f"rl.estimator.kind={mine}:plain"]).rl.estimator.least_group == 2
    with pytest.raises(UserError, match=r"no setting rl\.estimator\.bye: did you mean rl\.estimator\.by"):
        find_rl_recipe("tiny", [f"rl.estimator.kind={mine}:credit", "rl.estimator.bye=3"])
    with pytest.raises(UserError, match="defines no 'credits': did you mean 'credit'"):
        find_rl_recipe("tiny", [f"rl.estimator.kind={mine}:credits"])
    with pytest.raises(UserError, match=r"rl\.loss: its parameter config has to be annotated"):
        find_rl_recipe("tiny", [f"rl.loss.kind={mine}:credit"])


async def test_an_outcome_of_ones_own_scores(mine: Path):
    from sanderling.rl.rollouts import rule_score

    name = find_rl_recipe("tiny", [f"rl.outcome={mine}:long"]).rl.outcome
    question = Question(id="q", text="?", answers=("Rome",))
    said = [
        Trajectory(id="t", question=question, nodes=(), leaf=None, ending=Ending.ANSWERED, answer=answer)
        for answer in ("Oslo", "no")
    ]
    assert [await rule_score(name)(one) for one in said] == [1.0, 0.0]
    with pytest.raises(UserError, match="did you mean 'exact'"):
        find_rl_recipe("tiny", ["rl.outcome=exakt"])
    with pytest.raises(UserError, match=r"rl\.outcome: .*:NUMBER is no function"):
        find_rl_recipe("tiny", [f"rl.outcome={mine}:NUMBER"])
    with pytest.raises(UserError, match=r"gave 5\.0 to t: it has to be from 0 to 1"):
        await rule_score(f"{mine}:beyond")(said[0])


@pytest.mark.parametrize(("name", "told"), [("short", r"of the shape \(1,\)"), ("nothing", "not finite")])
def test_an_estimator_that_gives_no_credit_is_named_and_not_the_learning_rate(
    given: Path, mine: Path, tmp_path: Path, name: str, told: str
):
    recipe = recipe_of(given, f"rl.estimator.kind={mine}:{name}", "rl.steps=1")
    with pytest.raises(UserError, match=told):
        run_rl_command(Order(recipe, tmp_path / "out"), silent())


def test_settings_of_the_former_kind_are_dropped_with_a_line():
    with pytest.warns(UserWarning, match=r"rl\.estimator is of the kind 'grpo' now: mode, .*left out"):
        assert find_rl_recipe("dr-venus-4b", ["rl.estimator.kind=grpo"]).rl.estimator.kind == "grpo"


def test_the_loop_that_fits_on_a_page_runs(given: Path, tmp_path: Path):
    run_rl_command(Order(recipe_of(given, "rl.steps=2"), tmp_path / "out", simple=True), silent())
    assert [line["step"] for line in read_metrics(tmp_path / "out" / "metrics.jsonl")] == [1, 2]
    assert (tmp_path / "out" / "model" / "config.json").is_file()
