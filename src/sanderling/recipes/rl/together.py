"""Several processes that train and sample through one server: it sleeps and takes weights only when all of them are ready.

Rank 0 speaks to the server. The others keep their turns back until it says, over the team, that the server is asleep, awake
again, or has the new weights. See `policy.contract.WeightSync`. Knows no model.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, Protocol

from sanderling.policy.contract import Gate, WeightSync


class Meeting(Protocol):
    """The part of a team that is needed here."""

    @property
    def rank(self) -> int: ...

    def gather(self, value: Any) -> list[Any]:
        """Collective: what every rank hands over."""
        ...


class Together:
    """One server of many processes."""

    def __init__(self, server: WeightSync, gate: Gate, team: Meeting, *, sleeps: bool) -> None:
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
        if self._leads:
            await self._server.publish(weights, version)
        await self._all()
        if not self._leads:
            await self._server.publish(None, version)

    async def _all(self) -> None:
        """Until every rank is here; tools go on meanwhile."""
        await asyncio.to_thread(self._team.gather, None)
