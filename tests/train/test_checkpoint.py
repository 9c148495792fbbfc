"""Models, adapters and checkpoints on disk, in one process and in shards."""

import builtins
import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from shard_ranks import gather_for_saving, open_shards, run_shards
from test_team import alone
from tiny_qwen3 import random_rows, save_tiny, tiny_model

from sanderling.core.errors import UserError
from sanderling.policy.model_directory import load_empty, load_model
from sanderling.train import adapters
from sanderling.train.adapters import add_adapter, has_adapter, load_adapter, merge_adapter
from sanderling.train.checkpoint import checkpoints, load_state, open_model
from sanderling.train.config import LoraConfig, MemoryConfig, Packing, Precision, SaveDtype, SupervisedConfig, TrainerConfig
from sanderling.train.fit import saved_bytes
from sanderling.train.loss import sft
from sanderling.train.sft.loop import run_sft
from sanderling.train.sft.schedule import STATE
from sanderling.train.trainer import Trainer


@pytest.mark.parametrize("left", [0, 4, 600])
def test_a_state_that_was_cut_short_is_one_sentence(tmp_path: Path, left: int) -> None:
    torch.save({"steps": 3, "optimizer": torch.zeros(1000)}, tmp_path / STATE)
    assert load_state(tmp_path)["steps"] == 3
    (tmp_path / STATE).write_bytes((tmp_path / STATE).read_bytes()[:left])
    with pytest.raises(UserError, match="is damaged: remove"):
        load_state(tmp_path)


def test_a_state_that_is_gone_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="is damaged: remove"):
        load_state(tmp_path)


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


def test_shards_write_what_was_asked_for(pair, bases, straight: dict[SaveDtype, Path], tmp_path: Path) -> None:
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


LORA = LoraConfig(rank=4, alpha=16)
LOW_RANK = SupervisedConfig(
    trainer=TrainerConfig(lr=1e-2, micro_batch_tokens=64, schedule="cosine", warmup_steps=2),
    epochs=3, batch_tokens=80, save_every=2, keep=9, seed=5, lora=LORA,
)  # fmt: skip


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("lora")
    done = run_sft(LOW_RANK, random_rows(12), save_tiny(place / "base"), place / "run")
    assert done.model_dir == place / "run" / "adapter"
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
    assert not has_adapter(merged) and merged.dtype == torch.float32
    np.testing.assert_allclose(logprobs(merged), ours, atol=1e-5)
    assert np.abs(ours - logprobs(load_model(trained / "base"))).max() > 0.1, "something was learnt"


def test_what_is_saved_is_an_adapter_that_peft_loads(trained: Path) -> None:
    import peft

    loaded = peft.PeftModel.from_pretrained(load_model(trained / "base"), str(trained / "run" / "adapter"))
    ids = torch.arange(12)[None]
    with torch.no_grad():
        theirs = loaded(input_ids=ids).logits
        ours = adapted(trained, trained / "run" / "adapter")(input_ids=ids).logits
    torch.testing.assert_close(ours, theirs)
    tensors = load_file(trained / "run" / "adapter" / "adapter_model.safetensors")
    assert all("lora_" in name for name in tensors) and len(tensors) == 2 * 7 * 2


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
@pytest.mark.parametrize("packing", list(Packing))
def test_only_adapters_move_and_they_are_float32(precision: str, packing: Packing) -> None:
    model = tiny_model().to(torch.bfloat16 if precision == "bfloat16" else torch.float32)
    add_adapter(model, LORA)
    before = {name: parameter.detach().clone() for name, parameter in model.named_parameters()}
    memory = MemoryConfig(recompute="full", mlp_tile=8)
    trainer = Trainer(model, TrainerConfig(lr=1e-2, precision=precision, packing=packing, memory=memory))
    for step in range(2):
        trainer.step(random_rows(4, seed=step), sft)
    for name, parameter in model.named_parameters():
        assert torch.equal(parameter, before[name]) != ("lora_" in name), name
        assert parameter.requires_grad == ("lora_" in name)
        assert parameter.dtype == (torch.float32 if "lora_" in name or precision == "float32" else torch.bfloat16)


def test_new_adapters_add_nothing() -> None:
    plain, model = logprobs(tiny_model()), tiny_model()
    add_adapter(model, LORA)
    assert np.array_equal(logprobs(model), plain)


def test_a_killed_run_goes_on_bit_for_bit(trained: Path) -> None:
    straight = load_file(trained / "run" / "adapter" / "adapter_model.safetensors")
    again = trained / "again"
    run_sft(LOW_RANK, random_rows(12), trained / "base", again)
    (again / "adapter").rename(again / "gone")
    (again / "checkpoints" / checkpoints(again / "checkpoints")[-1].name).rename(again / "gone too")
    seen: list[int] = []
    run_sft(LOW_RANK, random_rows(12), trained / "base", again, lambda progress: seen.append(progress.step))
    assert seen[0] > 1
    found = load_file(again / "adapter" / "adapter_model.safetensors")
    assert found.keys() == straight.keys() and all(torch.equal(found[name], straight[name]) for name in straight)


