"""Sessions that have gone the same way are computed as one, and nobody can tell: against sessions that run alone."""

import asyncio
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from policy_tiny import full_logits, ids, key, load, said

from sanderling.policy.forward import Branch, SlotForward
from sanderling.policy.transformers_policy import TransformersPolicy
from sanderling.policy.twins import Lane, alike, joined
from sanderling.protocol.sampling import Sampling

WARM = Sampling(temperature=0.05, max_tokens=9)


@pytest.fixture(scope="module")
def loaded():
    return load()


@pytest.fixture
def rows(monkeypatch):
    """How many rows each decode step computed, and how many were asked for."""
    seen: list[tuple[int, int]] = []
    apart, beside = SlotForward._decode_apart, SlotForward._decode_side_by_side

    def count_apart(self, twins):
        seen.append((len(twins), sum(len(group) for group in twins)))
        return apart(self, twins)

    def count_beside(self, branches):
        seen.append((len(branches), len(branches)))
        return beside(self, branches)

    monkeypatch.setattr(SlotForward, "_decode_apart", count_apart)
    monkeypatch.setattr(SlotForward, "_decode_side_by_side", count_beside)
    return seen


def observation(seed: int) -> tuple[int, ...]:
    random_ = random.Random(seed)
    return tuple(random_.randrange(3, 290) for _ in range(4 + seed % 9))


async def conversation(policy, attempt: int, *, question: int, sampling: Sampling = WARM, turns: int = 3, late: int = 0):
    """A tool that answers the same to the same; returns the whole branch and each turn's log-probabilities."""
    session = policy.open(key(attempt=attempt))
    branch: list[int] = []
    logprobs: list[float] = []
    delta = observation(question)
    for turn in range(turns):
        for _ in range(late if turn else 0):
            await asyncio.sleep(0)
        completion = await session.generate(ids(*delta), sampling, key(turn, attempt=attempt))
        branch += [*delta, *said(completion)]
        logprobs += completion.logprobs
        delta = observation(sum(said(completion)) % 97)
    session.close()
    return branch, logprobs


async def test_a_group_gives_what_its_rollouts_give_alone(loaded, rows):
    alone = [await conversation(TransformersPolicy(*loaded), attempt, question=3) for attempt in range(8)]
    rows.clear()
    policy = TransformersPolicy(*loaded)
    together = await asyncio.gather(*(conversation(policy, attempt, question=3) for attempt in range(8)))
    assert [branch for branch, _ in together] == [branch for branch, _ in alone]
    for (_, found), (_, expected) in zip(together, alone, strict=True):
        assert found == pytest.approx(expected, abs=1e-4)
    assert sum(computed for computed, _ in rows) < 0.7 * sum(asked for _, asked in rows)
    assert len({tuple(branch) for branch, _ in together}) > 1, "some of them part, or this says nothing"


async def test_those_that_part_go_on_from_their_own_keys(loaded):
    """After the last turn each session's cache is looked into: greedy from there equals a plain forward."""
    policy = TransformersPolicy(*loaded)
    sessions = [policy.open(key(attempt=attempt)) for attempt in range(6)]
    hot = Sampling(temperature=1.5, max_tokens=5)
    first = await asyncio.gather(*(s.generate(ids(*observation(8)), hot, key(0, attempt=n)) for n, s in enumerate(sessions)))
    assert len({completion.token_ids for completion in first}) > 2
    greedy = Sampling(temperature=0.0, max_tokens=4)
    second = await asyncio.gather(*(s.generate(ids(7, 8), greedy, key(1, attempt=n)) for n, s in enumerate(sessions)))
    for one, two in zip(first, second, strict=True):
        branch = [*observation(8), *said(one), 7, 8]
        logits = full_logits(loaded[0], [*branch, *said(two)])
        assert said(two) == logits[len(branch) - 1 : -1].argmax(-1).tolist()


async def test_a_twin_that_closes_leaves_the_others_right(loaded):
    greedy = Sampling(temperature=0.0, max_tokens=6)
    policy = TransformersPolicy(*loaded)
    sessions = [policy.open(key(attempt=attempt)) for attempt in range(3)]
    first = await asyncio.gather(*(s.generate(ids(*observation(5)), greedy, key(0, attempt=n)) for n, s in enumerate(sessions)))
    sessions[0].close()  # the one that was computed for all
    stranger = policy.open(key(attempt=9))
    await stranger.generate(ids(*observation(6)), greedy, key(0, attempt=9))  # takes its slot
    second = await asyncio.gather(*(s.generate(ids(3, 4), greedy, key(1, attempt=n)) for n, s in enumerate(sessions) if n))
    branch = [*observation(5), *said(first[0]), 3, 4]
    logits = full_logits(loaded[0], [*branch, *said(second[0])])
    for completion in second:
        assert said(completion) == logits[len(branch) - 1 : -1].argmax(-1).tolist()


