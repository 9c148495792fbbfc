"""A trajectory's main branch as Inspect's chat messages. Pure: plain dicts, nothing of Inspect is imported.

Reasoning and calls that the record read out of a turn become parts of the message and leave its text; what is not found there
word for word stays in the text as it was sampled, so nothing is lost. An observation becomes one tool message for each call
where it holds as many results as there were calls; else it stays whole, and nothing is made up for the others.
"""

import re
from typing import Any

from sanderling.core.parse import CALL, CALL_END, THINK, THINK_END
from sanderling.core.record import Node, NodeKind, Trajectory
from sanderling.core.types import Role, ToolStatus
from sanderling.data.cleaning.draft import split_blocks

Json = dict[str, Any]
_ERRORS = {
    ToolStatus.TIMEOUT: "timeout",
    ToolStatus.BAD_ARGUMENTS: "parsing",
    ToolStatus.UNKNOWN_TOOL: "parsing",
    ToolStatus.BLOCKED: "permission",
    ToolStatus.PAYWALLED: "permission",
    ToolStatus.NOT_FOUND: "file_not_found",
    ToolStatus.GONE: "file_not_found",
    ToolStatus.RATE_LIMITED: "limit",
}
"""Inspect's kinds of tool errors; any other failure is ``unknown`` to it."""
_FINE = (ToolStatus.OK, ToolStatus.EMPTY)


def messages_of(trajectory: Trajectory) -> list[Json]:
    """The main branch; empty for an episode that never began."""
    if trajectory.leaf is None:
        return []
    found: list[Json] = []
    asked: tuple[int, Node] | None = None
    for index in trajectory.path():
        node = trajectory.nodes[index]
        if node.kind is NodeKind.OBSERVATION:
            found += _results(index, node, asked)
        elif node.kind is NodeKind.TURN:
            found.append(_turn(index, node, trajectory.model))
            asked = (index, node)
        else:
            found.append({"role": node.role.value, "content": node.text, **_about(index, node)})
    return [{"id": f"{trajectory.id}#{message.pop('place')}", **message} for message in found]


def call_id(turn: int, place: int) -> str:
    """What a call is called; our records give calls no names."""
    return f"{turn}-{place}"


def rest_of(node: Node) -> str:
    """A turn's text without the reasoning and the calls that stand in the message's other parts."""
    text = node.text
    if node.think is not None:
        thought, tag, after = text.partition(THINK_END)
        if tag and thought.strip().removeprefix(THINK).strip() == node.think.strip():
            text = after
    for call in node.calls:
        if call.raw.strip():
            pattern = f"{re.escape(CALL)}\\s*{re.escape(call.raw.strip())}\\s*(?:{re.escape(CALL_END)}|\\Z)"
            text = re.sub(pattern, "", text, count=1)
    return text.strip()


def _turn(index: int, node: Node, model: str) -> Json:
    content: list[Json] = []
    if node.think:
        content.append({"type": "reasoning", "reasoning": node.think})
    rest = rest_of(node)
    if rest or not content:
        content.append({"type": "text", "text": rest})
    message: Json = {"role": Role.ASSISTANT.value, "content": content, "source": "generate", **_about(index, node)}
    if node.calls:
        message["tool_calls"] = [
            {"id": call_id(index, place), "function": call.name, "arguments": call.arguments}
            for place, call in enumerate(node.calls)
        ]
    return message | ({"model": model} if model else {})


def _results(index: int, node: Node, asked: tuple[int, Node] | None) -> list[Json]:
    """Tool messages for the calls of the turn before."""
    turn, calls = (asked[0], asked[1].calls) if asked is not None else (0, ())
    blocks = split_blocks(node.text)
    if len(blocks) != max(1, len(calls)):
        blocks = [node.text]
    known = len(node.events) == len(blocks)
    found: list[Json] = []
    for place, block in enumerate(blocks):
        status = node.events[place].status if known else ToolStatus.OK
        about = _about(index, node, status, place if len(blocks) > 1 else None)
        message: Json = {"role": "tool", "content": block, **about, **_error(status, block)}
        if calls:
            message |= {"tool_call_id": call_id(turn, place), "function": calls[place].name}
        found.append(message)
    return found


def _error(status: ToolStatus, text: str) -> Json:
    """What went wrong, in the words that the agent read: the viewer shows an error's message in place of the content."""
    if status in _FINE:
        return {}
    return {"error": {"type": _ERRORS.get(status, "unknown"), "message": text or status.value}}


def _about(index: int, node: Node, status: ToolStatus = ToolStatus.OK, place: int | None = None) -> Json:
    """Where it stands in the record, and what is unusual about it."""
    told: Json = {"kind": node.kind.value} if node.kind in (NodeKind.HINT, NodeKind.RAW) else {}
    told |= {"problems": list(node.problems)} if node.problems else {}
    told |= {"status": status.value} if status is not ToolStatus.OK else {}
    found: Json = {"place": f"{index}" if place is None else call_id(index, place)}
    return found | ({"metadata": told} if told else {})
