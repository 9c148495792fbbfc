"""Where new pages come from: any search backend that finds addresses and opens them. Two are here: a world, and the live web.

Knows no question.
"""

from dataclasses import dataclass
from typing import Protocol

from sanderling.core.asking import AskingOutageError
from sanderling.core.types import ToolStatus
from sanderling.world.contract import OutageError, Page
from sanderling.world.live import LIVE_WEB, LiveWeb
from sanderling.world.local import LocalWorld


@dataclass(frozen=True)
class Opened:
    """A page that was opened, or why it was not."""

    page: Page | None
    status: ToolStatus = ToolStatus.OK


class Finder(Protocol):
    """A search backend."""

    @property
    def name(self) -> str:
        """For provenance; the ``source`` of pages that it found."""
        ...

    async def search(self, query: str, limit: int) -> list[str]:
        """Addresses, best first. Raises AskingOutageError when the backend is broken."""
        ...

    async def open(self, url: str) -> Opened:
        """A page. Raises AskingOutageError when the backend is broken, never for what a site does."""
        ...


@dataclass(frozen=True)
class WorldFinder:
    """Another world, such as a large one that a small one grows into."""

    world: LocalWorld

    @property
    def name(self) -> str:
        return f"world {self.world.name}"

    async def search(self, query: str, limit: int) -> list[str]:
        """See `Finder`."""
        return [hit.url for hit in (await self.world.search(query, limit=limit)).hits]

    async def open(self, url: str) -> Opened:
        """See `Finder`."""
        page = self.world.page(url)
        return Opened(page, ToolStatus.OK if page is not None else ToolStatus.NOT_FOUND)


@dataclass(frozen=True)
class WebFinder:
    """The live web."""

    web: LiveWeb
    name: str = LIVE_WEB

    async def search(self, query: str, limit: int) -> list[str]:
        """See `Finder`."""
        try:
            return [hit.url for hit in (await self.web.search(query, limit=limit)).hits]
        except OutageError as error:
            raise AskingOutageError(str(error)) from error

    async def open(self, url: str) -> Opened:
        """See `Finder`."""
        try:
            reply = await self.web.page(url)
        except OutageError as error:
            raise AskingOutageError(str(error)) from error
        if reply.status is not ToolStatus.OK:
            return Opened(None, reply.status)
        return Opened(Page(url=reply.url, title=reply.title, text=reply.text, source=self.name))
