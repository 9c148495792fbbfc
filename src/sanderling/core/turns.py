"""The policy's turns of a record, in the one order that rewards, tables and rows share, and what each of them did."""

from enum import StrEnum

from sanderling.core.record import Node, NodeKind, Trajectory


class TurnTool(StrEnum):
    """What a turn did, for credit assignment."""

    SEARCH = "search"
    VISIT = "visit"
    BOTH = "both"
    OTHER = "other"
    ANSWER = "answer"
    MALFORMED = "malformed"


def turn_indices(trajectory: Trajectory) -> list[int]:
    """The nodes that are the policy's turns, rejected attempts left out: their order is the turn index everywhere."""
    return [i for i, node in enumerate(trajectory.nodes) if node.kind is NodeKind.TURN and not node.rejected]


def turn_tools(trajectory: Trajectory) -> list[TurnTool]:
    """What each turn did."""
    observed = {node.parent: node for node in trajectory.nodes if node.kind is NodeKind.OBSERVATION and node.parent is not None}
    return [_tool(trajectory.nodes[index], observed.get(index)) for index in turn_indices(trajectory)]


def _tool(turn: Node, observation: Node | None) -> TurnTool:
    if turn.calls and observation is not None:
        roles = {event.role for event in observation.events}
        if roles >= {"search", "visit"}:
            return TurnTool.BOTH
        if "visit" in roles:
            return TurnTool.VISIT
        return TurnTool.SEARCH if "search" in roles else TurnTool.OTHER
    if turn.calls:
        return TurnTool.OTHER
    return TurnTool.MALFORMED if turn.answer is None else TurnTool.ANSWER
