"""What a run writes its model in at the end, and that its checkpoints stay float32 whatever that is."""

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from shard_ranks import run_shards
from test_team import pair  # noqa: F401  # a fixture
from tiny_qwen3 import random_rows, save_tiny, tiny_model

from sanderling.policy.model_directory import load_model
from sanderling.train import adapters
from sanderling.train.adapters import merge_adapter
from sanderling.train.checkpoint import checkpoints
from sanderling.train.config import LoraConfig, SaveDtype, SupervisedConfig, TrainerConfig
from sanderling.train.sft.loop import run_sft

CONFIG = SupervisedConfig(
    trainer=TrainerConfig(lr=1e-2, micro_batch_tokens=64), epochs=2, batch_tokens=80, save_every=2, keep=9, seed=5
)
WIDTHS = {SaveDtype.FLOAT32: torch.float32, SaveDtype.BFLOAT16: torch.bfloat16}


@pytest.fixture(scope="module")
def bases(tmp_path_factory: pytest.TempPathFactory) -> dict[torch.dtype, Path]:
    """The same model stored in both; its numbers are those of bfloat16."""
    place = tmp_path_factory.mktemp("bases")
    model = tiny_model().to(torch.bfloat16)
    for dtype, name in ((torch.bfloat16, "half"), (torch.float32, "single")):
        save_tiny(place / name)
        model.to(dtype).save_pretrained(place / name)
    return {torch.bfloat16: place / "half", torch.float32: place / "single"}


@pytest.fixture(scope="module")
def straight(bases, tmp_path_factory: pytest.TempPathFactory) -> dict[SaveDtype, Path]:
    """The same run, written in either."""
    place = tmp_path_factory.mktemp("straight")
    for wish in WIDTHS:
        run_sft(CONFIG.model_copy(update={"save_dtype": wish}), random_rows(12), bases[torch.float32], place / wish)
    return {wish: place / wish for wish in WIDTHS}


def tensors(directory: Path) -> dict[str, torch.Tensor]:
    return load_file(directory / "model.safetensors")


def same(ours: dict[str, torch.Tensor], theirs: dict[str, torch.Tensor]) -> bool:
    return ours.keys() == theirs.keys() and all(torch.equal(ours[name], theirs[name]) for name in theirs)


def written_in(directory: Path) -> torch.dtype:
    """What the weights are in, which has to be what the configuration tells other programs."""
    (dtype,) = {tensor.dtype for tensor in tensors(directory).values()}
    assert json.loads((directory / "config.json").read_text())["dtype"] == str(dtype).removeprefix("torch.")
    return dtype


def test_a_model_is_written_as_it_was_asked_for_rounded_once_at_the_end(straight: dict[SaveDtype, Path]) -> None:
    single, half = (straight[wish] for wish in WIDTHS)
    assert {wish: written_in(out / "model") for wish, out in straight.items()} == WIDTHS
    rounded = {name: tensor.to(torch.bfloat16) for name, tensor in tensors(single / "model").items()}
    assert same(tensors(half / "model"), rounded)
    assert load_model(half / "model", torch.bfloat16).dtype == torch.bfloat16


def test_checkpoints_are_float32_whatever_is_asked_for(straight: dict[SaveDtype, Path]) -> None:
    single, half = (checkpoints(straight[wish] / "checkpoints") for wish in WIDTHS)
    assert len(single) == len(half) > 1
    for ours, theirs in zip(half, single, strict=True):
        assert written_in(ours) == torch.float32
        assert same(tensors(ours), tensors(theirs))


@pytest.mark.parametrize("stored", [torch.float32, torch.bfloat16])
def test_unasked_a_model_is_written_as_its_base_is_stored(bases, straight, tmp_path: Path, stored: torch.dtype) -> None:
    run_sft(CONFIG, random_rows(12), bases[stored], tmp_path / "run")
    assert written_in(tmp_path / "run" / "model") == stored
    wish = next(wish for wish, width in WIDTHS.items() if width == stored)
    assert same(tensors(tmp_path / "run" / "model"), tensors(straight[wish] / "model")), "it trains in float32 all the same"


def test_shards_write_what_was_asked_for(pair, bases, straight: dict[SaveDtype, Path], tmp_path: Path) -> None:  # noqa: F811
    out = tmp_path / "run"
    pair(run_shards, CONFIG, [bases[torch.bfloat16]] * 2, out)
    assert written_in(out / "model") == torch.bfloat16
    assert {written_in(checkpoint) for checkpoint in checkpoints(out / "checkpoints")} == {torch.float32}
    ours, theirs = tensors(out / "model"), tensors(straight[SaveDtype.BFLOAT16] / "model")
    assert ours.keys() == theirs.keys()
    for name in theirs:  # sums are rounded otherwise, so at most the last bit is another
        torch.testing.assert_close(ours[name], theirs[name], rtol=2**-7, atol=1e-5)


@pytest.mark.parametrize(
    ("stored", "wish", "held"),
    [
        (torch.bfloat16, torch.bfloat16, torch.bfloat16),
        (torch.bfloat16, torch.float32, torch.float32),
        (torch.float32, torch.bfloat16, torch.float32),
    ],
)
def test_a_merge_holds_the_base_as_it_is_stored_and_rounds_once(
    bases, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stored: torch.dtype, wish: torch.dtype, held: torch.dtype
) -> None:
    config = CONFIG.model_copy(update={"lora": LoraConfig(rank=4)})
    adapter = run_sft(config, random_rows(12), bases[stored], tmp_path / "run").model_dir
    expected, before = merge_adapter(bases[torch.float32], adapter, torch.float32), tensors(bases[stored])
    loaded: list[torch.dtype] = []

    def load(path: Path, dtype: torch.dtype) -> object:
        loaded.append(dtype)
        return load_model(path, dtype)

    monkeypatch.setattr(adapters, "load_model", load)
    merged = merge_adapter(bases[stored], adapter, wish)
    assert loaded == [held]
    assert same(merged.state_dict(), {name: tensor.to(wish) for name, tensor in expected.state_dict().items()})
    assert same(tensors(bases[stored]), before)
