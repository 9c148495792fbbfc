"""Plans agree with what models hold and compute, and what they say to set makes a run fit."""

import json
import weakref
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sft_runs import advised
from tiny_qwen3 import tiny_model
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import FlopCounterMode
from transformers import Qwen3Config, Qwen3ForCausalLM
from typer.testing import CliRunner

from sanderling.cli.train import app
from sanderling.core.errors import UserError
from sanderling.recipes.find import find_settings
from sanderling.train import fit
from sanderling.train.attention import Stretch, packed_attention
from sanderling.train.checkpoint import add_adapter
from sanderling.train.config import LoraConfig, MemoryConfig, Precision, Recompute, SftConfig, SupervisedConfig, TrainerConfig
from sanderling.train.memory import economise
from sanderling.train.sft import batches, plan_sft

QWEN3_4B = fit.Shape(hidden=2560, layers=36, heads=32, kv_heads=8, head_dim=128, intermediate=9728, vocab=151_936, tied=True)


def test_parameters_and_flops_are_the_models_own(tmp_path: Path):
    model = tiny_model(layers=3)
    model.config.save_pretrained(tmp_path)
    shape = fit.read_shape(tmp_path)
    assert shape.parameters == sum(p.numel() for p in model.parameters())
    ids = torch.zeros(1, 64, dtype=torch.int64)
    with FlopCounterMode(display=False) as counter:
        model(input_ids=ids).logits.sum().backward()
    counted = counter.get_total_flops()
    # The counter knows no attention on a CPU: two products, each once forward and twice backward, half of the pairs.
    attention = (2 + 2) * 3 / 2 * 64 * 64 * shape.layers * shape.heads * shape.head_dim
    assert shape.flops(64, 64) == pytest.approx(counted + attention, rel=1e-3)


@pytest.mark.parametrize("name", ["num_experts", "num_local_experts", "n_routed_experts"])
def test_a_mixture_of_experts_is_not_counted_as_if_it_were_dense(name: str, tmp_path: Path):
    dense = {
        "hidden_size": 2048, "num_hidden_layers": 48, "num_attention_heads": 32, "num_key_value_heads": 4,
        "intermediate_size": 6144, "vocab_size": 151_936,
    }  # fmt: skip

    def shape(**more: int | None) -> fit.Shape:
        (tmp_path / "config.json").write_text(json.dumps(dense | more))
        return fit.read_shape(tmp_path)

    with pytest.raises(UserError, match=f"mixture of 128 experts .{name}"):
        shape(**{name: 128})
    assert shape(**{name: None}) == shape(**{name: 1}) == shape()
    with pytest.raises(UserError, match="does not say num_key_value_heads: only decoders' sizes are understood"):
        shape(num_key_value_heads=None)


def test_of_unlike_gpus_the_smallest_stands_for_all(monkeypatch: pytest.MonkeyPatch):
    cards = [SimpleNamespace(name=name, total_memory=memory) for name, memory in (("H200", 141), ("A100", 80))]
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: len(cards))
    monkeypatch.setattr(torch.cuda, "get_device_properties", cards.__getitem__)
    assert fit.devices_here() == fit.Devices("A100", 2, 80)


SHAPES = {
    "0.6B": fit.Shape(1024, 2, 16, 8, 128, 3072, 64, tied=True),
    "4B": fit.Shape(2560, 2, 32, 8, 128, 9728, 64, tied=True),
    "wide": fit.Shape(3584, 2, 28, 4, 128, 18_944, 64, tied=True),
}
"""Two layers each, and next to no head: that of a long row runs in chunks, and is planned by itself."""
TOKENS = 16_384
LORA = LoraConfig(rank=16)


class Counted(TorchDispatchMode):
    """Bytes of all storages that operators made and nobody has let go of, and the most of them at any time."""

    def __init__(self) -> None:
        super().__init__()
        self.now = self.peak = 0
        self._sizes: dict[int, int] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        made = func(*args, **(kwargs or {}))
        for storage in (one.untyped_storage() for one in tree_leaves(made) if isinstance(one, torch.Tensor)):
            if storage._cdata not in self._sizes:
                self._sizes[storage._cdata] = storage.nbytes()
                self.now += storage.nbytes()
                weakref.finalize(storage, self._gone, storage._cdata)
        self.peak = max(self.peak, self.now)
        return made

    def _gone(self, storage: int) -> None:
        self.now -= self._sizes.pop(storage)


@pytest.fixture(params=["mixed", "shards", "adapter"])
def kind(request: pytest.FixtureRequest) -> Iterator[str]:
    """Mixed precision; 16 bits throughout, as shards compute; an adapter on a base in 16 bits.

    Models are made in the numbers that they compute in.
    """
    torch.set_default_dtype(torch.bfloat16 if request.param in ("shards", "adapter") else torch.float32)
    yield request.param
    torch.set_default_dtype(torch.float32)


