r"""LiteResearcher: the case viewer's files, whose turns are structured steps instead of text.

A turn's text is rebuilt in the protocol's form, always the same way: the reasoning between ``<think>`` tags, then one
``<tool_call>`` for each call with the argument names that the checkpoint was trained with (``query``, ``url``, ``goal``), or
the ``<answer>``. The step itself is kept in ``raw``. The files do not say how an episode ended.
"""

import json
from typing import Any

from sanderling.protocol.messages import Role, ToolCall
from sanderling.trajectory.ids import question_id
from sanderling.trajectory.importers.chat import final_answer, observation_node, raw_node, texts
from sanderling.trajectory.importers.report import Notes
from sanderling.trajectory.record import Node, NodeKind, Question, Trajectory

_ARGUMENTS = {"queries": "query", "urls": "url"}
_TURN_FIELDS = frozenset({"type", "think", "tool_calls", "answer"})
_HELD = frozenset({"question", "reference_answer", "steps"})


def read_trajectory(case: dict[str, Any], id: str, notes: Notes) -> Trajectory:
    """One case as a trajectory; fields that the record has no place for go to ``meta``."""
    nodes: list[Node] = []
    for index, step in enumerate(case["steps"]):
        place = f"{id} step {index}"
        nodes.append(_node(step, index - 1 if index else None, nodes[-1] if nodes else None, place, notes))
    asked = case.get("question")
    if not isinstance(asked, str):
        asked = next((node.text for node in nodes if node.kind is NodeKind.QUESTION), "")
    known_id = f"{case.get('benchmark', '')}-{case['id']}" if "id" in case else question_id(asked)
    answer = final_answer(nodes)
    if case.get("final_answer") and answer != str(case["final_answer"]).strip():
        notes.add("final_answer_differs", id, case["final_answer"])
    return Trajectory(
        id=id,
        question=Question(id=known_id, text=asked, answers=texts(case.get("reference_answer"))),
        nodes=tuple(nodes),
        leaf=len(nodes) - 1 if nodes else None,
        ending=None,
        answer=answer,
        meta={key: value for key, value in case.items() if key not in _HELD},
    )


def _node(step: Any, parent: int | None, before: Node | None, place: str, notes: Notes) -> Node:
    kind = step.get("type") if isinstance(step, dict) else None
    if kind == "assistant":
        node = _turn(step, parent, place, notes)
        return node or raw_node(step, parent, place, notes, "odd_step")
    content = step.get("content") if isinstance(step, dict) else None
    if isinstance(content, str) and kind in ("question", "tool_response", "system"):
        raw = step if set(step) - {"type", "content"} else None
        if kind == "tool_response":
            return observation_node(content, parent, before, place, notes, raw=raw)
        role, node_kind = (Role.SYSTEM, NodeKind.SYSTEM) if kind == "system" else (Role.USER, NodeKind.QUESTION)
        return Node(parent=parent, role=role, kind=node_kind, text=content, raw=raw)
    return raw_node(step, parent, place, notes, "unknown_step")


def _turn(step: dict[str, Any], parent: int | None, place: str, notes: Notes) -> Node | None:
    """A structured turn, or None when its parts are not of the usual types."""
    think, given, answer = step.get("think"), step.get("tool_calls") or [], step.get("answer")
    usual = isinstance(given, list) and all(isinstance(call, dict) and isinstance(call.get("name"), str) for call in given)
    if not usual or not all(part is None or isinstance(part, str) for part in (think, answer)):
        return None
    if set(step) - _TURN_FIELDS:
        notes.add("extra_fields", place, sorted(set(step) - _TURN_FIELDS))
    calls = tuple(_call(call) for call in given)
    said = (answer or "").strip() or None
    if not calls and said is None:
        notes.add("turn:no_action", place, think)
    return Node(
        parent=parent,
        role=Role.ASSISTANT,
        kind=NodeKind.TURN,
        text=turn_text(think, calls, answer),
        think=think,
        calls=calls,
        answer=said,
        problems=() if calls or said else ("no_action",),
        raw=step,
    )


def _call(given: dict[str, Any]) -> ToolCall:
    arguments = {_ARGUMENTS.get(key, key): value for key, value in given.items() if key != "name"}
    body = json.dumps({"name": given["name"], "arguments": arguments}, ensure_ascii=False)
    return ToolCall(name=given["name"], arguments=arguments, raw=f"\n{body}\n")


def turn_text(think: str | None, calls: tuple[ToolCall, ...], answer: str | None) -> str:
    """A structured turn in the protocol's form."""
    parts = [] if think is None else [f"<think>\n{think}\n</think>"]
    parts += [f"<tool_call>{call.raw}</tool_call>" for call in calls]
    if answer is not None:
        parts.append(f"<answer>\n{answer}\n</answer>")
    return "\n\n".join(parts)
