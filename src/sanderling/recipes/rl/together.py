"""Several processes that train and sample through one server: it sleeps and takes weights only when all of them are ready.

Rank 0 speaks to the server. The others keep their turns back until it says, over the team, that the server is asleep, awake
again, or has the new weights. Where the server cannot keep turns while it takes weights, it gets them when no rank has one
under way. See `policy.contract.WeightSync`. Knows no model.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, Protocol

from sanderling.policy.contract import Gate, WeightSync


class Meeting(Protocol):
    """The part of a team that is needed here."""

    @property
    def rank(self) -> int: ...

    def gather(self, value: Any) -> list[Any]:
        """Collective: what every rank hands over."""
        ...


class Server(WeightSync, Protocol):
    """A server that many processes use."""

    async def keeps_turns(self) -> bool:
        """Whether turns under way may stay while weights change."""
        ...


class Together:
    """One server of many processes."""

    def __init__(self, server: Server, gate: Gate, team: Meeting, *, sleeps: bool) -> None:
        """``gate``: the one that this process' turns pass on their way to the server."""
        self._server, self._gate, self._team, self._sleeps = server, gate, team, sleeps
        self._leads = team.rank == 0

    @property
    def version(self) -> int:
        return self._server.version

    @asynccontextmanager
    async def training(self) -> AsyncIterator[None]:
        """Nothing, or where the server sleeps: it is put to sleep once no rank has a turn under way."""
        if not self._sleeps:
            yield
            return
        async with self._gate.closed(empty=True):
            await self._all()
            if not self._leads:
                await self._all()
                yield
                await self._all()
            else:
                async with self._server.training():
                    await self._all()
                    yield
                    await self._all()
            await self._all()  # it is awake

    async def publish(self, weights: Mapping[str, Any] | None, version: int) -> None:
        """Every rank hears the version when the server has it; turns sent before carry the one before."""
        async with AsyncExitStack() as quiet:
            if not await self._kept():
                await quiet.enter_async_context(self._gate.closed(empty=True))
                await self._all()
            if self._leads:
                await self._server.publish(weights, version)
            await self._all()
            if not self._leads:
                await self._server.publish(None, version)

    async def _kept(self) -> bool:
        """Whether the server keeps turns while it takes weights, as rank 0 was told."""
        return (await self._all(await self._server.keeps_turns() if self._leads else None))[0]

    async def _all(self, said: Any = None) -> list[Any]:
        """Until every rank is here, with what each has to say; tools go on meanwhile."""
        return await asyncio.to_thread(self._team.gather, said)
