"""Plans of RL: the three systems' recipes on their papers' hardware and one H200, and arithmetic by hand for a tiny model."""

import itertools
import json
import re
from pathlib import Path

import pytest
from sft_runs import advised
from typer.testing import CliRunner

from sanderling.cli.train import app
from sanderling.core.errors import UserError
from sanderling.recipes.find import find_rl_recipe, recipe_names
from sanderling.rl.fit import PROBE_TOKENS, plan_rl, scoring_bytes
from sanderling.train.config import MemoryConfig, Precision, Recompute, TrainerConfig
from sanderling.train.fit import Devices, Plan, Shape, described

QWEN3_4B = {
    "hidden_size": 2560, "num_hidden_layers": 36, "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 128,
    "intermediate_size": 9728, "vocab_size": 151_936, "tie_word_embeddings": True,
}  # fmt: skip


@pytest.fixture
def model(tmp_path: Path) -> Path:
    (tmp_path / "config.json").write_text(json.dumps(QWEN3_4B))
    return tmp_path


def planned(model: Path, name: str, devices: Devices, *overrides: str, longest: int | None = None) -> Plan:
    return plan_rl(find_rl_recipe(name, overrides).model_copy(update={"model": model}), devices, longest)


@pytest.mark.parametrize(
    ("name", "device", "memory", "count"),
    [
        ("dr-venus-4b", "A100", 79, 16),  # the paper's
        ("literesearcher-4b", "H20", 95, 8),
        ("literesearcher-4b-two", "H20", 95, 16),
        ("agentcpm-explore-4b", "H100", 79, 8),  # not published
        *((name, "H200", 139, 1) for name in ("dr-venus-4b", "literesearcher-4b-two", "agentcpm-explore-4b")),
    ],
)
def test_a_recipe_fits_the_hardware_of_its_paper_and_one_h200(model: Path, name: str, device: str, memory: float, count: int):
    found = planned(model, name, described(device, memory, count))
    assert found.fits and not found.sentence


def test_a_copy_that_samples_beside_the_trainer_is_counted_and_without_a_model_there_is_no_plan(model: Path):
    devices = described("H200", 139, 1)
    turns, beside = (planned(model, "tiny", devices, f"rl.pipeline.placement={how}") for how in ("turns", "beside"))
    parts = beside.estimate.parts
    assert parts.pop("the copy that samples") == 4 * beside.shape.parameters and parts == turns.estimate.parts
    with pytest.raises(UserError, match="no model to plan for: give --model"):
        plan_rl(find_rl_recipe("tiny"), devices)


def test_rollouts_that_are_longer_than_the_model_reads_are_refused_stretched_positions_included(model: Path):
    devices = described("H200", 139, 1)
    (model / "config.json").write_text(json.dumps({**QWEN3_4B, "max_position_embeddings": 40_960}))
    with pytest.raises(UserError, match=r"261,000 tokens, the model has 40,960 positions: set rollout\.context_tokens=40960"):
        planned(model, "dr-venus-4b", devices)
    assert planned(model, "dr-venus-4b", devices, longest=40_960).fits
    yarn = {"rope_type": "yarn", "factor": 8.0, "original_max_position_embeddings": 32_768}
    (model / "config.json").write_text(json.dumps({**QWEN3_4B, "max_position_embeddings": 40_960, "rope_scaling": yarn}))
    assert planned(model, "dr-venus-4b", devices).fits


TURNS = ["rl.pipeline.placement=turns", "sampler.sleeps=false", "parallel.kind=replicate"]


