"""Tool results to OBSERVATION nodes, and messages nobody can classify to RAW ones. Knows no layout."""

from collections.abc import Sequence
from typing import Any

from sanderling.core.chat import wrap_observation
from sanderling.core.observations import read_observation, tool_role
from sanderling.core.record import Node, NodeKind, ToolEvent
from sanderling.core.types import Role, ToolStatus
from sanderling.data.importers.messages import Said, Speaker, as_json
from sanderling.data.importers.report import Notes

WRAPPED = "<tool_response>"


def joined_observation(
    results: Sequence[tuple[Said, str]], before: Node | None, ids: tuple[str, ...], parent: int | None, notes: Notes
) -> Node:
    """One observation for results in a row; ``ids``: those of the calls of the turn before it.

    Results and events stand in the order of the calls, as in our own records: cleaning takes the first for the first call's.
    """
    calls = before.calls if before is not None and before.kind is NodeKind.TURN else ()
    by_tool = results[0][0].speaker is Speaker.TOOL and bool(calls)
    places = _answered(results, ids, len(calls), notes) if by_tool else list(range(len(results)))
    if places != sorted(places):
        notes.add("results_reordered", results[0][1], places)
    ordered = [results[k][0] for k in sorted(range(len(results)), key=places.__getitem__)]
    texts = [said.text if said.text.strip().startswith(WRAPPED) else wrap_observation(said.text) for said in ordered]
    kept = [said.message for said, _ in results]
    plain = len(results) == 1 and results[0][0].plain
    raw = None if plain else kept[0] if len(kept) == 1 else {"messages": kept}
    place = results[0][1]
    node = observation_node("\n".join(texts), parent, before, place, notes, raw=raw)
    if not by_tool:
        return node
    if len(results) < len(calls):
        notes.add("results_missing", place, f"{len(results)} of {len(calls)}")
    reading = read_observation(node.text)
    statuses = reading.parts or (reading.status,)
    odd = "odd_block" in reading.problems
    events = [
        _event(calls[at].name, status, odd) for at, status in zip(sorted(places), statuses, strict=False) if at < len(calls)
    ]
    return node.model_copy(update={"events": tuple(events)})


def _answered(results: Sequence[tuple[Said, str]], ids: tuple[str, ...], calls: int, notes: Notes) -> list[int]:
    """For each result the call of the turn that it answers: by its id, and otherwise the first that no other answers."""
    free = list(range(max(calls, len(results))))
    places: list[int | None] = []
    for said, where in results:
        wanted = said.call_ids[0] if said.call_ids else ""
        named = next((at for at in free if wanted and at < len(ids) and ids[at] == wanted), None)
        if named is not None:
            free.remove(named)
        elif wanted and any(ids):
            notes.add("unknown_call_id", where, wanted)
        places.append(named)
    return [free.pop(0) if at is None else at for at in places]


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
    statuses = reading.parts if len(reading.parts) == len(calls) else (reading.status,) * len(calls)
    return Node(
        parent=parent,
        role=Role.USER,
        kind=NodeKind.OBSERVATION,
        text=text,
        problems=tuple(problems),
        events=tuple(_event(call.name, status, "odd_block" in problems) for call, status in zip(calls, statuses, strict=True)),
        raw=raw,
    )


def _event(name: str, status: ToolStatus, odd: bool) -> ToolEvent:
    """``odd``: the text looks like search results and holds none, which says nothing of a tool that is no search."""
    role = tool_role(name)
    return ToolEvent(name=name, role=role, status=ToolStatus.OK if odd and not role and status is ToolStatus.EMPTY else status)


def raw_node(message: Any, parent: int | None, place: str, notes: Notes, code: str) -> Node:
    """A message that cannot be classified, kept as it was."""
    notes.add(code, place, message)
    raw = message if isinstance(message, dict) else {"message": message}
    role = raw.get("role")
    content = raw.get("content")
    return Node(
        parent=parent,
        role=Role(role) if isinstance(role, str) and role in list(Role) else Role.USER,
        kind=NodeKind.RAW,
        text=content if isinstance(content, str) else as_json(message),
        problems=(code,),
        raw=raw,
    )
