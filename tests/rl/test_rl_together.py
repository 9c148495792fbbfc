"""Processes that share a server: it sleeps when nobody has a turn under way, and all hear a version when it is there."""

import asyncio
import threading
from contextlib import asynccontextmanager

from sanderling.policy.contract import Gate
from sanderling.rl.act import Together


class Meeting:
    """A team of threads."""

    def __init__(self, rank: int, barrier: threading.Barrier, said: dict[int, object]) -> None:
        self.rank, self._barrier, self._said = rank, barrier, said

    def gather(self, value):
        self._said[self.rank] = value
        self._barrier.wait(20)
        found = [self._said[0], self._said[1]]
        self._barrier.wait(20)
        return found


class Server:
    """Writes down what happens to it."""

    def __init__(self, told: list[str]) -> None:
        self.told, self.version = told, 0

    @asynccontextmanager
    async def training(self):
        self.told.append("sleeps")
        yield
        await asyncio.sleep(0.02)
        self.told.append("wakes")

    async def publish(self, weights, version):
        if weights is not None:
            self.told.append(f"takes {version}")
        self.version = version


def ranks(body, *, sleeps: bool) -> list[str]:
    """``body(rank, sync, door, told)`` on two ranks with an event loop each."""
    told, barrier, said = [], threading.Barrier(2), {}
    failures: list[BaseException] = []

    async def one(rank: int) -> None:
        door = Gate()
        await body(rank, Together(Server(told), door, Meeting(rank, barrier, said), sleeps=sleeps), door, told)

    def run(rank: int) -> None:
        try:
            asyncio.run(one(rank))
        except BaseException as error:
            failures.append(error)
            barrier.abort()

    threads = [threading.Thread(target=run, args=(rank,)) for rank in (0, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not failures, failures
    return told


def test_it_sleeps_once_the_last_turn_of_every_rank_is_over_and_until_all_have_trained():
    async def body(rank, sync, door, told):
        async def turn() -> None:
            async with door.passing():
                await asyncio.sleep(0.05 if rank else 0.0)
                told.append(f"turn of {rank}")

        under_way = asyncio.create_task(turn())
        await asyncio.sleep(0.01)
        async with sync.training():
            await asyncio.sleep(0.05 if rank else 0.0)
            told.append(f"trained {rank}")
        await under_way

    told = ranks(body, sleeps=True)
    assert set(told[:2]) == {"turn of 0", "turn of 1"}
    assert told[2] == "sleeps" and told[-1] == "wakes" and set(told[3:5]) == {"trained 0", "trained 1"}


def test_others_hear_of_a_version_when_the_server_has_it():
    async def body(rank, sync, door, told):
        async with sync.training():
            pass
        await sync.publish({"w": 1} if rank == 0 else None, 7)
        told.append(f"{rank} at {sync.version}")

    told = ranks(body, sleeps=False)
    assert told[0] == "takes 7" and set(told[1:]) == {"0 at 7", "1 at 7"}, "it never slept"
