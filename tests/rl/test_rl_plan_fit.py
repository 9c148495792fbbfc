"""The three systems' RL recipes on the hardware of their papers and on one H200; what does not fit says what to set."""

import json
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from sanderling.cli.train import app
from sanderling.core.config import load_config
from sanderling.core.errors import UserError
from sanderling.recipes.find import find_rl_recipe
from sanderling.rl.config import RlRecipe
from sanderling.rl.fit import RlPlan, Sharing, plan_rl
from sanderling.train.fit import Devices, described, taken

QWEN3_4B = {
    "hidden_size": 2560, "num_hidden_layers": 36, "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 128,
    "intermediate_size": 9728, "vocab_size": 151_936, "tie_word_embeddings": True,
}  # fmt: skip
HARDWARE = [
    ("dr-venus-4b", "A100", 79, 16),  # the paper's
    ("literesearcher-4b", "H20", 95, 8),  # its stage one
    ("literesearcher-4b", "H20", 95, 16),  # its stage two
    ("agentcpm-explore-4b", "H100", 79, 8),  # not published
    ("dr-venus-4b", "H200", 139, 1),
    ("literesearcher-4b", "H200", 139, 1),
    ("agentcpm-explore-4b", "H200", 139, 1),
]


@pytest.fixture
def model(tmp_path: Path) -> Path:
    (tmp_path / "config.json").write_text(json.dumps(QWEN3_4B))
    return tmp_path


def planned(model: Path, name: str, devices: Devices, *overrides: str, longest: int | None = None) -> RlPlan:
    return plan_rl(find_rl_recipe(name, overrides).model_copy(update={"model": model}), devices, longest)


@pytest.mark.parametrize(("name", "device", "memory", "count"), HARDWARE)
def test_a_recipe_fits_the_hardware_of_its_paper_and_one_h200(model: Path, name: str, device: str, memory: float, count: int):
    found = planned(model, name, described(device, memory, count))
    assert not found.sentence
    for stage in found.stages:
        assert stage.estimate.training <= stage.devices.room
        assert stage.estimate.sessions.longest >= 1
        assert stage.estimate.step_seconds is not None and stage.estimate.step_seconds > 0


def test_rollouts_that_are_longer_than_the_model_reads_are_refused_stretched_positions_included(model: Path):
    devices = described("H200", 139, 1)
    (model / "config.json").write_text(json.dumps({**QWEN3_4B, "max_position_embeddings": 40_960}))
    with pytest.raises(UserError, match=r"261,000 tokens, the model has 40,960 positions: set rollout\.context_tokens=40960"):
        planned(model, "dr-venus-4b", devices)
    with pytest.raises(UserError, match=r"Rollouts of stage two .*: set stages\.two\.rollout\.context_tokens=40960"):
        planned(model, "literesearcher-4b", devices)
    assert planned(model, "dr-venus-4b", devices, longest=40_960).stages
    yarn = {"rope_type": "yarn", "factor": 8.0, "original_max_position_embeddings": 32_768}
    (model / "config.json").write_text(json.dumps({**QWEN3_4B, "max_position_embeddings": 40_960, "rope_scaling": yarn}))
    assert planned(model, "dr-venus-4b", devices).stages


