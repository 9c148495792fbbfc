"""What tests of programs share: a sandbox where there is one, and a session of it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import cache

import pytest

from sanderling.core.errors import UserError
from sanderling.tools.python.opening import chosen
from sanderling.tools.python.process import Runners
from sanderling.tools.python.rungs import bubblewrap
from sanderling.tools.python.sandbox import Box, Rung, SandboxLimits, Still


@cache
def why_not() -> str:
    """Why bubblewrap does not work here; empty: it does."""
    import asyncio

    async def ask() -> str:
        try:
            await (await chosen(Rung.BUBBLEWRAP, SandboxLimits())).close()
        except UserError as error:
            return str(error)
        return ""

    return asyncio.run(ask())


needs_bubblewrap = pytest.mark.skipif(bool(why_not()), reason=why_not() or "it works")


@asynccontextmanager
async def opened(limits: SandboxLimits | None = None, still: Still | None = None) -> AsyncIterator[Box]:
    """A session of bubblewrap's."""
    async with box_of(bubblewrap(limits or SandboxLimits(), warm=0), still) as box:
        yield box


@asynccontextmanager
async def box_of(sandbox: Runners, still: Still | None = None) -> AsyncIterator[Box]:
    """A session of any sandbox."""
    box = await sandbox.open(still)
    try:
        yield box
    finally:
        await box.close()
        await sandbox.close()
