"""Plans of RL, recalculated by hand for a model small enough to do so."""

from dataclasses import replace

import pytest

from sanderling.rl.fit import (
    DECODE_SHARE,
    PROBE_TOKENS,
    Episodes,
    RlLoad,
    Sharing,
    Speeds,
    capacity,
    rl_estimate,
    scoring_bytes,
    slots,
)
from sanderling.train.config import MemoryConfig, Precision, Recompute, TrainerConfig
from sanderling.train.fit import MFU, Load, estimate
from sanderling.train.shape import Shape

SHAPE = Shape(hidden=8, layers=2, heads=4, kv_heads=2, head_dim=4, intermediate=16, vocab=100, tied=True)
PARAMETERS = 2 * (8 * 4 * (8 + 4) + 3 * 8 * 16) + 100 * 8 + 2 * (16 + 8) + 8
"""Two layers' attention and MLP, the embedding, norms: 2,392."""
KV = 2 * 2 * 2 * 4 * 2
"""Bytes of a token in 16 bits: keys and values, 2 layers, 2 heads of 4: 64."""
TRAINER = TrainerConfig(
    precision=Precision.BFLOAT16, micro_batch_tokens=1, memory=MemoryConfig(recompute=Recompute.FULL), logit_chunk=1000
)
EPISODES = Episodes(longest=1000, mean=400, sampled=100, turns=5)


def load(sharing: Sharing, samplers: int = 2, ranks: int = 2, **more: object) -> RlLoad:
    known = RlLoad(Load(1000, ranks, sharded=True), EPISODES, 16, 32, sharing, samplers)
    return replace(known, **more)  # pyright: ignore[reportArgumentType]


def test_the_model_of_these_tests_has_the_size_that_they_reckon_with():
    assert SHAPE.parameters == PARAMETERS == 2392
    assert SHAPE.kv_bytes(1) == KV == 64


def test_a_server_on_devices_of_its_own_has_all_their_room_but_its_weights():
    room = 2 * PARAMETERS + 2 * 64_000 + 25_599
    found = rl_estimate(SHAPE, TRAINER, load(Sharing.APART), room, None)
    assert found.sampler == {"weights to sample with": 2 * PARAMETERS}
    assert (found.sessions.longest, found.sessions.mean, found.sessions.replicas) == (2 * 2, 2 * 5, 2)
    assert found.training == estimate(SHAPE, TRAINER, Load(1000, 2, sharded=True)).total, "nothing comes to training"