def test_dr_venus_on_sixteen_a100_by_hand(model: Path):
    (stage,) = planned(model, "dr-venus-4b", described("A100", 79, 16)).stages
    parameters = stage.shape.parameters
    assert parameters == pytest.approx(4.02e9, rel=0.01)
    assert stage.shape.kv_bytes(1) == 2 * 36 * 8 * 128 * 2 == 147_456
    state = (4 + 4 + 8 + 4) * parameters / 16  # weights, gradients, moments and the reference, in shards
    left = 78 * 2**30 - state - 2 * parameters
    assert stage.estimate.sessions.longest == 16 * int(left // (147_456 * 261_000)) == 16
    assert stage.estimate.sessions.mean == 16 * int(left // (147_456 * 64_000)) == 112
    assert stage.load.rollouts == 128 and stage.load.sharing is Sharing.ASLEEP


def test_stages_are_planned_each_for_itself(model: Path):
    one, two = planned(model, "literesearcher-4b", described("H20", 95, 8)).stages
    assert (one.load.episodes.longest, two.load.episodes.longest) == (33_792, 51_152)
    assert one.estimate.sessions.longest > two.estimate.sessions.longest


def test_an_hours_count_of_the_published_run_is_met_by_and_large(model: Path):
    """LiteResearcher's first stage: 7 days for 510 steps at least, tools included, with rollouts of 17.4K to 10.3K tokens."""
    one, _ = planned(model, "literesearcher-4b", described("H20", 95, 8), "expected.context_tokens=12000").stages
    assert one.estimate.step_seconds == pytest.approx(7 * 86_400 / 510, rel=0.5)


def test_a_server_that_does_not_sleep_has_half_of_the_devices(model: Path):
    (stage,) = planned(model, "dr-venus-4b", described("A100", 79, 16), "sampler.sleeps=false").stages
    assert (stage.load.sharing, stage.load.samplers, stage.load.trainer.ranks) == (Sharing.APART, 8, 8)
    (alone,) = planned(model, "agentcpm-explore-4b", described("H200", 139, 1), "sampler.sleeps=false").stages
    assert (alone.load.sharing, alone.load.samplers, alone.load.trainer.ranks) == (Sharing.TOGETHER, 1, 1)


@pytest.mark.parametrize(
    ("device", "memory", "count", "overrides", "told"),
    [
        ("H200", 139, 1, ["sampler.sleeps=false"], "no rollout of 261,000 tokens fits.*: set sampler.sleeps=true"),
        ("A100", 39, 4, [], "needs 60.6 GiB .* there are 38.0: set parallel.context=4"),
        ("4090", 23.5, 1, [], "use more devices, or larger ones"),
        ("H200", 139, 1, ["rl.trainer.memory.offload=false"], "set rl.trainer.memory.offload=true"),
        (
            "A100", 79, 16, ["sampler.sleeps=false", "rl.pipeline.placement=turns", "parallel.kind=replicate"],
            "set rl.pipeline.placement=served and",
        ),
        ("H200", 100, 1, [], r"set rollout\.context_tokens=\d+"),
        ("H200", 139, 1, ["rl.trainer.micro_batch_tokens=2000000"], r"micro_batch_tokens=261000\. Rollouts .* share less"),
    ],
)  # fmt: skip
def test_what_does_not_fit_says_what_to_set(
    model: Path, device: str, memory: float, count: int, overrides: list[str], told: str
):
    found = planned(model, "dr-venus-4b", described(device, memory, count), *overrides)
    assert re.search(told, found.sentence, re.IGNORECASE), found.sentence


@pytest.mark.parametrize(
    ("name", "device", "memory", "count", "overrides"),
    [
        ("dr-venus-4b", "A100", 39, 4, []),
        ("dr-venus-4b", "H200", 139, 1, ["sampler.sleeps=false"]),
        ("dr-venus-4b", "H200", 100, 1, []),
        (
            "literesearcher-4b",
            "A100",
            79,
            4,
            ["rl.pipeline.placement=turns", "sampler.sleeps=false", "parallel.kind=replicate"],
        ),
        ("agentcpm-explore-4b", "H100", 79, 1, []),
    ],
)
def test_what_it_says_to_set_does_it(model: Path, name: str, device: str, memory: float, count: int, overrides: list[str]):
    devices = described(device, memory, count)
    sentence = planned(model, name, devices, *overrides).sentence
    assert ": set " in sentence, sentence
    told = sentence.rpartition(": set ")[2].partition(". ")[0].removesuffix(".").split(" and ")
    again = planned(model, name, devices, *overrides, *told)
    first_stage = again.stages[0]
    assert not first_stage.lacks, (sentence, again.sentence)


def test_a_tiny_run_on_a_processor_is_planned_with_its_cache():
    tiny = Path(__file__).parents[2] / "src" / "sanderling" / "recipes" / "assets" / "tiny-base"
    recipe = load_config(RlRecipe, "profile = 'tiny'\n[rl]\nquestions_per_step = 4\ngroup_size = 4\n", "a.toml")
    devices = Devices("processor", 1, 2**31, gpus=False)
    found = plan_rl(recipe.model_copy(update={"model": tiny}), devices, decode=500.0)
    assert not found.sentence
    (stage,) = found.stages
    assert stage.load.sharing is Sharing.MODULE and stage.load.under_way == 16
    small = plan_rl(recipe.model_copy(update={"model": tiny}), Devices("processor", 1, 2**27, gpus=False))
    assert "rl.trainer." in small.sentence or "most_under_way" in small.sentence


@pytest.mark.parametrize(("most", "count", "groups"), [(2, 4, 4), (6, 4, 8), (8, 4, 8), (100, 4, 16), (3, 1, 3)])
def test_groups_at_once_are_of_all_processes_together_and_one_in_each_at_least(most: int, count: int, groups: int):
    tiny = Path(__file__).parents[2] / "src" / "sanderling" / "recipes" / "assets" / "tiny-base"
    settings = f"profile = 'tiny'\n[rl]\nquestions_per_step = 16\ngroup_size = 4\npipeline.most_under_way = {most}\n"
    recipe = load_config(RlRecipe, f"{settings}\n[parallel]\nkind = 'replicate'\n" if count > 1 else settings, "a.toml")
    found = plan_rl(recipe.model_copy(update={"model": tiny}), Devices("processor", count, 2**31, gpus=False))
    assert found.stages[0].load.under_way == groups * 4


def test_shards_that_would_sample_are_refused(model: Path):
    with pytest.raises(UserError, match=r"cannot sample .*: set rl\.pipeline\.placement=served"):
        planned(model, "dr-venus-4b", described("A100", 79, 16), "rl.pipeline.placement=turns")
    with pytest.raises(UserError, match="Only a server can sleep"):
        planned(model, "dr-venus-4b", described("A100", 79, 16), "rl.pipeline.placement=turns", "parallel.kind=replicate")
    with pytest.raises(UserError, match=r"parallel\.kind is none"):
        planned(model, "dr-venus-4b", described("A100", 79, 16), "parallel.kind=none")
    with pytest.raises(UserError, match="cannot share the model's 32 heads"):
        planned(model, "dr-venus-4b", described("A100", 79, 6), "parallel.context=6")


def test_one_process_takes_one_of_the_gpus_that_are_here():
    recipe = find_rl_recipe("dr-venus-4b", ["parallel.kind=none"])
    assert taken(described("H200", 139, 8), recipe.parallel).count == 1
    assert taken(described("H200", 139, 8), find_rl_recipe("dr-venus-4b").parallel).count == 8


def test_the_command_shows_every_stage_and_refuses_what_cannot_fit(model: Path):
    run = CliRunner().invoke
    here = ["plan", "--rl", "--model", str(model), "--recipe", "literesearcher-4b", "--device", "H20", "--memory", "95"]
    fine = run(app, [*here, "--count", "8"])
    assert fine.exit_code == 0, fine.output
    assert "stage one" in fine.output and "stage two" in fine.output and "keys and values" in fine.output
    refused = run(app, ["plan", "--rl", "--model", str(model), "--device", "4090", "--memory", "23.5"])
    assert isinstance(refused.exception, UserError) and "GiB" in str(refused.exception)
    assert "dr-venus-4b" in refused.output, "shown all the same"
    alone = run(app, ["plan", "--rl", "--model", str(model), "--device", "H200"])
    assert isinstance(alone.exception, UserError) and "--memory" in str(alone.exception)


def test_a_rate_that_was_measured_is_taken(model: Path):
    recipe = find_rl_recipe("dr-venus-4b").model_copy(update={"model": model})
    (stage,) = plan_rl(recipe, described("H200", 139, 1), decode=2000.0).stages
    assert stage.estimate.seconds is not None and stage.estimate.seconds["sampling"] == 128 * 16_000 / 2000
    (unknown,) = plan_rl(recipe, described("an abacus", 139, 1)).stages
    assert unknown.estimate.seconds is None
