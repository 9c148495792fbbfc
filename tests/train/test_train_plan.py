"""Plans from the command line, for devices that are here and that are not."""

import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from sanderling.cli.train import app
from sanderling.core.errors import UserError
from sanderling.recipes.find import find_settings
from sanderling.train.config import SftConfig, SupervisedConfig
from sanderling.train.fit import OVERHEAD, Devices, described, devices_here, plan_sft, taken
from sanderling.train.sft.loop import batches

QWEN3_4B = {
    "hidden_size": 2560, "num_hidden_layers": 36, "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 128,
    "intermediate_size": 9728, "vocab_size": 151_936, "tie_word_embeddings": True,
}  # fmt: skip


@pytest.fixture
def model(tmp_path: Path) -> Path:
    (tmp_path / "config.json").write_text(json.dumps(QWEN3_4B))
    return tmp_path


def test_a_batch_of_tokens_is_closed_by_the_row_that_reaches_them(model: Path):
    settings = SupervisedConfig(batch_tokens=32_768, shuffle=False)
    largest = batches(np.array([32_767, 32_768, 5]), settings, 0)[0]
    config = SftConfig.model_validate(settings.model_dump() | {"model": model})
    assert plan_sft(config, described("H200", 139, 1), 32_768).step_tokens == 32_767 + 32_768
    assert largest == [0, 1], "as large as that"


def test_a_step_takes_no_less_than_its_longest_row(model: Path):
    config = find_settings("sft", SftConfig, "dr-venus-4b", ["data.profile='dr-venus-4b'", "batch_trajectories=1"])
    one, eight = (plan_sft(config.model_copy(update={"model": model}), described("A100", 79, n)) for n in (1, 8))
    shared = config.model_copy(update={"model": model, "parallel": config.parallel.model_copy(update={"context": 8})})
    assert one.step_seconds is not None
    assert eight.step_seconds == pytest.approx(one.step_seconds), "seven have nothing to do"
    assert plan_sft(shared, described("A100", 79, 8)).step_seconds == pytest.approx(one.step_seconds / 8)


def test_devices_that_a_run_would_refuse_are_not_planned_for(model: Path):
    run = ["plan", "--model", str(model), "--device", "4090", "--memory", "23.6"]
    refused = CliRunner().invoke(app, [*run, "--count", "8"])
    assert isinstance(refused.exception, UserError) and "parallel.kind is none" in str(refused.exception)
    assert CliRunner().invoke(app, [*run, "--count", "8", "--set", "parallel.kind=fsdp"]).exit_code == 0


@pytest.mark.parametrize(("kind", "count"), [("none", 1), ("replicate", 8)])
def test_of_several_gpus_that_are_here_a_run_in_one_process_takes_one(model: Path, kind: str, count: int):
    config = find_settings("sft", SftConfig, "lora-24gb", [f"parallel.kind={kind}"]).model_copy(update={"model": model})
    devices = taken(described("H200", 139, 8), config.parallel)
    assert plan_sft(config, devices).load.ranks == count


def test_a_gib_of_each_gpu_is_left_to_cuda(model: Path):
    config = find_settings("sft", SftConfig, "lora-24gb").model_copy(update={"model": model})
    total = plan_sft(config, described("4090", 24, 1)).estimate.total
    for spare, fits in ((0, True), (-1, False)):
        assert plan_sft(config, Devices("4090", 1, total + OVERHEAD + spare)).fits is fits
    assert Devices("processor", 1, 100, gpus=False).room == 100


def test_the_command_prints_a_table_and_refuses_what_cannot_fit(model: Path):
    run = CliRunner().invoke
    fine = run(app, ["plan", "--model", str(model), "--device", "H200", "--memory", "139", "--row-tokens", "32768"])
    assert fine.exit_code == 0, fine.output
    assert "4.02 billion parameters" in fine.output and "altogether" in fine.output
    tight = ["--device", "4090", "--memory", "23.5", "--recipe", "dr-venus-4b", "--row-tokens", "32768"]
    refused = run(app, ["plan", "--model", str(model), *tight])
    assert isinstance(refused.exception, UserError) and "lora.rank" in str(refused.exception)
    alone = run(app, ["plan", "--model", str(model), "--device", "H200"])
    assert isinstance(alone.exception, UserError) and "--memory" in str(alone.exception)


def test_without_a_length_nothing_is_guessed(model: Path):
    config = find_settings("sft", SftConfig, "lora-24gb", ["data.max_tokens=0"]).model_copy(update={"model": model})
    with pytest.raises(UserError, match="row-tokens"):
        plan_sft(config, described("H200", 139, 1))


def test_this_machine_has_memory_and_known_devices_have_a_speed():
    here = devices_here()
    assert here.bytes > 2**30 and here.count >= 1
    assert described("NVIDIA H100 80GB HBM3", 80, 1).speeds == (989e12, 3.35e12)
    assert described("an abacus", 1, 1).speeds is None


@pytest.mark.parametrize(("context", "count", "sentence"), [(4, 1, "there are 1"), (6, 6, "cannot share the model's 32 heads")])
def test_devices_that_cannot_share_rows_are_told(model: Path, context: int, count: int, sentence: str):
    sharing = find_settings("sft", SftConfig, "dr-venus-4b", ["data.profile='dr-venus-4b'", f"parallel.context={context}"])
    with pytest.raises(UserError, match=sentence):
        plan_sft(sharing.model_copy(update={"model": model}), described("A100", 79, count))
