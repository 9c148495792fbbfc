"""A tool that takes as long as it says: virtual delays slept for real, for demonstrations and for load on a real clock.

The result is that of the tool alone, to the byte. Knows no world.
"""

import asyncio
import time
from typing import Any

from sanderling.core.types import ToolSpec
from sanderling.tools.contract import Tool, ToolContext, ToolResult

_EARLY = 0.02
"""By what share of the deadline a call that used all of it returns early, so that its result is read, and is no time-out."""


class PacedTool:
    """Runs a tool and returns its result when its ``latency_s`` has passed.

    Example: ``{name: PacedTool(tool) for name, tool in world_tools(world, profile).items()}``
    """

    def __init__(self, tool: Tool, speed: float = 1.0) -> None:
        """``speed``: virtual seconds for each real one, above 0. Raises ValueError for another."""
        if speed <= 0:
            raise ValueError(f"speed must be above 0, not {speed:g}")
        self._tool = tool
        self._speed = speed

    @property
    def spec(self) -> ToolSpec:
        return self._tool.spec

    async def __call__(self, arguments: dict[str, Any], context: ToolContext) -> ToolResult:
        """Run one call; see `tools.contract.Tool`."""
        start = time.monotonic()
        result = await self._tool(arguments, context)
        seconds = result.latency_s / self._speed
        if context.deadline_s is not None:
            seconds = min(seconds, context.deadline_s * (1 - _EARLY))
        await asyncio.sleep(max(seconds - (time.monotonic() - start), 0.0))
        return result