def test_wrong_targets_another_rank_and_damage_are_one_sentence(trained: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"no linear layers called q_prj: choose lora\.targets among down_proj"):
        add_adapter(tiny_model(), LoraConfig(rank=4, targets=("q_prj",)))
    model = tiny_model()
    add_adapter(model, LoraConfig(rank=2))
    with pytest.raises(UserError, match="another rank"):
        load_adapter(model, trained / "run" / "adapter")
    (tmp_path / "adapter_model.safetensors").write_bytes(b"torn")
    with pytest.raises(UserError, match="cannot be read"):
        load_adapter(model, tmp_path)
    tensors = load_file(trained / "run" / "adapter" / "adapter_model.safetensors")
    save_file(
        {name: tensor for name, tensor in tensors.items() if "q_proj" not in name}, tmp_path / "adapter_model.safetensors"
    )
    with pytest.raises(UserError, match="another model"):
        load_adapter(adapted(trained, trained / "run" / "adapter"), tmp_path)  # pyright: ignore[reportArgumentType]


def test_without_peft_one_sentence_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def lacking(name: str, *rest: object) -> object:
        if name == "peft":
            raise ModuleNotFoundError("No module named 'peft'", name="peft")
        return real(name, *rest)  # pyright: ignore[reportArgumentType]

    monkeypatch.setattr(builtins, "__import__", lacking)
    with pytest.raises(UserError, match=r"pip install '\.\[train\]'"):
        add_adapter(tiny_model(), LORA)


STEADY = TrainerConfig(lr=1e-2, eps=1e-3, micro_batch_tokens=64)
WHOLE = SupervisedConfig(trainer=STEADY, epochs=2, batch_tokens=80, save_every=2, keep=9, seed=5)
SHARDED_LORA = WHOLE.model_copy(update={"lora": LoraConfig(rank=4, alpha=16)})


def halved(config: SupervisedConfig) -> SupervisedConfig:
    """In bfloat16, each row in a pass of its own: beside others it would be rounded otherwise."""
    update = {"precision": Precision.BFLOAT16, "micro_batch_tokens": 1}
    return config.model_copy(update={"trainer": STEADY.model_copy(update=update)})


SETTINGS = {"whole": WHOLE, "lora": SHARDED_LORA, "whole, bfloat16": halved(WHOLE), "lora, bfloat16": halved(SHARDED_LORA)}


@pytest.fixture(scope="module")
def two_bases(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """A model as rank 0 sees it and as rank 1 does: without weights."""
    place = tmp_path_factory.mktemp("bases")
    first, second = save_tiny(place / "first"), place / "second"
    shutil.copytree(first, second, ignore=shutil.ignore_patterns("*.safetensors"))
    return [first, second]


@pytest.mark.parametrize("config", SETTINGS.values(), ids=SETTINGS)
def test_shards_hold_what_one_process_reads(pair, two_bases: list[Path], config: SupervisedConfig) -> None:
    first, second = pair(open_shards, config, two_bases, None)
    torch.manual_seed(11)
    solo = open_model(config, two_bases[0], None)
    there = {name: (p.dtype, p.detach().float().numpy().tobytes()) for name, p in solo.named_parameters()}
    assert first.weights == second.weights == there, "new adapters included"
    assert first.buffers == second.buffers == {name: buffer.numpy().tobytes() for name, buffer in solo.named_buffers()}
    assert "model.rotary_emb.inv_freq" in first.buffers
    assert first.tied and second.tied
    numbers = sum(p.numel() for p in solo.parameters())
    assert first.kept + second.kept == numbers and second.kept < 0.6 * numbers


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


@pytest.mark.parametrize("lora", [False, True])
def test_broken_weights_end_both_with_the_sentence_of_rank_0(pair, two_bases, tmp_path: Path, lora: bool) -> None:
    broken = shutil.copytree(two_bases[0], tmp_path / "broken")
    tensors = load_file(broken / "model.safetensors")
    tensors["model.layers.1.mlp.up_proj.weight"][3, 4] = np.nan
    save_file(tensors, broken / "model.safetensors", {"format": "pt"})
    errors = pair(open_shards, SHARDED_LORA if lora else WHOLE, [broken, two_bases[1]], None, errors=True)
    assert [type(error) for error in errors] == [UserError] * 2
    assert str(errors[0]) == str(errors[1]) and "layers.1.mlp.up_proj" in str(errors[0]) and "NaN" in str(errors[0])


@pytest.mark.parametrize("config", [WHOLE, SHARDED_LORA], ids=["whole", "lora"])
def test_rank_0_alone_gathers_what_is_trained_and_a_plan_counts_it(pair, two_bases: list[Path], config) -> None:
    (gathered, trained), (other, _) = pair(gather_for_saving, config, two_bases)
    assert gathered == pytest.approx(saved_bytes(trained), rel=0.01) and other == 0


def test_an_empty_model_is_the_model_without_its_weights(two_bases: list[Path], tmp_path: Path) -> None:
    empty, full = load_empty(two_bases[1], torch.bfloat16), load_model(two_bases[0], torch.bfloat16)
    described = [
        {name: (t.shape, t.dtype) for name, t in (*model.named_parameters(), *model.named_buffers())} for model in (empty, full)
    ]
    assert described[0] == described[1] and all(p.is_meta for p in empty.parameters())
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(UserError, match=r"check its config\.json"):
        load_empty(tmp_path)