async def test_a_twin_that_rewinds_is_none_any_more(loaded):
    greedy = Sampling(temperature=0.0, max_tokens=6)
    policy = TransformersPolicy(*loaded)
    one, other = policy.open(key(attempt=0)), policy.open(key(attempt=1))
    await asyncio.gather(*(s.generate(ids(*observation(5)), greedy, key(0, attempt=n)) for n, s in enumerate((one, other))))
    one.rewind(3)
    again = await asyncio.gather(one.generate(ids(3, 4), greedy, key(1)), other.generate(ids(3, 4), greedy, key(1, attempt=1)))
    branch = [*observation(5)[:3], 3, 4]
    logits = full_logits(loaded[0], [*branch, *said(again[0])])
    assert said(again[0]) == logits[len(branch) - 1 : -1].argmax(-1).tolist()
    assert again[0].prefilled_tokens >= 2 and again[1].prefilled_tokens == 3


async def test_latecomers_and_long_prompts_are_right(loaded):
    policy, alone = TransformersPolicy(*loaded, prefill_tokens=6), TransformersPolicy(*loaded)
    told = [(attempt, attempt % 3) for attempt in range(6)]
    together = await asyncio.gather(*(conversation(policy, n, question=3, late=40 * late) for n, late in told))
    expected = [await conversation(alone, attempt, question=3) for attempt, _ in told]
    assert [branch for branch, _ in together] == [branch for branch, _ in expected]


async def test_weights_that_change_amid_a_turn_part_nobody_wrongly(loaded):
    """Twins through an update under ``reprefill_stale``: computed again as one, each token as plain forwards give it."""
    greedy = Sampling(temperature=0.0, max_tokens=6)
    policy = TransformersPolicy(*loaded, reprefill_stale=True)
    sessions = [policy.open(key(attempt=attempt)) for attempt in range(3)]
    await asyncio.gather(*(s.generate(ids(*observation(5)), greedy, key(0, attempt=n)) for n, s in enumerate(sessions)))
    policy.bump_version()
    second = await asyncio.gather(*(s.generate(ids(3), greedy, key(1, attempt=n)) for n, s in enumerate(sessions)))
    assert len({completion.token_ids for completion in second}) == 1
    assert [completion.prefilled_tokens for completion in second] == [second[0].prompt_tokens, 0, 0]


def branch(*tokens: int, cached: int, lane: Lane | None = None) -> Branch:
    return Branch(list(tokens), cached, lane=lane)


def test_alike_are_those_of_a_lane_with_the_same_still_to_come():
    lane, other = Lane(), Lane()
    told = [
        branch(1, 2, 3, cached=2, lane=lane),
        branch(1, 2, 3, cached=2),  # says the same, and came another way
        branch(1, 2, 3, cached=2, lane=lane),
        branch(1, 2, 4, cached=2, lane=lane),
        branch(1, 2, 3, cached=2, lane=other),
        branch(1, 2, 3, cached=0),
        branch(1, 2, 3, cached=0, lane=lane),
        branch(1, 2, 3, cached=1, lane=lane),
    ]
    assert alike(told) == [[0, 2], [1], [3], [4], [5, 6], [7]]


def test_what_loses_its_keys_loses_its_lane():
    pair = [branch(1, 2, 3, cached=3), branch(1, 2, 3, cached=3)]
    joined(pair)
    assert pair[0].lane is pair[1].lane is not None
    pair[0].truncate(3)
    assert pair[0].lane is pair[1].lane
    pair[0].truncate(2)
    pair[1].forget_cache()
    assert pair[0].lane is None and pair[1].lane is None
    joined(pair[:1])
    assert pair[0].lane is None


@settings(max_examples=15, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 2), st.integers(0, 30)), min_size=2, max_size=7),
    st.sampled_from([0.0, 0.3, 1.0]),
    st.integers(1, 8),
    st.sampled_from([5, 1024]),
)
def test_any_mixture_of_sessions_gives_what_they_give_alone(told, heat, max_batch, prefill_tokens):
    loaded = load()
    sampling = Sampling(temperature=heat, max_tokens=6)

    async def run():
        policy = TransformersPolicy(*loaded, max_batch=max_batch, prefill_tokens=prefill_tokens)
        alone = [
            await conversation(TransformersPolicy(*loaded), n, question=q, sampling=sampling) for n, (q, _) in enumerate(told)
        ]
        together = await asyncio.gather(
            *(conversation(policy, n, question=q, sampling=sampling, late=late) for n, (q, late) in enumerate(told))
        )
        assert [branch for branch, _ in together] == [branch for branch, _ in alone]

    asyncio.run(run())
