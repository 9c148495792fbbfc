"""`sanderling train sft` from trajectories to a model, in this process."""

import io
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console
from sft_runs import weights, write_base, write_data, write_settings

from sanderling.core.errors import UserError
from sanderling.recipes.find import find_settings
from sanderling.runs.progress import Report
from sanderling.train.config import SftConfig
from sanderling.train.metrics import read_metrics
from sanderling.train.sft.run import Order, run_sft_command


@pytest.fixture(scope="module")
def given(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("given")
    write_base(place / "base")
    write_data(place / "data.jsonl")
    write_settings(place / "settings.toml")
    return place


def config_of(given: Path, *overrides: str, data: str = "data.jsonl") -> SftConfig:
    config = find_settings("sft", SftConfig, str(given / "settings.toml"), overrides)
    files = {"data": config.data.model_copy(update={"files": (given / data,)})}
    return config.model_copy(update={"model": given / "base", **files})


def run(config: SftConfig, out: Path) -> str:
    console = Console(file=io.StringIO(), width=200)
    run_sft_command(Order(config, out), Report(console))
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_a_run_ends_in_a_model_and_a_second_one_does_nothing(given: Path, tmp_path: Path) -> None:
    said = run(config_of(given), tmp_path / "run")
    assert "12 trajectories made 12 rows." in said and "6 steps." in said
    assert f"The model is in {tmp_path}/run/model: ask it with" in said
    metrics = read_metrics(tmp_path / "run" / "metrics.jsonl")
    assert [line["step"] for line in metrics] == [1, 2, 3, 4, 5, 6] and metrics[-1]["loss"] < metrics[0]["loss"]
    assert [line["rows"] for line in metrics] == [4] * 6
    before = (tmp_path / "run" / "model" / "model.safetensors").stat().st_mtime_ns
    again = run(config_of(given), tmp_path / "run")
    assert "finished before" in again and "was written in" not in again
    assert (tmp_path / "run" / "model" / "model.safetensors").stat().st_mtime_ns == before


def test_rows_made_before_give_the_same_weights(given: Path, tmp_path: Path) -> None:
    run(config_of(given), tmp_path / "one")
    rows = given / "made.parquet"
    rows.write_bytes((tmp_path / "one" / "rows.parquet").read_bytes())
    run(config_of(given, data="made.parquet"), tmp_path / "two")
    ours, theirs = (weights(tmp_path / name / "model") for name in ("one", "two"))
    assert ours.keys() == theirs.keys() and all(np.array_equal(ours[name], theirs[name]) for name in ours)


def test_a_wrong_key_and_a_wrong_name_are_told() -> None:
    with pytest.raises(UserError, match=r"did you mean lora\.rank"):
        find_settings("sft", SftConfig, "lora-24gb", ["lora.rnk=3"])
    with pytest.raises(UserError, match=r"choose agentcpm-explore-4b.*lora-24gb"):
        find_settings("sft", SftConfig, "lora")
