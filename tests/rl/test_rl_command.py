"""``sanderling train rl`` over a real small world: from a file of questions to a model, served, and once more."""

import socket
from pathlib import Path

import numpy as np
import pytest
from rl_runs import recipe_of, silent, write_given
from sft_runs import weights
from vllm_double import served

from sanderling.core.chat import load_tokenizer
from sanderling.core.config import read_config
from sanderling.core.errors import UserError
from sanderling.rl.config import RlRecipe
from sanderling.rl.launch import Order, run_rl_command
from sanderling.runs.run import records
from sanderling.train.metrics import read_metrics


@pytest.fixture(scope="module")
def given(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_given(tmp_path_factory.mktemp("given"), (1, 2))


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
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{free.getsockname()[1]}/v1"
    placed = ["rl.pipeline.placement=served", f"sampler.endpoint={address}", "sampler.served=m"]
    with pytest.raises(UserError, match=r"could not be handed the weights \(.*gave no answer.*\): .* to resume"):
        run(recipe_of(given, *placed), tmp_path / "out")


def test_two_processes_share_the_work(given: Path, tmp_path: Path):
    recipe = recipe_of(given, "parallel.kind=replicate", "rl.steps=2")
    run(recipe, tmp_path / "out", processes=2)
    lines = read_metrics(tmp_path / "out" / "metrics.jsonl")
    assert len(lines) == 2 and lines[-1]["rollouts"] == 4
    assert differ(tmp_path / "out" / "model", given / "base")
    assert len(list(records(tmp_path / "out"))) == 8 and (tmp_path / "out" / "rank-1.db").is_file()