def weightless(config: Qwen3Config, kind: str) -> Qwen3ForCausalLM:
    """A model whose memory nobody touches."""
    with torch.device("meta"):
        model = Qwen3ForCausalLM(config)
    model = model.to_empty(device="cpu").train()
    torch.set_default_dtype(torch.float32)
    if kind == "adapter":
        add_adapter(model, LORA)
    return model


def counted(shape: fit.Shape, memory: MemoryConfig, kind: str) -> int:
    """Bytes that a pass over one row holds at most, beside weights and gradients, which are there before it."""
    config = Qwen3Config(
        hidden_size=shape.hidden, num_hidden_layers=shape.layers, num_attention_heads=shape.heads,
        num_key_value_heads=shape.kv_heads, head_dim=shape.head_dim, intermediate_size=shape.intermediate,
        vocab_size=shape.vocab, tie_word_embeddings=shape.tied,
    )  # fmt: skip
    model = weightless(config, kind)
    economise(model, memory)
    with FakeTensorMode(allow_non_fake_inputs=True) as fake, Counted() as count:
        for module in model.modules():
            for name, own in module.named_parameters(recurse=False):
                weight = nn.Parameter(fake.from_tensor(own.detach()), own.requires_grad)
                weight.grad = torch.zeros_like(weight) if own.requires_grad else None
                setattr(module, name, weight)
            for name, own in module.named_buffers(recurse=False):
                setattr(module, name, fake.from_tensor(own))
        before = count.now
        ids, positions = torch.zeros(1, TOKENS, dtype=torch.int64), torch.arange(TOKENS)[None]
        with packed_attention(model):
            with torch.autocast("cpu", torch.bfloat16, enabled=kind in ("mixed", "adapter")):
                hidden = model.base_model(
                    input_ids=ids, position_ids=positions, use_cache=False, stretches=[Stretch(TOKENS)]
                ).last_hidden_state
            hidden.backward(torch.ones_like(hidden))
        return count.peak - before


@pytest.mark.parametrize(
    "memory",
    [
        pytest.param(MemoryConfig(), id="none"),
        pytest.param(MemoryConfig(mlp_tile=2048), id="tiles"),
        pytest.param(MemoryConfig(recompute=Recompute.FULL), id="full"),
        pytest.param(MemoryConfig(recompute=Recompute.FULL, mlp_tile=2048), id="full in tiles"),
    ],
)
@pytest.mark.parametrize("name", SHAPES)
def test_what_is_alive_at_once_is_what_was_planned(name: str, memory: MemoryConfig, kind: str):
    shape = SHAPES[name]
    trainer = TrainerConfig(precision=Precision.BFLOAT16, memory=memory, micro_batch_tokens=1)
    adapter = fit.lora_parameters(shape, LORA.rank) if kind == "adapter" else None
    parts = fit.estimate(shape, trainer, fit.Load(TOKENS, sharded=kind == "shards", lora_parameters=adapter)).parts
    planned = parts["kept for the backward pass"] + parts["alive at once, in a layer or at the head"]
    if kind == "mixed":
        planned += parts["weights in use"]
    measured = counted(shape, memory, kind)
    assert 0.97 * measured < planned < 1.25 * measured


QWEN3_14B = fit.Shape(
    hidden=5120, layers=40, heads=40, kv_heads=8, head_dim=128, intermediate=17_408, vocab=151_936, tied=False
)
GIB = 2**30
H200 = 139 * GIB


def settings(kind: str = "none", rank: int = 0, **trainer: object) -> SftConfig:
    values = {"precision": Precision.BFLOAT16, **trainer}
    return SftConfig.model_validate(
        {"trainer": TrainerConfig.model_validate(values), "parallel": {"kind": kind}, "lora": {"rank": rank}}
    )


def plan(config: SftConfig, row: int, size: int, ranks: int = 1, shape: fit.Shape = QWEN3_4B) -> fit.Plan:
    named = config.model_copy(update={"model": model_of(shape)})
    return plan_sft(named, fit.Devices("a card", ranks, size + fit.OVERHEAD), row)


@cache
def model_of(shape: fit.Shape) -> Path:
    """A directory that says of its model what shape it has."""
    told = {
        "hidden_size": shape.hidden, "num_hidden_layers": shape.layers, "num_attention_heads": shape.heads,
        "num_key_value_heads": shape.kv_heads, "head_dim": shape.head_dim, "intermediate_size": shape.intermediate,
        "vocab_size": shape.vocab, "tie_word_embeddings": shape.tied,
    }  # fmt: skip
    directory = Path(mkdtemp())
    (directory / "config.json").write_text(json.dumps(told))
    return directory


def refused(config: SftConfig, row: int, size: int, ranks: int, shape: fit.Shape, changes: Mapping[str, str]) -> str:
    """What a plan of these settings says where it does not fit, or could not be begun."""
    try:
        changed = fit.with_changes(config, {name: int(value) if value.isdigit() else value for name, value in changes.items()})
        return plan(changed, row, size, ranks, shape).sentence
    except (UserError, ValueError) as error:
        return str(error)


