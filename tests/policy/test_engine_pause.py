"""A paused engine computes nothing, however many ask, and goes on as if nothing had been."""

import asyncio

import pytest
from policy_tiny import GREEDY, ids, key, load, said

from sanderling.core.types import Sampling
from sanderling.policy.transformers_policy import TransformersPolicy

PROMPT = tuple(range(20, 45))
LONG = Sampling(temperature=0.0, max_tokens=40)


@pytest.fixture(scope="module")
def loaded():
    return load()


class Watched:
    """A model that says when it is run."""

    def __init__(self, model):
        self.steps = 0
        self.forbidden = False
        self.handle = model.register_forward_pre_hook(self.seen)

    def seen(self, module, arguments):
        self.steps += 1
        assert not self.forbidden

    async def until(self, steps):
        for _ in range(10_000):
            if self.steps >= steps:
                return
            await asyncio.sleep(0)
        raise AssertionError


@pytest.fixture
def watched(loaded):
    watch = Watched(loaded[0])
    yield watch
    watch.handle.remove()


async def yields(times=50):
    for _ in range(times):
        await asyncio.sleep(0)


async def test_no_step_runs_inside_and_turns_end_as_they_would_have(loaded, watched):
    policy = TransformersPolicy(*loaded)
    alone = await policy.open(key()).generate(ids(*PROMPT), LONG, key())
    policy = TransformersPolicy(*loaded)
    task = asyncio.create_task(policy.open(key()).generate(ids(*PROMPT), LONG, key()))
    await watched.until(watched.steps + 9)
    pausing = policy.paused()
    await pausing.__aenter__()
    watched.forbidden = True
    late = asyncio.create_task(policy.open(key(attempt=1)).generate(ids(*PROMPT[::-1]), GREEDY, key(attempt=1)))
    await yields()
    assert not task.done() and not late.done()
    watched.forbidden = False
    await pausing.__aexit__(None, None, None)
    done = await task
    assert done.token_ids == alone.token_ids and done.logprobs == pytest.approx(alone.logprobs, abs=1e-4)
    await late


async def test_cancelled_while_paused_and_paused_by_somebody_who_fails(loaded, watched):
    policy = TransformersPolicy(*loaded)
    session = policy.open(key())
    with pytest.raises(ZeroDivisionError):
        async with policy.paused():
            task = asyncio.create_task(session.generate(ids(*PROMPT), GREEDY, key()))
            await yields()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            raise ZeroDivisionError
    assert session.mark() == 0 and watched.steps == 0
    assert len(said(await session.generate(ids(*PROMPT), GREEDY, key()))) > 0
