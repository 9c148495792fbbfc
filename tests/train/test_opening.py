"""In shards rank 0 alone reads the model: the others need its config only, and hold and train what one process does."""

import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from shard_ranks import gather_for_saving, open_shards, run_shards
from test_team import alone, pair  # noqa: F401  # pair is a fixture
from tiny_qwen3 import save_tiny

from sanderling.core.errors import UserError
from sanderling.policy.model_directory import load_empty, load_model
from sanderling.train.checkpoint import checkpoints, open_model
from sanderling.train.config import LoraConfig, Precision, SupervisedConfig, TrainerConfig
from sanderling.train.fit import saved_bytes

STEADY = TrainerConfig(lr=1e-2, eps=1e-3, micro_batch_tokens=64)
WHOLE = SupervisedConfig(trainer=STEADY, epochs=2, batch_tokens=80, save_every=2, keep=9, seed=5)
LORA = WHOLE.model_copy(update={"lora": LoraConfig(rank=4, alpha=16)})


def halved(config: SupervisedConfig) -> SupervisedConfig:
    """In bfloat16, each row in a pass of its own: beside others it would be rounded otherwise."""
    update = {"precision": Precision.BFLOAT16, "micro_batch_tokens": 1}
    return config.model_copy(update={"trainer": STEADY.model_copy(update=update)})


SETTINGS = {"whole": WHOLE, "lora": LORA, "whole, bfloat16": halved(WHOLE), "lora, bfloat16": halved(LORA)}


@pytest.fixture(scope="module")
def bases(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """A model as rank 0 sees it and as rank 1 does: without weights."""
    place = tmp_path_factory.mktemp("bases")
    first, second = save_tiny(place / "first"), place / "second"
    shutil.copytree(first, second, ignore=shutil.ignore_patterns("*.safetensors"))
    return [first, second]


@pytest.mark.parametrize("config", SETTINGS.values(), ids=SETTINGS)
def test_shards_hold_what_one_process_reads(pair, bases: list[Path], config: SupervisedConfig) -> None:  # noqa: F811
    first, second = pair(open_shards, config, bases, None)
    torch.manual_seed(11)
    solo = open_model(config, bases[0], None)
    there = {name: (p.dtype, p.detach().float().numpy().tobytes()) for name, p in solo.named_parameters()}
    assert first.weights == second.weights == there, "new adapters included"
    assert first.buffers == second.buffers == {name: buffer.numpy().tobytes() for name, buffer in solo.named_buffers()}
    assert "model.rotary_emb.inv_freq" in first.buffers
    assert first.tied and second.tied
    numbers = sum(p.numel() for p in solo.parameters())
    assert first.kept + second.kept == numbers and second.kept < 0.6 * numbers


@pytest.fixture(scope="module")
def runs(pair, bases: list[Path], tmp_path_factory: pytest.TempPathFactory):  # noqa: F811
    """The run of each setting, by two ranks and by one."""
    place = tmp_path_factory.mktemp("runs")
    for name, config in SETTINGS.items():
        pair(run_shards, config, bases, place / name / "pair")
        alone(run_shards, config, bases, place / name / "solo")
    return place


def trained(out: Path) -> dict[str, torch.Tensor]:
    (file,) = (path for final in ("model", "adapter") for path in (out / final).glob("*model.safetensors"))
    return load_file(file)


def close(ours: dict[str, torch.Tensor], theirs: dict[str, torch.Tensor], atol: float) -> None:
    assert ours.keys() == theirs.keys()
    for name in theirs:
        torch.testing.assert_close(ours[name], theirs[name], atol=atol, rtol=0)


@pytest.mark.parametrize("name", SETTINGS)
def test_two_ranks_end_with_the_weights_of_one(runs: Path, bases: list[Path], name: str) -> None:
    ours, theirs = trained(runs / name / "pair"), trained(runs / name / "solo")
    close(ours, theirs, 1e-6)
    start = load_file(bases[0] / "model.safetensors")
    assert all((theirs[key] - start.get(key, 0)).abs().max() > 0.01 for key in theirs), "something was learnt"


@pytest.mark.parametrize("name", SETTINGS)
def test_a_run_of_two_goes_on_bit_for_bit_and_so_does_one_that_was_of_one(pair, runs: Path, bases, name: str) -> None:  # noqa: F811
    config = SETTINGS[name]
    for before in ("pair", "solo"):
        out = runs / name / f"{before} resumed"
        shutil.copytree(runs / name / before, out)
        shutil.rmtree(out / ("adapter" if config.lora.rank else "model"))
        _, *later = checkpoints(out / "checkpoints")
        assert later
        for checkpoint in later:
            shutil.rmtree(checkpoint)
        losses, _ = pair(run_shards, config, bases, out)
        assert losses
        close(trained(out), trained(runs / name / "pair"), 0 if before == "pair" else 1e-6)


@pytest.mark.parametrize("lora", [False, True])
def test_broken_weights_end_both_with_the_sentence_of_rank_0(pair, bases, tmp_path: Path, lora: bool) -> None:  # noqa: F811
    broken = shutil.copytree(bases[0], tmp_path / "broken")
    tensors = load_file(broken / "model.safetensors")
    tensors["model.layers.1.mlp.up_proj.weight"][3, 4] = np.nan
    save_file(tensors, broken / "model.safetensors", {"format": "pt"})
    errors = pair(open_shards, LORA if lora else WHOLE, [broken, bases[1]], None, errors=True)
    assert [type(error) for error in errors] == [UserError] * 2
    assert str(errors[0]) == str(errors[1]) and "layers.1.mlp.up_proj" in str(errors[0]) and "NaN" in str(errors[0])


@pytest.mark.parametrize("config", [WHOLE, LORA], ids=["whole", "lora"])
def test_rank_0_alone_gathers_what_is_trained_and_a_plan_counts_it(pair, bases: list[Path], config) -> None:  # noqa: F811
    (gathered, trained), (other, _) = pair(gather_for_saving, config, bases)
    assert gathered == pytest.approx(saved_bytes(trained), rel=0.01) and other == 0


def test_an_empty_model_is_the_model_without_its_weights(bases: list[Path], tmp_path: Path) -> None:
    empty, full = load_empty(bases[1], torch.bfloat16), load_model(bases[0], torch.bfloat16)
    described = [
        {name: (t.shape, t.dtype) for name, t in (*model.named_parameters(), *model.named_buffers())} for model in (empty, full)
    ]
    assert described[0] == described[1] and all(p.is_meta for p in empty.parameters())
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(UserError, match=r"check its config\.json"):
        load_empty(tmp_path)