def test_a_plan_that_does_not_fit_names_the_settings_that_make_it():
    config = settings(logit_chunk=400_000_000)
    assert "trainer.memory.recompute" in plan(config, 32_768, H200).sentence
    assert "trainer.memory.offload=true" in plan(config, 262_144, H200).sentence
    small = advised(plan(config, 262_144, 24 * GIB).sentence)
    assert [devices for devices, _ in small] == [None, 8]
    assert {"lora.rank", "data.max_tokens"} <= small[0][1].keys(), "neither alone"
    hopeless = plan(settings(rank=16), 262_144, GIB // 4).sentence
    assert not advised(hopeless) and hopeless.endswith("take larger devices, or a smaller model.")


@given(
    st.sampled_from([QWEN3_4B, QWEN3_14B]),
    st.integers(1_000, 600_000),
    st.integers(1_000, 600_000),
    st.integers(1, 16),
    st.sampled_from(["replicate", "fsdp"]),
    st.sampled_from([0, 16]),
    st.sampled_from([MemoryConfig(), MemoryConfig(recompute="full", offload=True), MemoryConfig(recompute="full")]),
    st.integers(10, 139),
)
def test_what_is_advised_fits_and_none_of_it_can_be_left_out(
    shape: fit.Shape, row: int, most: int, ranks: int, kind: str, rank: int, memory: MemoryConfig, gib: int
):
    config = settings(kind, rank, micro_batch_tokens=most, memory=memory)
    sentence = plan(config, row, gib * GIB, ranks, shape).sentence
    ways = advised(sentence)
    assert bool(ways) is (bool(sentence) and "no setting makes it fit" not in sentence)
    for devices, changes in ways:
        assert not refused(config, row, gib * GIB, devices or ranks, shape, changes), sentence
        for name in changes:
            fewer = {key: value for key, value in changes.items() if key != name}
            assert refused(config, row, gib * GIB, devices or ranks, shape, fewer), name


# -- The SFT recipes of the three systems fit their papers' hardware -------------------------------------------------------

CONFIG_4B = {
    "hidden_size": 2560, "num_hidden_layers": 36, "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 128,
    "intermediate_size": 9728, "vocab_size": 151_936, "tie_word_embeddings": True,
}  # fmt: skip


@pytest.mark.parametrize(
    ("name", "device", "room", "count"),
    [
        ("dr-venus-4b", "A100", 79, 8), ("dr-venus-4b", "H200", 139, 1), ("literesearcher-4b", "H100", 79, 8),
        ("literesearcher-4b", "H200", 139, 1), ("agentcpm-explore-4b", "H100", 79, 8), ("agentcpm-explore-4b", "H200", 139, 1),
    ],
)  # fmt: skip
def test_a_recipe_fits_the_papers_hardware_and_one_h200(tmp_path: Path, name: str, device: str, room: float, count: int):
    (tmp_path / "config.json").write_text(json.dumps(CONFIG_4B))
    config = find_settings("sft", SftConfig, name).model_copy(update={"model": tmp_path})
    found = plan_sft(config, fit.described(device, room, count))
    assert found.fits, found.sentence
    assert found.estimate.total < room * 2**30


# -- Plans from the command line, for devices that are here and that are not -----------------------------------------------


@pytest.fixture
def model(tmp_path: Path) -> Path:
    (tmp_path / "config.json").write_text(json.dumps(CONFIG_4B))
    return tmp_path


def test_a_batch_of_tokens_is_closed_by_the_row_that_reaches_them(model: Path):
    settings = SupervisedConfig(batch_tokens=32_768, shuffle=False)
    largest = batches(np.array([32_767, 32_768, 5]), settings, 0)[0]
    config = SftConfig.model_validate(settings.model_dump() | {"model": model})
    assert plan_sft(config, fit.described("H200", 139, 1), 32_768).step_tokens == 32_767 + 32_768
    assert largest == [0, 1], "as large as that"


def test_devices_that_a_run_would_refuse_are_not_planned_for(model: Path):
    run = ["plan", "--model", str(model), "--device", "4090", "--memory", "23.6"]
    refused = CliRunner().invoke(app, [*run, "--count", "8"])
    assert isinstance(refused.exception, UserError) and "parallel.kind is none" in str(refused.exception)
    assert CliRunner().invoke(app, [*run, "--count", "8", "--set", "parallel.kind=fsdp"]).exit_code == 0


def test_a_gib_of_each_gpu_is_left_to_cuda(model: Path):
    config = find_settings("sft", SftConfig, "lora-24gb").model_copy(update={"model": model})
    total = plan_sft(config, fit.described("4090", 24, 1)).estimate.total
    for spare, fits in ((0, True), (-1, False)):
        assert plan_sft(config, fit.Devices("4090", 1, total + fit.OVERHEAD + spare)).fits is fits
    assert fit.Devices("processor", 1, 100, gpus=False).room == 100


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
