"""Asking a world from an event loop: at once, or from a thread where the answer may wait for a server. Knows no tool."""

import asyncio
from collections.abc import Callable
from typing import TypeVar

from sanderling.world.contract import World

Reply = TypeVar("Reply")


async def answer(world: World, call: Callable[[], Reply]) -> Reply:
    """What a call of the world returns; other episodes go on while it waits."""
    return await asyncio.to_thread(call) if world.waits else call()
