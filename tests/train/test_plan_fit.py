"""What a plan says to set makes the step fit, and is no more than it takes."""

from hypothesis import given
from hypothesis import strategies as st

from sanderling.train.config import Aggregation, MemoryConfig, Packing, Precision, SftConfig, TrainerConfig
from sanderling.train.fit import OVERHEAD, Devices, Plan, judge, with_changes
from sanderling.train.shape import Shape

QWEN3_4B = Shape(hidden=2560, layers=36, heads=32, kv_heads=8, head_dim=128, intermediate=9728, vocab=151_936, tied=True)
QWEN3_14B = Shape(hidden=5120, layers=40, heads=40, kv_heads=8, head_dim=128, intermediate=17_408, vocab=151_936, tied=False)
GIB = 2**30
H200, CARD = 139 * GIB, 24 * GIB - GIB // 2
THRIFTY = MemoryConfig(recompute="full", offload=True, mlp_tile=8192)


def settings(kind: str = "none", rank: int = 0, **trainer: object) -> SftConfig:
    values = {"precision": Precision.BFLOAT16, **trainer}
    return SftConfig.model_validate(
        {"trainer": TrainerConfig.model_validate(values), "parallel": {"kind": kind}, "lora": {"rank": rank}}
    )


def plan(config: SftConfig, row: int, size: int, ranks: int = 1, shape: Shape = QWEN3_4B) -> Plan:
    return judge(config, shape, Devices("a card", ranks, size + OVERHEAD), row)


def test_a_plan_that_does_not_fit_names_the_knob_that_makes_it():
    config = settings(logit_chunk=400_000_000)
    found = plan(config, 32_768, H200)
    assert not found.fits and found.changed and "trainer.memory.recompute" in found.sentence
    assert plan(with_changes(config, found.changed), 32_768, H200).fits
    assert plan(config, 262_144, H200).changed["trainer.memory.offload"] is True
    hopeless = plan(config, 262_144, 24 * GIB)
    assert not hopeless.changed and "LoRA" in hopeless.sentence
    assert plan(settings(rank=16, logit_chunk=400_000_000), 32_768, 24 * GIB).changed


def test_a_row_that_no_thrift_fits_is_shared_by_as_many_devices_as_it_takes():
    config = settings("fsdp", micro_batch_tokens=1 << 20, memory=THRIFTY)
    found = plan(config, 1 << 20, 79 * GIB, 8)
    ranks = found.changed["parallel.context"]
    assert not found.fits and f"parallel.context = {ranks}" in found.sentence

    def shared(by: int) -> bool:
        return plan(with_changes(config, {"parallel.context": by}), 1 << 20, 79 * GIB, 8).fits

    assert shared(ranks) and not any(shared(by) for by in (1, 2, 4, 8) if by < ranks)
    padded = with_changes(config, {"trainer.packing": Packing.PADDED})
    assert plan(padded, 1 << 20, 79 * GIB, 8).changed == {}, "padded rows cannot be shared"


def test_a_lora_on_replicas_is_told_to_be_sharded():
    config = settings("replicate", 16, memory=THRIFTY.model_copy(update={"mlp_tile": 4096}))
    found = plan(config, 32_768, CARD, 8, QWEN3_14B)
    assert found.changed == {"parallel.kind": "fsdp"} and 'parallel.kind = "fsdp"' in found.sentence
    alone = plan(config, 32_768, CARD, 1, QWEN3_14B)
    assert not alone.changed and "more devices" in alone.sentence


def test_passes_larger_than_the_longest_row_are_made_smaller_before_anything_else_is_given_up():
    config = settings(micro_batch_tokens=262_144, memory=MemoryConfig(recompute="full"))
    found = plan(config, 4_096, 79 * GIB)
    assert found.changed == {"trainer.micro_batch_tokens": 4_096}, "and nothing that is not needed beside it"
    assert found.sentence.endswith("and rows that begin alike share less or nothing."), "what it costs is told"
    other = with_changes(config, {"trainer.aggregation": Aggregation.MICRO_BATCH_MEAN})
    assert plan(other, 4_096, 79 * GIB).changed == {}, "there it would be another loss"


@given(
    st.sampled_from([QWEN3_4B, QWEN3_14B]),
    st.integers(1_000, 600_000),
    st.integers(1_000, 600_000),
    st.integers(1, 16),
    st.sampled_from(["replicate", "fsdp"]),
    st.sampled_from([0, 16]),
    st.sampled_from([MemoryConfig(), MemoryConfig(recompute="selective", offload=True), MemoryConfig(recompute="full")]),
    st.integers(10, 139),
)
def test_what_is_told_fits_and_none_of_it_can_be_left_out(
    shape: Shape, row: int, most: int, ranks: int, kind: str, rank: int, memory: MemoryConfig, gib: int
):
    config = settings(kind, rank, micro_batch_tokens=most, memory=memory)
    changed = plan(config, row, gib * GIB, ranks, shape).changed
    if not changed:
        return
    assert plan(with_changes(config, changed), row, gib * GIB, ranks, shape).fits
    for name in changed:
        fewer = {key: value for key, value in changed.items() if key != name}
        if "trainer.memory.offload" in fewer and name == "trainer.memory.recompute":
            continue  # one needs the other
        assert not plan(with_changes(config, fewer), row, gib * GIB, ranks, shape).fits, name
