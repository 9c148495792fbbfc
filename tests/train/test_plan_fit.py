"""What a plan says to set makes the step fit, and is no more than it takes."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sanderling.train.config import Aggregation, MemoryConfig, Packing, Precision, TrainerConfig
from sanderling.train.fit import Load, Shape, judge

QWEN3_4B = Shape(hidden=2560, layers=36, heads=32, kv_heads=8, head_dim=128, intermediate=9728, vocab=151_936, tied=True)
QWEN3_14B = Shape(hidden=5120, layers=40, heads=40, kv_heads=8, head_dim=128, intermediate=17_408, vocab=151_936, tied=False)
GIB = 2**30
H200, CARD = 139 * GIB, 24 * GIB - GIB // 2


def under(trainer: TrainerConfig, load: Load, changed: dict[str, Any]) -> tuple[TrainerConfig, Load]:
    """The step as a person would set it."""
    memory = {key.rsplit(".", 1)[1]: value for key, value in changed.items() if key.startswith("trainer.memory.")}
    told = trainer.model_dump()
    told["micro_batch_tokens"] = changed.get("trainer.micro_batch_tokens", trainer.micro_batch_tokens)
    told["memory"] |= memory
    sharded = load.sharded or changed.get("parallel.kind") == "fsdp"
    return TrainerConfig.model_validate(told), replace(
        load, sharded=sharded, context=changed.get("parallel.context", load.context)
    )


def test_a_plan_that_does_not_fit_names_the_knob_that_makes_it():
    trainer = TrainerConfig(precision=Precision.BFLOAT16, logit_chunk=400_000_000)
    verdict = judge(QWEN3_4B, trainer, Load(32_768), H200)
    assert not verdict.fits and verdict.changed
    memory = MemoryConfig.model_validate({name.rsplit(".", 1)[1]: value for name, value in verdict.changed.items()})
    again = judge(QWEN3_4B, trainer.model_copy(update={"memory": memory}), Load(32_768), H200)
    assert again.fits and "trainer.memory.recompute" in verdict.sentence
    whole = judge(QWEN3_4B, trainer, Load(262_144), H200)
    assert whole.changed["trainer.memory.offload"] is True
    hopeless = judge(QWEN3_4B, trainer, Load(262_144), 24 * 2**30)
    assert not hopeless.changed and "LoRA" in hopeless.sentence
    lora = judge(QWEN3_4B, trainer, Load(32_768, lora_parameters=33_000_000), 24 * 2**30)
    assert lora.changed, lora.sentence


def test_a_row_that_no_thrift_fits_is_shared_by_as_many_devices_as_it_takes():
    thrifty = MemoryConfig(recompute="full", offload=True, mlp_tile=8192)
    trainer = TrainerConfig(precision=Precision.BFLOAT16, micro_batch_tokens=1 << 20, memory=thrifty)
    load = Load(1 << 20, ranks=8, sharded=True)
    verdict = judge(QWEN3_4B, trainer, load, 79 * 2**30)
    ranks = verdict.changed["parallel.context"]
    assert not verdict.fits and f"parallel.context = {ranks}" in verdict.sentence
    assert judge(QWEN3_4B, trainer, replace(load, context=ranks), 79 * 2**30).fits
    fewer = [n for n in (1, 2, 4, 8) if n < ranks]
    assert not any(judge(QWEN3_4B, trainer, replace(load, context=n), 79 * 2**30).fits for n in fewer)
    padded = trainer.model_copy(update={"packing": Packing.PADDED})
    assert judge(QWEN3_4B, padded, load, 79 * 2**30).changed == {}, "padded rows cannot be shared"


@pytest.mark.parametrize(("row", "ranks"), [(65_536, None), (131_072, 2), (262_144, 4)])
def test_rows_are_shared_on_top_of_thrift_where_neither_is_enough(row: int, ranks: int | None):
    trainer, load = TrainerConfig(precision=Precision.BFLOAT16), Load(row, 8, sharded=True)
    verdict = judge(QWEN3_4B, trainer, load, 24 * GIB)
    assert {"trainer.memory.recompute", "trainer.memory.offload"} <= verdict.changed.keys()
    assert verdict.changed.get("parallel.context") == ranks
    assert judge(QWEN3_4B, *under(trainer, load, verdict.changed), 24 * GIB).fits


def test_a_lora_on_replicas_is_told_to_be_sharded():
    thrifty = MemoryConfig(recompute="full", offload=True, mlp_tile=4096)
    trainer = TrainerConfig(precision=Precision.BFLOAT16, memory=thrifty)
    verdict = judge(QWEN3_14B, trainer, Load(32_768, 8, lora_parameters=60_000_000), CARD)
    assert verdict.changed == {"parallel.kind": "fsdp"} and 'parallel.kind = "fsdp"' in verdict.sentence
    alone = judge(QWEN3_14B, trainer, Load(32_768, lora_parameters=60_000_000), CARD)
    assert not alone.changed and "more devices" in alone.sentence


def test_passes_larger_than_the_longest_row_are_made_smaller_before_anything_else_is_given_up():
    thrifty = MemoryConfig(recompute="full")
    trainer = TrainerConfig(precision=Precision.BFLOAT16, micro_batch_tokens=262_144, memory=thrifty)
    verdict = judge(QWEN3_4B, trainer, Load(4_096), 79 * GIB)
    assert verdict.changed == {"trainer.micro_batch_tokens": 4_096}, "and nothing that is not needed beside it"
    assert verdict.sentence.endswith("and rows that begin alike share less or nothing."), "what it costs is told"
    other = trainer.model_copy(update={"aggregation": Aggregation.MICRO_BATCH_MEAN})
    assert judge(QWEN3_4B, other, Load(4_096), 79 * GIB).changed == {}, "there it would be another loss"


@given(
    st.sampled_from([QWEN3_4B, QWEN3_14B]),
    st.integers(1_000, 600_000),
    st.integers(1_000, 600_000),
    st.integers(1, 16),
    st.booleans(),
    st.sampled_from([None, 60_000_000]),
    st.sampled_from([MemoryConfig(), MemoryConfig(recompute="selective", offload=True), MemoryConfig(recompute="full")]),
    st.integers(10, 139),
)
def test_what_is_told_fits_and_none_of_it_can_be_left_out(
    shape: Shape, row: int, most: int, ranks: int, sharded: bool, lora: int | None, memory: MemoryConfig, gib: int
):
    trainer = TrainerConfig(precision=Precision.BFLOAT16, micro_batch_tokens=most, memory=memory)
    load = Load(row, ranks, sharded, lora_parameters=lora)
    verdict = judge(shape, trainer, load, gib * GIB)
    if not verdict.changed:
        return
    assert judge(shape, *under(trainer, load, verdict.changed), gib * GIB).fits
    for name in verdict.changed:
        fewer = {key: value for key, value in verdict.changed.items() if key != name}
        if "trainer.memory.offload" in fewer and name == "trainer.memory.recompute":
            continue  # one needs the other
        assert not judge(shape, *under(trainer, load, fewer), gib * GIB).fits, name
