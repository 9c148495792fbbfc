"""Work side by side: bounded, with its results in order; the first failure ends it."""

import asyncio

import pytest

from sanderling.runs.work import in_parallel


async def test_results_are_in_the_order_of_the_items_and_never_more_than_the_limit_run() -> None:
    running, most, ended, last = 0, 0, list[int](), asyncio.Event()

    async def slow(number: int) -> str:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await (last.wait() if number == 0 else asyncio.sleep(0.001))  # the first takes longest, so that it ends last
        running -= 1
        ended.append(number)
        if len(ended) == 5:
            last.set()
        return f"r{number}"

    assert await in_parallel(slow, range(6), 2) == [f"r{number}" for number in range(6)]
    assert most == 2 and ended[-1] == 0
    assert await in_parallel(slow, [], 2) == []


async def test_the_first_failure_stops_the_others_and_is_raised() -> None:
    begun: list[int] = []

    async def work(number: int) -> None:
        begun.append(number)
        await asyncio.sleep(0)
        if number == 1:
            raise ZeroDivisionError("bug")

    with pytest.raises(ZeroDivisionError, match="bug"):
        await in_parallel(work, range(6), 2)
    assert max(begun) < 4
