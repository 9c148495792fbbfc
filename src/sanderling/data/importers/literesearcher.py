r"""LiteResearcher: the case viewer's files, whose turns are structured steps instead of text.

A turn's text is rebuilt (``turns.py``) with the argument names that the checkpoint was trained with (``query``, ``url``,
``goal``). The step itself is kept in ``raw``. The case video's file has turns that hold a call and its result
instead. The files do not say how an episode ended.
"""

from typing import Any

from sanderling.core.record import Node, NodeKind, Trajectory
from sanderling.core.types import Role, ToolCall
from sanderling.data.importers.conversation import Told, assembled
from sanderling.data.importers.fields import texts
from sanderling.data.importers.layouts import Layout, LayoutReader
from sanderling.data.importers.messages import as_json
from sanderling.data.importers.report import Notes
from sanderling.data.importers.results import observation_node, raw_node
from sanderling.data.importers.turns import structured_turn_node

_ARGUMENTS = {"queries": "query", "urls": "url"}
_TURN_FIELDS = frozenset({"type", "think", "tool_calls", "answer"})
_HELD = frozenset({"question", "reference_answer", "steps", "turns"})


def read_trajectory(case: dict[str, Any], id: str, notes: Notes) -> Trajectory:
    """One case as a trajectory."""
    nodes: list[Node] = []
    steps = case["steps"] if isinstance(case.get("steps"), list) else _steps(case)
    notes.tally("messages", len(steps))
    for index, step in enumerate(steps):
        node = _node(step, index - 1 if index else None, nodes[-1] if nodes else None, f"{id} step {index}", notes)
        notes.tally("raw" if node.kind is NodeKind.RAW else "kept")
        nodes.append(node)
    asked = case.get("question")
    told = Told(asked if isinstance(asked, str) else None, texts(case.get("reference_answer")))
    found = assembled(case, nodes, id, notes, told=told, held=_HELD if told.question is not None else _HELD - {"question"})
    if case.get("final_answer") and found.answer != str(case["final_answer"]).strip():
        notes.add("final_answer_differs", id, case["final_answer"])
    return found


def _steps(case: dict[str, Any]) -> list[Any]:
    """The steps of a case whose turns hold their one call and its result, with question and final answer beside them."""
    steps: list[Any] = [{"type": "question", "content": case["question"]}]
    turns = case["turns"]
    for number, turn in enumerate(turns, start=1):
        tool = turn.get("tool") if isinstance(turn, dict) else None
        if not isinstance(turn, dict) or not (tool is None or _is_tool(tool)):
            steps.append(turn)
            continue
        said = {key: value for key, value in turn.items() if key != "tool"}
        if tool is not None:
            more = {key: value for key, value in tool.items() if key not in ("name", "args", "result", *tool["args"])}
            said |= {"tool_calls": [{"name": tool["name"], **tool["args"]}], **({"tool": more} if any(more.values()) else {})}
        elif number == len(turns) and isinstance(case.get("final_answer"), str):
            said |= {"answer": case["final_answer"]}
        steps.append({"type": "assistant", **said})
        steps += [] if tool is None else [{"type": "tool_response", "content": tool["result"]}]
    return steps


def _is_tool(tool: Any) -> bool:
    named = isinstance(tool, dict) and isinstance(tool.get("name"), str) and isinstance(tool.get("args"), dict)
    return named and isinstance(tool.get("result"), str)


def _is_case(entry: dict[str, Any]) -> bool:
    if isinstance(entry.get("steps"), list):
        return True
    turns = entry.get("turns")
    told = isinstance(entry.get("question"), str) and isinstance(turns, list) and bool(turns)
    return told and all(isinstance(turn, dict) and {"think", "tool"} <= set(turn) for turn in entry["turns"][:3])


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
    return structured_turn_node(think, calls, answer, parent, place, notes, raw=step)


def _call(given: dict[str, Any]) -> ToolCall:
    arguments = {_ARGUMENTS.get(key, key): value for key, value in given.items() if key != "name"}
    body = as_json({"name": given["name"], "arguments": arguments})
    return ToolCall(name=given["name"], arguments=arguments, raw=f"\n{body}\n")


LITERESEARCHER_CASES = LayoutReader(Layout.LITERESEARCHER_CASES, _is_case, read_trajectory)
