"""A door that turns pass on their way to a server: closed, nobody goes in. One event loop at a time. Knows no server."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class Door:
    """Open until somebody closes it; whoever is inside comes out as ever."""

    def __init__(self) -> None:
        self._inside = 0
        self._holds = 0
        self._changed = asyncio.Event()

    @asynccontextmanager
    async def passing(self) -> AsyncIterator[None]:
        """Be inside, once the door is open; an open one is passed without waiting."""
        while self._holds:
            await self._changed.wait()
        self._inside += 1
        try:
            yield
        finally:
            self._inside -= 1
            self._tell()

    @asynccontextmanager
    async def closed(self, *, empty: bool) -> AsyncIterator[None]:
        """Keep everybody out; with ``empty`` the block begins when the last one inside has come out."""
        self._holds += 1
        try:
            while empty and self._inside:
                await self._changed.wait()
            yield
        finally:
            self._holds -= 1
            self._tell()

    def _tell(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()
