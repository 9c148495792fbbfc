"""Chat messages to nodes: what the importers of chat layouts share.

Contract: one node for each message, in order, whatever the message is; its text is the message's content, unchanged. What
cannot be classified becomes a RAW node that holds the message itself. Knows no file layout.
"""

import json
from collections.abc import Sequence
from typing import Any

from sanderling.protocol.endings import Ending
from sanderling.protocol.messages import Role
from sanderling.protocol.parse import parse_turn
from sanderling.trajectory.importers.report import Notes
from sanderling.trajectory.observations import read_observation
from sanderling.trajectory.record import Node, NodeKind, ToolEvent
from sanderling.trajectory.roles import tool_role

_KNOWN_FIELDS = frozenset({"role", "content"})


def chat_nodes(messages: Sequence[Any], where: str, notes: Notes) -> list[Node]:
    """A chain of nodes for a list of ``{"role", "content"}`` messages. Odd things go into ``notes``."""
    nodes: list[Node] = []
    asked = False
    for index, message in enumerate(messages):
        parent = index - 1 if index else None
        place = f"{where} message {index}"
        node = _node(message, parent, asked, nodes[-1] if nodes else None, place, notes)
        asked = asked or node.kind is NodeKind.QUESTION
        nodes.append(node)
    return nodes


def _node(message: Any, parent: int | None, asked: bool, before: Node | None, place: str, notes: Notes) -> Node:
    content, extra = _content(message, place, notes)
    role = message.get("role") if isinstance(message, dict) else None
    if content is None:
        return raw_node(message, parent, place, notes, "content_not_text")
    if role == "assistant":
        return turn_node(content, parent, place, notes, raw=extra)
    if role == "system":
        return Node(parent=parent, role=Role.SYSTEM, kind=NodeKind.SYSTEM, text=content, raw=extra)
    if role == "tool" or (role == "user" and content.lstrip().startswith("<tool_response>")):
        if role == "tool":
            notes.add("tool_role", place, content)
        raw = message if role == "tool" else extra
        return observation_node(content, parent, before, place, notes, raw=raw)
    if role == "user":
        if asked:
            notes.add("bare_user_message", place, content)
        kind = NodeKind.HINT if asked else NodeKind.QUESTION
        return Node(parent=parent, role=Role.USER, kind=kind, text=content, raw=extra)
    return raw_node(message, parent, place, notes, "unknown_role")


def _content(message: Any, place: str, notes: Notes) -> tuple[str | None, dict[str, Any] | None]:
    """A message's text, or None; and the message itself where the text is not all of it."""
    if not isinstance(message, dict):
        return None, None
    content = message.get("content")
    extra = message if set(message) - _KNOWN_FIELDS else None
    if extra:
        notes.add("extra_fields", place, sorted(set(message) - _KNOWN_FIELDS))
    if isinstance(content, list) and content and all(_is_text_part(part) for part in content):
        notes.add("content_in_parts", place, content)
        return "".join(part["text"] for part in content), message
    return (content if isinstance(content, str) else None), extra


def _is_text_part(part: Any) -> bool:
    return isinstance(part, dict) and part.get("type") == "text" and isinstance(part.get("text"), str)


def raw_node(message: Any, parent: int | None, place: str, notes: Notes, code: str) -> Node:
    """A message that cannot be classified, kept as it was."""
    notes.add(code, place, message)
    raw = message if isinstance(message, dict) else {"message": message}
    role = Role(raw["role"]) if raw.get("role") in list(Role) else Role.USER
    content = raw.get("content")
    text = content if isinstance(content, str) else json.dumps(message, ensure_ascii=False)
    return Node(parent=parent, role=role, kind=NodeKind.RAW, text=text, problems=(code,), raw=raw)


def turn_node(text: str, parent: int | None, place: str, notes: Notes, *, raw: dict[str, Any] | None = None) -> Node:
    """A turn as the tolerant parser reads it."""
    parsed = parse_turn(text)
    for problem in parsed.problems:
        notes.add(f"turn:{problem.value}", place, text[-200:])
    return Node(
        parent=parent,
        role=Role.ASSISTANT,
        kind=NodeKind.TURN,
        text=text,
        think=parsed.think,
        calls=parsed.calls,
        answer=parsed.answer,
        problems=tuple(problem.value for problem in parsed.problems),
        raw=raw,
    )


def observation_node(
    text: str, parent: int | None, before: Node | None, place: str, notes: Notes, *, raw: dict[str, Any] | None = None
) -> Node:
    """What the tools returned, with one event for each call of the turn before it."""
    reading = read_observation(text)
    calls = before.calls if before is not None and before.kind is NodeKind.TURN else ()
    problems = list(dict.fromkeys(reading.problems))
    if not calls:
        problems.append("observation_without_call")
    for problem in problems:
        notes.add(problem, place, text[:200])
    events = tuple(ToolEvent(name=call.name, role=tool_role(call.name), status=reading.status) for call in calls)
    return Node(
        parent=parent, role=Role.USER, kind=NodeKind.OBSERVATION, text=text, problems=tuple(problems), events=events, raw=raw
    )


def final_answer(nodes: Sequence[Node]) -> str | None:
    """The answer of the last turn, if the episode ends with it."""
    return nodes[-1].answer if nodes and nodes[-1].kind is NodeKind.TURN else None


def ending_of_finished(nodes: Sequence[Node]) -> Ending | None:
    """The ending of a rollout whose file says that it finished: only an answer is beyond doubt."""
    if final_answer(nodes) is None:
        return None
    told = len(nodes) > 1 and nodes[-2].kind is NodeKind.HINT
    return Ending.ANSWERED_AT_BUDGET if told else Ending.ANSWERED


def texts(value: Any) -> tuple[str, ...]:
    """Accepted answers out of a text, a number, or any nesting of lists; blanks are left out."""
    found: list[str] = []
    pending = [value]  # a stack of its own: nesting may be deeper than Python's
    while pending:
        item = pending.pop()
        if isinstance(item, list):
            pending.extend(reversed(item))
        elif item is not None and not isinstance(item, dict):
            found += [part.strip() for part in str(item).split("<|answer_split|>") if part.strip()]
    return tuple(found)
