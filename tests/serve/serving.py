"""Worlds that a server's tests put behind it."""

import threading

from sanderling.core.types import ToolStatus
from sanderling.world.contract import SearchReply, VisitReply, World


class FailingWorld(World):
    """Answers every call with one status, or raises."""

    name, fingerprint, page_count = "failing", "0" * 64, 1

    def __init__(self, status=ToolStatus.OK, error=None):
        self.status, self.error = status, error

    async def search(self, query, **_):
        if self.error:
            raise self.error
        return SearchReply(query=query, hits=(), status=self.status)

    async def visit(self, url, goal="", **_):
        if self.error:
            raise self.error
        return VisitReply(url=url, title="", text="", status=self.status)


class HeldWorld(World):
    """A world whose calls wait until they are released."""

    name = "held"
    fingerprint = "0" * 64
    page_count = 1

    def __init__(self) -> None:
        self.released = threading.Event()
        self.asked = threading.Semaphore(0)
        self.calls = 0

    def _wait(self) -> None:
        self.calls += 1
        self.asked.release()
        assert self.released.wait(30)

    async def search(self, query, **_) -> SearchReply:
        self._wait()
        return SearchReply(query=query, hits=())

    async def visit(self, url, goal="", **_) -> VisitReply:
        self._wait()
        return VisitReply(url=url, title="t", text="x")
