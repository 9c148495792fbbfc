"""Stopping on request: run something unless an event is set, and leave nothing running behind.

Knows no episode; the loop turns :class:`Stopped` into an ending.
"""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class Stopped(Exception):  # noqa: N818 - a request, not an error
    """The event was set before the work was done."""


async def unless_stopped(work: Coroutine[Any, Any, T], stop: asyncio.Event | None) -> T:
    """Await ``work``; raises Stopped when ``stop`` is set first, after the work's own cleaning up is done.

    Work that is finished when the event is seen counts: its result is returned.
    """
    if stop is None:
        return await work
    if stop.is_set():
        work.close()
        raise Stopped
    task, waiter = asyncio.ensure_future(work), asyncio.ensure_future(stop.wait())
    try:
        await asyncio.wait({task, waiter}, return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            return task.result()
        raise Stopped
    finally:
        task.cancel()
        waiter.cancel()
        await asyncio.gather(task, waiter, return_exceptions=True)