def test_a_server_that_takes_turns_leaves_the_trainers_state_where_it_is():
    found = rl_estimate(SHAPE, TRAINER, load(Sharing.ASLEEP, reference=True), 100_000, None)
    state = (4 + 4 + 8 + 4) * PARAMETERS // 2
    assert sum(found.sampler.values()) == state + 2 * PARAMETERS
    left = 100_000 - state - 2 * PARAMETERS
    assert found.sessions.longest == 2 * (left // 64_000) and found.sessions.mean == 2 * (left // 25_600)
    assert found.trainer["reference"] == 4 * PARAMETERS // 2


def test_a_server_at_the_same_time_is_in_the_trainers_way_and_the_trainer_in_its():
    alone = load(Sharing.TOGETHER, samplers=1, ranks=1)
    base = estimate(SHAPE, TRAINER, alone.trainer).total
    found = rl_estimate(SHAPE, TRAINER, alone, base + 2 * PARAMETERS + 64_000, None)
    assert found.training == base + 2 * PARAMETERS
    assert found.sampler == {"the trainer, while it trains": base, "weights to sample with": 2 * PARAMETERS}
    assert found.sessions.longest == 1
    assert rl_estimate(SHAPE, TRAINER, alone, base + 2 * PARAMETERS + 63_999, None).sessions.longest == 0


@pytest.mark.parametrize(("sharing", "copy"), [(Sharing.MODULE, 0), (Sharing.COPY, 4 * PARAMETERS)])
def test_the_cache_in_this_process_doubles_and_stays_while_it_trains(sharing: Sharing, copy: int):
    alone = load(sharing, samplers=1, ranks=1, under_way=9)
    base = estimate(SHAPE, TRAINER, alone.trainer).total
    found = rl_estimate(SHAPE, TRAINER, alone, base + copy + 16 * 1024 * KV, None)
    assert found.trainer["keys and values of rollouts"] == 16 * 1024 * KV, "9 sessions take 16 places, 1,000 tokens 1,024"
    assert found.training == base + copy + 16 * 1024 * KV
    assert found.sessions.longest == 16
    less = rl_estimate(SHAPE, TRAINER, alone, base + copy + 16 * 1024 * KV - 1, None)
    assert less.sessions.longest == 8
    assert rl_estimate(SHAPE, TRAINER, alone, base + copy + 8 * 1024 * KV - 1, None).sessions.longest == 0, "8 at least"


def test_the_plans_doubling_is_the_caches():
    from sanderling.policy.kv_cache import SlotLayer

    assert (slots(1), capacity(1)) == SlotLayer().shape
    assert (slots(9), capacity(257)) == (16, 512)


def test_as_many_devices_hold_a_copy_as_one_long_rollout_needs():
    """Each device has room for 40,000 bytes: the model's 4,784 and 64,000 of a rollout need two."""
    found = rl_estimate(SHAPE, TRAINER, load(Sharing.APART, samplers=4), 40_000, None)
    assert found.sessions.replicas == 2
    assert found.sessions.longest == 2 * ((80_000 - 2 * PARAMETERS) // 64_000) == 2


def test_scoring_needs_a_pass_over_a_whole_rollout_and_its_boundaries():
    """A token: hidden states before and behind and a norm in 32 bits, 4 + 4 heads of queries and output, 2 + 2 of keys and
    values, of 4 numbers each in 16 bits."""
    tokens = 1000 + 5 * PROBE_TOKENS
    per_token = 3 * 8 * 4 + (2 * 16 + 2 * 8) * 2
    mlp = 3 * 16 * 2 * tokens
    assert scoring_bytes(SHAPE, TRAINER, EPISODES, 2) == per_token * tokens + mlp
    tiled = TRAINER.model_copy(update={"memory": MemoryConfig(recompute=Recompute.FULL, mlp_tile=10)})
    assert scoring_bytes(SHAPE, tiled, EPISODES, 2) == per_token * tokens + 2 * 4 * 1000, "then logits are more"


def test_rows_that_ranks_share_when_they_train_are_whole_when_they_are_scored():
    shared = load(Sharing.APART, ranks=2, gains=True)
    shared = replace(shared, trainer=replace(shared.trainer, context=2))
    found = rl_estimate(SHAPE, TRAINER, shared, 10**6, None)
    base = estimate(SHAPE, TRAINER, shared.trainer).parts
    kept = base["kept for the backward pass"] + base["alive at once, in a layer or at the head"]
    assert found.trainer["more while gains are scored"] == scoring_bytes(SHAPE, TRAINER, EPISODES, 2) - kept > 0


def test_a_steps_time_by_hand():
    """2 devices train, 2 sample; 16 rollouts of 400 tokens, 100 of them sampled."""
    speeds = Speeds(flops=1e6, bandwidth=1e6)
    found = rl_estimate(SHAPE, TRAINER, load(Sharing.APART, gains=True, passes=1), 10**6, speeds)
    layers = 2 * (8 * 4 * 12 + 3 * 8 * 16)
    attention, head = 2 * 6 * 4 * 4 * 400, 100 * 8
    training = 16 * 400 * (6 * layers + attention) + 6 * head * 1600
    reading = 16 * 300 * (6 * layers + attention) / 3
    probes = 16 * 5 * PROBE_TOKENS
    scoring = ((16 * 400 + probes) * (6 * layers + attention) + 6 * head * probes) / 3
    assert found.seconds is not None and found.decode is not None
    assert found.seconds["training"] == pytest.approx(training / (2e6 * MFU))
    assert found.seconds["log-probabilities"] == pytest.approx(training / 3 / (2e6 * MFU))
    assert found.seconds["reading what tools return"] == pytest.approx(reading / (2e6 * MFU))
    assert found.seconds["scoring gains"] == pytest.approx(scoring / (2e6 * MFU))
    # 32 under way in 2 copies: a step of each reads its weights and 16 sessions of 200 tokens, and multiplies 16 times.
    reads = (2 * PARAMETERS + 16 * 200 * KV) / (1e6 * DECODE_SHARE)
    multiplies = 2 * PARAMETERS * 16 / (1e6 * MFU)
    assert found.decode == pytest.approx(2 * 16 / max(reads, multiplies))
    assert found.seconds["sampling"] == pytest.approx(1600 / found.decode)
    assert found.step_seconds == pytest.approx(sum(found.seconds.values())), "one after the other"


def test_what_overlaps_takes_as_long_as_the_longer():
    speeds = Speeds(1e6, 1e6, decode=100.0)
    both = [rl_estimate(SHAPE, TRAINER, load(Sharing.APART, overlaps=on), 10**6, speeds) for on in (False, True)]
    seconds = both[1].seconds
    assert seconds is not None and seconds["sampling"] == 16.0, "1,600 tokens at the rate that was measured"
    sampling = seconds["sampling"] + seconds["reading what tools return"]
    assert both[1].step_seconds == max(sampling, seconds["training"])
    assert both[0].step_seconds == pytest.approx(sampling + seconds["training"])
    turns = rl_estimate(SHAPE, TRAINER, load(Sharing.ASLEEP, overlaps=True), 10**6, speeds)
    assert turns.seconds is not None and turns.step_seconds == sum(turns.seconds.values()), "devices in turns never overlap"


def test_of_devices_whose_speed_is_not_known_no_time_is_told():
    found = rl_estimate(SHAPE, TRAINER, load(Sharing.APART), 10**6, None)
    assert found.seconds is None and found.step_seconds is None and found.decode is None
