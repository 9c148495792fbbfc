"""A tool over recorded calls: the recorded observation, byte for byte, where the call was recorded; else another tool's answer.

Knows a table of recordings (`world.recorded`), no model and no world.
"""

from typing import Any

from sanderling.core.observations import read_observation
from sanderling.core.types import ToolSpec, ToolStatus
from sanderling.tools.contract import Tool, ToolContext, ToolResult
from sanderling.world.recorded import ReplayTable

_NOT_RECORDED = "This call was not recorded, and a replay has nothing else to answer with; try another call."


class ReplayTool:
    """A tool that answers from a table, and else hands the call to a live one.

    Example: ``{name: ReplayTool(table, tool.spec, fallback=tool) for name, tool in world_tools(world, profile).items()}``
    """

    def __init__(
        self, table: ReplayTable, spec: ToolSpec, *, fallback: Tool | None = None, trajectory_id: str | None = None
    ) -> None:
        self._table = table
        self._spec = spec
        self._fallback = fallback
        self._trajectory_id = trajectory_id

    @property
    def spec(self) -> ToolSpec:
        return self._spec

    async def __call__(self, arguments: dict[str, Any], context: ToolContext) -> ToolResult:
        """The recorded observation; see `tools.contract.Tool`."""
        text = self._table.lookup(
            self._spec.name, arguments, self._trajectory_id, occurrence=context.occurrence, ordinal=context.ordinal
        )
        if text is not None:
            return _result(text)
        if self._fallback is not None:
            return await self._fallback(arguments, context)
        return ToolResult(text=_NOT_RECORDED, status=ToolStatus.NOT_FOUND)


def _result(text: str) -> ToolResult:
    reading = read_observation(text)
    searched = [hit.url for block in reading.blocks for hit in block.hits]
    return ToolResult(text=text, status=reading.status, provenance=(*searched, *(extract.url for extract in reading.extracts)))
