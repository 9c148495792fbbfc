"""Structured turns in the protocol's text: the one place where ``tool_calls`` and reasoning fields become a turn.

A turn is the reasoning between ``<think>`` tags, then what was said beside it, then one ``<tool_call>`` for each call or the
``<answer>``. The parser then reads that text like any other turn; where it reads something else than the structure says
(an argument or a thought may hold tags), the structure is kept and the node says ``rebuilt_differs``.
"""

from typing import Any

from sanderling.core.parse import ParseProblem, parse_turn
from sanderling.core.record import Node, NodeKind
from sanderling.core.types import Role, ToolCall
from sanderling.data.importers.report import Notes

_HARMLESS = frozenset({ParseProblem.MISSING_THINK})
"""A structured turn without reasoning is no accident of its writer."""


def turn_text(think: str | None, calls: tuple[ToolCall, ...], answer: str | None, *, said: str = "") -> str:
    """A structured turn in the protocol's form."""
    parts = [] if think is None else [f"<think>\n{think}\n</think>"]
    parts += [said] if said.strip() else []
    parts += [f"<tool_call>{call.raw}</tool_call>" for call in calls]
    if answer is not None:
        parts.append(f"<answer>\n{answer}\n</answer>")
    return "\n\n".join(parts)


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


def structured_turn_node(
    think: str | None,
    calls: tuple[ToolCall, ...],
    answer: str | None,
    parent: int | None,
    place: str,
    notes: Notes,
    *,
    raw: dict[str, Any],
    said: str = "",
) -> Node:
    """A turn whose parts are known: its text is rebuilt, its fields are the parts."""
    text = turn_text(think, calls, answer, said=said)
    parsed = parse_turn(text)
    meant = (answer or "").strip() or None
    problems = [problem.value for problem in parsed.problems if think is not None or problem not in _HARMLESS]
    if [(call.name, call.arguments) for call in parsed.calls] != [(call.name, call.arguments) for call in calls] or (
        parsed.answer != meant
    ):
        problems.append("rebuilt_differs")
    for problem in problems:
        notes.add(f"turn:{problem}", place, text[-200:])
    return Node(
        parent=parent,
        role=Role.ASSISTANT,
        kind=NodeKind.TURN,
        text=text,
        think=think,
        calls=calls,
        answer=meant,
        problems=tuple(problems),
        raw=raw,
    )