@pytest.mark.parametrize(
    ("name", "device", "memory", "count", "overrides", "said"),
    [
        ("dr-venus-4b", "A100", 39, 4, [], "needs .* there are 38.0: set parallel.context=4"),
        ("dr-venus-4b", "H200", 139, 1, ["rl.trainer.memory.offload=false"], "set rl.trainer.memory.offload=true"),
        ("dr-venus-4b", "H200", 139, 1, ["rl.trainer.micro_batch_tokens=2000000"], r"set rl.trainer.micro_batch_tokens=261000"),
        ("dr-venus-4b", "A100", 79, 16, TURNS, "set rl.pipeline.placement=served and"),
        ("agentcpm-explore-4b", "A100", 77, 1, [], r"set rollout.context_tokens=65536, or take 2 devices\.$"),
        ("dr-venus-4b", "4090", 23.5, 1, [], r"take 16 devices and set parallel.context=4\.$"),
        ("dr-venus-4b", "4090", 3.5, 1, [], r"no setting makes it fit: take larger devices, or a smaller model\.$"),
    ],
)
def test_what_does_not_fit_says_what_to_set_and_that_does_it(
    model: Path, name: str, device: str, memory: float, count: int, overrides: list[str], said: str
):
    devices = described(device, memory, count)
    sentence = planned(model, name, devices, *overrides).sentence
    assert re.search(said, sentence, re.IGNORECASE), sentence
    assert_advice_fits(model, name, device, memory, count, overrides, sentence)


@pytest.mark.parametrize("name", recipe_names("rl"))
@pytest.mark.parametrize("overrides", [[], TURNS, ["rl.trainer.memory.offload=false", "rl.trainer.micro_batch_tokens=500000"]])
def test_whatever_a_refusal_advises_is_not_refused(model: Path, name: str, overrides: list[str]):
    for memory, count in itertools.product((3.5, 12, 23.5, 39, 79), (1, 2, 8)):
        kind = ["parallel.kind=none"] if count == 1 and overrides == TURNS else []
        if sentence := planned(model, name, described("a card", memory, count), *overrides, *kind).sentence:
            assert_advice_fits(model, name, "a card", memory, count, [*overrides, *kind], sentence)


def assert_advice_fits(
    model: Path, name: str, device: str, memory: float, count: int, overrides: list[str], sentence: str
) -> None:
    ways = advised(sentence)
    assert bool(ways) is ("no setting" not in sentence)
    for more, changes in ways:
        sets = [f"{name}={value}" for name, value in changes.items()]
        assert not planned(model, name, described(device, memory, more or count), *overrides, *sets).sentence, sentence


def test_the_command_shows_the_plan_and_refuses_what_cannot_fit(model: Path):
    run = CliRunner().invoke
    here = ["plan", "--rl", "--model", str(model), "--recipe", "literesearcher-4b", "--device", "H20", "--memory", "95"]
    fine = run(app, [*here, "--count", "8"])
    assert fine.exit_code == 0, fine.output
    assert "128 questions a step, 8 rollouts of each" in fine.output and "more while gains" not in fine.output
    refused = run(app, ["plan", "--rl", "--model", str(model), "--device", "4090", "--memory", "23.5"])
    assert isinstance(refused.exception, UserError) and "GiB" in str(refused.exception)
    assert "dr-venus-4b" in refused.output, "shown all the same"


# -- by hand ---------------------------------------------------------------------------------------------------------------

SHAPE = Shape(hidden=8, layers=2, heads=4, kv_heads=2, head_dim=4, intermediate=16, vocab=100, tied=True)
TRAINER = TrainerConfig(
    precision=Precision.BFLOAT16, micro_batch_tokens=1, memory=MemoryConfig(recompute=Recompute.FULL), logit_chunk=1000
)


def test_what_gains_add_by_hand():
    """A token: hidden states before and behind and a norm in 32 bits, 4 + 4 heads of queries and output, 2 + 2 of keys and
    values, of 4 numbers each in 16 bits."""
    tokens = 1000 + 5 * PROBE_TOKENS
    per_token = 3 * 8 * 4 + (2 * 16 + 2 * 8) * 2
    whole = per_token * tokens + 3 * 16 * 2 * tokens
    assert scoring_bytes(SHAPE, TRAINER, 1000, 5, 2) == whole
