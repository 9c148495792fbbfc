"""Sessions that have gone the same way are computed as one, and nobody can tell: against sessions that run alone.

And the slot cache where memory runs out amid its growth.
"""

import asyncio
import random

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from policy_tiny import ids, key, load, said, widths_of

from sanderling.core.types import Sampling
from sanderling.policy import forward
from sanderling.policy.transformers_policy import TransformersPolicy

WARM = Sampling(temperature=0.05, max_tokens=9)
GREEDY = Sampling(temperature=0.0, max_tokens=6)


@pytest.fixture(scope="module", autouse=True)
def row_by_row():
    """Sessions as short as these are else read side by side, as in the tests beside."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(forward, "_ROW_COST", 0)
        patch.setattr(torch, "get_num_threads", lambda: 1)
        yield


@pytest.fixture(scope="module")
def loaded():
    return load()


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


async def together(policy, sessions, delta, *, turn: int, sampling: Sampling = GREEDY):
    """The same said to all of them."""
    keys = (key(turn, attempt=number) for number in range(len(sessions)))
    return await asyncio.gather(*(s.generate(ids(*delta), sampling, k) for s, k in zip(sessions, keys, strict=True)))


async def test_twins_live_through_a_change_of_weights_amid_a_turn():
    """Three twins and one who comes after the change, with the same prompt: each as it is without the others."""

    async def run(attempts: list[int]):
        model, tokenizer = load()
        policy, widths = TransformersPolicy(model, tokenizer), widths_of(model)

        async def change() -> None:
            while len(widths) < 3:  # noqa: ASYNC110 - no event tells of a step
                await asyncio.sleep(0)
            async with policy.paused():
                with torch.no_grad():
                    model.model.embed_tokens.weight.mul_(-1.5)
                policy.bump_version()

        sessions = [policy.open(key(attempt=number)) for number in attempts]
        long = Sampling(temperature=0.02, max_tokens=9)
        made = [s.generate(ids(*observation(5)), long, key(attempt=n)) for n, s in zip(attempts, sessions, strict=True)]
        *found, _ = await asyncio.gather(*made, change())
        late = await policy.open(key(attempt=7)).generate(ids(*observation(5)), long, key(attempt=7))
        return [*found, late]

    found = await run([0, 1, 2])
    alone = [await run([number]) for number in range(3)]
    assert all(set(one.versions) == {0, 1} for one in found[:3]) and set(found[3].versions) == {1}
    for one, expected in zip(found, [*(own[0] for own in alone), alone[0][1]], strict=True):
        assert (one.token_ids, one.versions, one.prefilled_tokens > 0) == (expected.token_ids, expected.versions, True)
        assert one.logprobs == pytest.approx(expected.logprobs, abs=1e-4)


async def test_a_group_is_computed_once_and_each_turn_is_billed_what_it_needs(loaded):
    policy, widths = TransformersPolicy(*loaded), widths_of(loaded[0])
    sessions = [policy.open(key(attempt=attempt)) for attempt in range(4)]
    first = await together(policy, sessions, observation(5), turn=0)
    prompt = len(observation(5))
    assert [one.prefilled_tokens for one in first] == [prompt, 1, 1, 1]
    second = await together(policy, sessions, (9, 8), turn=1)
    assert [one.prefilled_tokens for one in second] == [3, 3, 3, 3], "as if each were alone"
    assert [width for width in widths if width > 1] == [prompt, 3]


@settings(max_examples=15, deadline=None, derandomize=True)  # a draw within rounding of a bound would be told apart
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
