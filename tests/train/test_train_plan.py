"""Plans from the command line, for devices that are here and that are not."""

import json
from pathlib import Path

import numpy as np
import pytest
from sft_runs import advised
from typer.testing import CliRunner

from sanderling.cli.train import app
from sanderling.core.errors import UserError
from sanderling.recipes.find import find_settings
from sanderling.train.config import SftConfig, SupervisedConfig
from sanderling.train.fit import OVERHEAD, Devices, described, plan_sft
from sanderling.train.sft import batches

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


def test_devices_that_a_run_would_refuse_are_not_planned_for(model: Path):
    run = ["plan", "--model", str(model), "--device", "4090", "--memory", "23.6"]
    refused = CliRunner().invoke(app, [*run, "--count", "8"])
    assert isinstance(refused.exception, UserError) and "parallel.kind is none" in str(refused.exception)
    assert CliRunner().invoke(app, [*run, "--count", "8", "--set", "parallel.kind=fsdp"]).exit_code == 0


def test_a_gib_of_each_gpu_is_left_to_cuda(model: Path):
    config = find_settings("sft", SftConfig, "lora-24gb").model_copy(update={"model": model})
    total = plan_sft(config, described("4090", 24, 1)).estimate.total
    for spare, fits in ((0, True), (-1, False)):
        assert plan_sft(config, Devices("4090", 1, total + OVERHEAD + spare)).fits is fits
    assert Devices("processor", 1, 100, gpus=False).room == 100


def test_one_card_of_80_gb_takes_rows_of_65536_tokens_or_adapters_and_two_take_all(model: Path):
    """DR-Venus' SFT: what the refusal advises, given to the same command, is not refused."""
    run = ["plan", "--model", str(model), "--recipe", "dr-venus-4b", "--device", "H100", "--memory", "79"]
    refused = CliRunner().invoke(app, run)
    assert str(refused.exception).endswith("set data.max_tokens=65536, or set lora.rank=16, or take 2 devices.")
    for devices, changes in advised(str(refused.exception)):
        sets = [one for name, value in changes.items() for one in ("--set", f"{name}={value}")]
        again = [*run, "--row-tokens", "200000", "--count", str(devices or 1), *sets]
        assert CliRunner().invoke(app, again).exit_code == 0


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


def test_a_number_of_devices_says_which() -> None:
    """It would be ignored, and this machine's own devices be planned for."""
    told = CliRunner().invoke(app, ["plan", "--model", "m", "--count", "8"]).exception
    assert isinstance(told, UserError) and "--count with them" in str(told)
