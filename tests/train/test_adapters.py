"""LoRA through peft: the base stands still, what is saved is peft's, and merged it says the same."""

import builtins
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from tiny_qwen3 import random_rows, save_tiny, tiny_model

from sanderling.core.errors import UserError
from sanderling.policy.model_directory import load_model
from sanderling.train.adapters import add_adapter, has_adapter, load_adapter, merge_adapter
from sanderling.train.checkpoint import checkpoints
from sanderling.train.config import LoraConfig, MemoryConfig, Packing, SupervisedConfig, TrainerConfig
from sanderling.train.loss import sft
from sanderling.train.sft.loop import run_sft
from sanderling.train.trainer import Trainer

LORA = LoraConfig(rank=4, alpha=16)
CONFIG = SupervisedConfig(
    trainer=TrainerConfig(lr=1e-2, micro_batch_tokens=64, schedule="cosine", warmup_steps=2),
    epochs=3, batch_tokens=80, save_every=2, keep=9, seed=5, lora=LORA,
)  # fmt: skip


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("lora")
    done = run_sft(CONFIG, random_rows(12), save_tiny(place / "base"), place / "run")
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
    run_sft(CONFIG, random_rows(12), trained / "base", again)
    (again / "adapter").rename(again / "gone")
    (again / "checkpoints" / checkpoints(again / "checkpoints")[-1].name).rename(again / "gone too")
    seen: list[int] = []
    run_sft(CONFIG, random_rows(12), trained / "base", again, lambda progress: seen.append(progress.step))
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
