"""Models, adapters and checkpoints on disk, in one process and in shards."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from shard_ranks import run_shards
from test_team import alone
from tiny_qwen3 import random_rows, save_tiny, tiny_model

from sanderling.core.errors import UserError
from sanderling.policy.model_directory import load_model
from sanderling.train.checkpoint import add_adapter, checkpoints, load_adapter, load_state, merge_adapter, save_checkpoint
from sanderling.train.config import LoraConfig, MemoryConfig, Precision, SupervisedConfig, TrainerConfig
from sanderling.train.rows import sft
from sanderling.train.sft import run_sft
from sanderling.train.trainer import Trainer


def test_a_state_that_was_cut_short_is_one_sentence(tmp_path: Path) -> None:
    saved = save_checkpoint(tmp_path, 3, tiny_model(), {"steps": 3, "optimizer": torch.zeros(1000)}, None, 1)
    assert load_state(saved)["steps"] == 3
    state = saved / "trainer_state.pt"
    state.write_bytes(state.read_bytes()[:600])
    with pytest.raises(UserError, match="is damaged: remove"):
        load_state(saved)


CONFIG = SupervisedConfig(
    trainer=TrainerConfig(lr=1e-2, micro_batch_tokens=64), epochs=2, batch_tokens=80, save_every=2, keep=9, seed=5
)


@pytest.fixture(scope="module")
def bases(tmp_path_factory: pytest.TempPathFactory) -> dict[torch.dtype, Path]:
    """The same model stored in both; its numbers are those of bfloat16."""
    place = tmp_path_factory.mktemp("bases")
    model = tiny_model().to(torch.bfloat16)
    for dtype, name in ((torch.bfloat16, "half"), (torch.float32, "single")):
        save_tiny(place / name)
        model.to(dtype).save_pretrained(place / name)
    return {torch.bfloat16: place / "half", torch.float32: place / "single"}


def tensors(directory: Path) -> dict[str, torch.Tensor]:
    return load_file(directory / "model.safetensors")


def same(ours: dict[str, torch.Tensor], theirs: dict[str, torch.Tensor]) -> bool:
    return ours.keys() == theirs.keys() and all(torch.equal(ours[name], theirs[name]) for name in theirs)


def written_in(directory: Path) -> torch.dtype:
    """What the weights are in, which has to be what the configuration tells other programs."""
    (dtype,) = {tensor.dtype for tensor in tensors(directory).values()}
    assert json.loads((directory / "config.json").read_text())["dtype"] == str(dtype).removeprefix("torch.")
    return dtype


def test_a_model_is_written_as_its_base_is_stored_rounded_once_at_the_end(pair, bases, tmp_path: Path) -> None:
    for dtype, base in bases.items():
        run_sft(CONFIG, random_rows(12), base, tmp_path / str(dtype))
    single, half = (tmp_path / str(dtype) for dtype in (torch.float32, torch.bfloat16))
    assert (written_in(single / "model"), written_in(half / "model")) == (torch.float32, torch.bfloat16)
    rounded = {name: tensor.to(torch.bfloat16) for name, tensor in tensors(single / "model").items()}
    assert same(tensors(half / "model"), rounded), "it trains in float32 all the same"
    for ours, theirs in zip(checkpoints(half / "checkpoints"), checkpoints(single / "checkpoints"), strict=True):
        assert written_in(ours) == torch.float32 and same(tensors(ours), tensors(theirs))
    pair(run_shards, CONFIG, [bases[torch.bfloat16]] * 2, tmp_path / "shards")
    assert written_in(tmp_path / "shards" / "model") == torch.bfloat16


LORA = LoraConfig(rank=4, alpha=16)
LOW_RANK = SupervisedConfig(
    trainer=TrainerConfig(lr=1e-2, micro_batch_tokens=64, schedule="cosine", warmup_steps=2),
    epochs=3, batch_tokens=80, save_every=2, keep=9, seed=5, lora=LORA,
)  # fmt: skip


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("lora")
    assert run_sft(LOW_RANK, random_rows(12), save_tiny(place / "base"), place / "run")
    return place


def logprobs(model: torch.nn.Module) -> np.ndarray:
    return np.concatenate(Trainer(model, TrainerConfig()).logprobs(random_rows(5, seed=9)))  # pyright: ignore[reportArgumentType]


def adapted(place: Path, adapter: Path) -> torch.nn.Module:
    model = load_model(place / "base")
    add_adapter(model, LORA)
    load_adapter(model, adapter)
    return model


def test_merged_it_says_what_base_and_adapter_say(trained: Path) -> None:
    ours = logprobs(adapted(trained, trained / "run" / "adapter"))
    merged = merge_adapter(trained / "base", trained / "run" / "adapter", torch.float32)
    half = merge_adapter(trained / "base", trained / "run" / "adapter", torch.bfloat16).state_dict()
    assert same(half, {name: tensor.to(torch.bfloat16) for name, tensor in merged.state_dict().items()}), "rounded once"
    assert merged.dtype == torch.float32
    np.testing.assert_allclose(logprobs(merged), ours, atol=1e-5)
    assert np.abs(ours - logprobs(load_model(trained / "base"))).max() > 0.1, "something was learnt"


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_only_adapters_move_and_they_are_float32(precision: str) -> None:
    model = tiny_model().to(torch.bfloat16 if precision == "bfloat16" else torch.float32)
    plain = logprobs(model)
    add_adapter(model, LORA)
    assert np.array_equal(logprobs(model), plain), "new ones add nothing"
    before = {name: parameter.detach().clone() for name, parameter in model.named_parameters()}
    memory = MemoryConfig(recompute="full", mlp_tile=8)
    trainer = Trainer(model, TrainerConfig(lr=1e-2, precision=precision, memory=memory))
    for step in range(2):
        trainer.step(random_rows(4, seed=step), sft)
    for name, parameter in model.named_parameters():
        assert torch.equal(parameter, before[name]) != ("lora_" in name), name
        assert parameter.requires_grad == ("lora_" in name)
        assert parameter.dtype == (torch.float32 if "lora_" in name or precision == "float32" else torch.bfloat16)


def test_another_rank_and_damage_are_one_sentence(trained: Path, tmp_path: Path) -> None:
    model = tiny_model()
    add_adapter(model, LoraConfig(rank=2))
    with pytest.raises(UserError, match="another model or rank"):
        load_adapter(model, trained / "run" / "adapter")
    (tmp_path / "adapter_model.safetensors").write_bytes(b"torn")
    with pytest.raises(UserError, match="is damaged"):
        load_adapter(model, tmp_path)
    of_other_layers = {name.replace("layers.0", "layers.9"): value for name, value in final_weights(trained / "run").items()}
    save_file(of_other_layers, tmp_path / "adapter_model.safetensors")
    add_adapter(other := tiny_model(), LORA)
    with pytest.raises(UserError, match="another model or rank: choose another --out"):
        load_adapter(other, tmp_path)


def test_an_adapter_goes_on_bit_for_bit_and_one_that_is_finished_is_left_alone(trained: Path, tmp_path: Path) -> None:
    shutil.copytree(trained / "run", tmp_path / "run")
    assert not run_sft(LOW_RANK, random_rows(12), trained / "base", tmp_path / "run")
    for later in (tmp_path / "run" / "adapter", *checkpoints(tmp_path / "run" / "checkpoints")[1:]):
        shutil.rmtree(later)
    assert run_sft(LOW_RANK, random_rows(12), trained / "base", tmp_path / "run")
    assert same(final_weights(tmp_path / "run"), final_weights(trained / "run"))


STEADY = TrainerConfig(lr=1e-2, eps=1e-3, micro_batch_tokens=64)
WHOLE = SupervisedConfig(trainer=STEADY, epochs=2, batch_tokens=80, save_every=2, keep=9, seed=5)
SHARDED_LORA = WHOLE.model_copy(update={"lora": LoraConfig(rank=4, alpha=16)})


def halved(config: SupervisedConfig) -> SupervisedConfig:
    """In bfloat16, each row in a pass of its own: beside others it would be rounded otherwise."""
    update = {"precision": Precision.BFLOAT16, "micro_batch_tokens": 1}
    return config.model_copy(update={"trainer": STEADY.model_copy(update=update)})


SETTINGS = {"whole": WHOLE, "lora, bfloat16": halved(SHARDED_LORA)}


@pytest.fixture(scope="module")
def two_bases(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """A model as rank 0 sees it and as rank 1 does: without weights."""
    place = tmp_path_factory.mktemp("bases")
    first, second = save_tiny(place / "first"), place / "second"
    shutil.copytree(first, second, ignore=shutil.ignore_patterns("*.safetensors"))
    return [first, second]


@pytest.fixture(scope="module")
def runs(pair, two_bases: list[Path], tmp_path_factory: pytest.TempPathFactory):
    """The run of each setting, by two ranks and by one."""
    place = tmp_path_factory.mktemp("runs")
    for name, config in SETTINGS.items():
        pair(run_shards, config, two_bases, place / name / "pair")
        alone(run_shards, config, two_bases, place / name / "solo")
    return place


def final_weights(out: Path) -> dict[str, torch.Tensor]:
    (file,) = (path for final in ("model", "adapter") for path in (out / final).glob("*model.safetensors"))
    return load_file(file)


def close(ours: dict[str, torch.Tensor], theirs: dict[str, torch.Tensor], atol: float) -> None:
    assert ours.keys() == theirs.keys()
    for name in theirs:
        torch.testing.assert_close(ours[name], theirs[name], atol=atol, rtol=0)


@pytest.mark.parametrize("name", SETTINGS)
def test_two_ranks_end_with_the_weights_of_one(runs: Path, two_bases: list[Path], name: str) -> None:
    ours, theirs = final_weights(runs / name / "pair"), final_weights(runs / name / "solo")
    close(ours, theirs, 1e-6)
    start = load_file(two_bases[0] / "model.safetensors")
    assert all((theirs[key] - start.get(key, 0)).abs().max() > 0.01 for key in theirs), "something was learnt"


@pytest.mark.parametrize("name", SETTINGS)
def test_a_run_of_two_goes_on_bit_for_bit_and_so_does_one_that_was_of_one(pair, runs: Path, two_bases, name: str) -> None:
    config = SETTINGS[name]
    for before in ("pair", "solo"):
        out = runs / name / f"{before} resumed"
        shutil.copytree(runs / name / before, out)
        shutil.rmtree(out / ("adapter" if config.lora.rank else "model"))
        _, *later = checkpoints(out / "checkpoints")
        assert later
        for checkpoint in later:
            shutil.rmtree(checkpoint)
        losses, _ = pair(run_shards, config, two_bases, out)
        assert losses
        close(final_weights(out), final_weights(runs / name / "pair"), 0 if before == "pair" else 1e-6)
