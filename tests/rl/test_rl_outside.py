"""What is written outside the package trains as what is built in: an estimator, a loss, an outcome; and RL on one page."""

from pathlib import Path

import numpy as np
import pytest
from loopback import free_port
from rl_runs import arguments, recipe_of, silent, write_given
from safetensors.numpy import load_file
from sft_runs import weights
from typer.testing import CliRunner
from vllm_double import served

from sanderling.cli.train import app
from sanderling.core.chat import load_tokenizer
from sanderling.core.config import load_config, read_config, to_toml
from sanderling.core.errors import UserError
from sanderling.core.record import Question, Trajectory
from sanderling.core.types import Ending
from sanderling.recipes.find import find_rl_recipe
from sanderling.rl.config import RlRecipe
from sanderling.rl.launch import Order, run_rl_command
from sanderling.runs.run import records
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
    return write_given(tmp_path_factory.mktemp("given"), (1, 2))


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    file = tmp_path / "mine.py"
    file.write_text(MINE)
    return file


def test_an_estimator_and_a_loss_of_ones_own_go_through_the_command(given: Path, mine: Path, tmp_path: Path):
    sets = [f"rl.estimator.kind={mine}:credit", "rl.estimator.by=0.5", f"rl.loss.kind={mine}:reinforce", "rl.steps=2"]
    (judge := tmp_path / "judge.py").write_text("def kind(answer, accepted):\n    return len(answer) > 3\n")
    sets.append(f"judges=['{judge}:kind']")
    words = ["rl", *arguments(given, tmp_path / "out"), *(word for one in sets for word in ("--set", one))]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.output
    assert [line["updates"] for line in read_metrics(tmp_path / "out" / "metrics.jsonl")] == [1, 1]
    ours, base = (load_file(place / "model.safetensors") for place in (tmp_path / "out" / "model", given / "base"))
    assert any(not np.array_equal(ours[name], base[name]) for name in base), "it learnt something"
    judge.write_text("def kind(answer, accepted):\n    return True\n")
    with pytest.raises(UserError, match="other code"):
        run_rl_command(Order(recipe_of(given, *sets, date="2026-01-01"), tmp_path / "out"), silent())


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
    with pytest.raises(UserError, match=r"rl\.outcome: .*:NUMBER cannot be called with 2 arguments: 3 is not"):
        find_rl_recipe("tiny", [f"rl.outcome={mine}:NUMBER"])
    with pytest.raises(UserError, match=r"gave 5: a score is a number from 0 to 1"):
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


# -- ``sanderling train rl`` over a real small world: from a file of questions to a model, served, and once more -----------


def run(recipe: RlRecipe, out: Path, processes: int = 1) -> None:
    run_rl_command(Order(recipe, out, processes), silent())


def differ(ours: Path, theirs: Path) -> bool:
    a, b = weights(ours), weights(theirs)
    return any(not np.array_equal(a[name], b[name]) for name in b)


def test_from_a_file_of_questions_to_a_model(given: Path, tmp_path: Path):
    recipe = recipe_of(given)
    run(recipe, tmp_path / "out")
    assert differ(tmp_path / "out" / "model", given / "base"), "it learnt something"
    lines = read_metrics(tmp_path / "out" / "metrics.jsonl")
    assert [line["step"] for line in lines] == [1, 2, 3, 4]
    assert lines[-1]["version"] == 4 and "reward" in lines[-1]
    stored = list(records(tmp_path / "out"))
    assert len(stored) == 4 * 2 * 2
    assert {one.world for one in stored} == {"encyclopedia-train-40-1"}
    assert read_config(RlRecipe, tmp_path / "out" / "rl.toml").rl == recipe.rl, "the record is a recipe"
    run(recipe, tmp_path / "out")
    assert read_metrics(tmp_path / "out" / "metrics.jsonl") == lines, "there is nothing left to do"


def test_questions_that_name_their_worlds_are_researched_there(given: Path, tmp_path: Path):
    recipe = recipe_of(given, "rl.questions_per_step=12", "rl.steps=1")
    both = {"worlds": (given / "w1", given / "w2"), "questions": (given / "q1.jsonl", given / "q2.jsonl")}
    run(recipe.model_copy(update=both), tmp_path / "out")
    stored = list(records(tmp_path / "out"))
    assert {(one.world, one.question.meta["world"]) for one in stored} == {
        ("encyclopedia-train-40-1",) * 2, ("encyclopedia-train-40-2",) * 2,
    }  # fmt: skip


@pytest.mark.parametrize("behind_an_endpoint", [False, True])
def test_rollouts_of_a_nucleus_are_trained_by_ratios_to_the_trainers_own(given: Path, tmp_path: Path, behind_an_endpoint: bool):
    """What the sampler tells is of the nucleus; each token's weight is then the nucleus' probability, and the ratio 1."""
    cut = ("rollout.top_p=0.9", "rl.steps=2")
    with pytest.raises(
        UserError, match=r"^Rollouts cut to their likelier tokens .* and rl\.loss\.ratio_to=proximal, or .* rollout\.top_p=1"
    ):
        run(recipe_of(given, *cut), tmp_path / "refused")
    cut = (*cut, "rl.loss.kind=ppo", "rl.loss.ratio_to=proximal")
    if behind_an_endpoint:
        with served(given / "base", load_tokenizer(given / "base").token_id("<|im_end|>")) as (address, double):
            placed = ["rl.pipeline.placement=served", f"sampler.endpoint={address}", "sampler.served=m"]
            run(recipe_of(given, *cut, *placed), tmp_path / "out")
        assert double.cuts == {0.9}
    else:
        run(recipe_of(given, *cut), tmp_path / "out")
    for line in read_metrics(tmp_path / "out" / "metrics.jsonl"):
        assert line["ratio"] == 1 and 0.9 <= line["importance"] < 0.91, "nearly even chances: hardly more than 0.9 is kept"
        assert line["sampler_gap"] == pytest.approx(-np.log(line["importance"]), abs=1e-3) and line["grad_norm"] > 0


def test_a_server_that_takes_shorter_contexts_than_rollouts_may_have_is_refused(given: Path, tmp_path: Path):
    """Each rollout that grew longer would end unscored, and long ones alone."""
    end = load_tokenizer(given / "base").token_id("<|im_end|>")
    with served(given / "base", end) as (address, double):
        placed = ["rl.pipeline.placement=served", f"sampler.endpoint={address}", "sampler.served=m", "rl.steps=1"]
        double.room = 900
        with pytest.raises(
            UserError, match=r"takes contexts of 900 tokens .* may have 1,000: start it with --max-model-len 1000"
        ):
            run(recipe_of(given, *placed, "rollout.context_tokens=1000"), tmp_path / "out")
        with pytest.raises(UserError, match=rf"{address} serves m and no 'n': name one of them"):
            run(recipe_of(given, *placed, "sampler.served=n"), tmp_path / "another")
        assert "/collective_rpc" not in double.paths
        run(recipe_of(given, *placed, "rollout.context_tokens=900"), tmp_path / "other")


def test_a_server_that_is_gone_is_told_in_a_sentence(given: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("sanderling.policy.endpoint._LONGEST_PAUSE_S", 0.001)
    address = f"http://127.0.0.1:{free_port()}/v1"
    placed = ["rl.pipeline.placement=served", f"sampler.endpoint={address}", "sampler.served=m"]
    with pytest.raises(UserError, match=r"could not be handed the weights \(.*gave no answer.*\): .* to resume"):
        run(recipe_of(given, *placed), tmp_path / "out")


def test_two_processes_share_the_work_and_load_ones_own_file_themselves(given: Path, mine: Path, tmp_path: Path):
    recipe = recipe_of(given, f"rl.estimator.kind={mine}:credit", "parallel.kind=replicate", "rl.steps=2")
    run(recipe, tmp_path / "out", processes=2)
    lines = read_metrics(tmp_path / "out" / "metrics.jsonl")
    assert len(lines) == 2 and lines[-1]["rollouts"] == 4
    assert differ(tmp_path / "out" / "model", given / "base")
    assert len(list(records(tmp_path / "out"))) == 8 and (tmp_path / "out" / "rank-1.db").is_file()
