"""Canonical tool names and arguments: the target's own, however a system calls its search and its page reader.

``google_search``, ``web_search``, ``browse``, ``fetch_url`` and their like (`trajectory.roles`), ``queries``, ``q``, ``urls``,
``link``, ``purpose`` and their like; a string becomes a list of one; arguments that the target's tools do not have are left out
and counted. Calls of other tools stay as they are.
"""

from typing import Any

from pydantic import BaseModel, ConfigDict

from sanderling.core.observations import tool_role
from sanderling.core.parse import normalise_arguments
from sanderling.core.profiles import Profile, ToolNames
from sanderling.core.record import Trajectory
from sanderling.core.types import ToolCall
from sanderling.data.cleaning.contract import Note, Outcome, Target
from sanderling.data.cleaning.graph import Kept, rebuild, with_text
from sanderling.data.cleaning.rounds import Round, join, take_apart
from sanderling.data.cleaning.turn_text import call_body, read_turn, with_calls

_QUERIES = ("query", "queries", "q", "search_query", "search_queries", "keywords", "keyword")
_URLS = ("url", "urls", "link", "links", "page_url", "webpage_url", "uri")
_GOALS = ("goal", "purpose", "objective", "question", "instruction", "query")


class NamesSettings(BaseModel):
    """Further names."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    search: tuple[str, ...] = ()
    """Further names of a search, beside the known ones."""
    visit: tuple[str, ...] = ()
    """Further names of a page reader."""
    extra_arguments: bool = False
    """Keep arguments that the target's tools do not have."""


def canonical_names(trajectory: Trajectory, settings: NamesSettings, target: Target) -> Outcome:
    """The trajectory with every search and every visit called as the target calls them."""
    apart = take_apart(trajectory)
    notes: list[Note] = []
    rounds = [_round(one, settings, target.profile, notes) for one in apart.rounds]
    return Outcome(*rebuild(trajectory, join(apart.head, rounds), notes))


def _round(one: Round, settings: NamesSettings, profile: Profile, notes: list[Note]) -> Round:
    index, node = one.turn
    if not node.calls or (node.token_ids is None and _are_canonical(node.calls, settings, profile.tools)):
        return one
    parsed = read_turn(node, profile)  # with ids the record's own calls may be tidier than what was sampled
    calls = tuple(canonical_call(call, settings, profile.tools) for call in parsed.calls)
    turn = None if _are_canonical(parsed.calls, settings, profile.tools) else with_calls(node, parsed, calls)
    if turn is None:
        return one
    for old, new in zip(parsed.calls, calls, strict=True):
        notes += _differences(old, new)
    return Round((index, turn), tuple(_renamed(kept, parsed.calls, calls) for kept in one.replies))


def canonical_call(call: ToolCall, settings: NamesSettings, names: ToolNames) -> ToolCall:
    """A call under the target's names; another tool's call as it is."""
    name = call.name.strip()
    role = "search" if name in settings.search else "visit" if name in settings.visit else tool_role(name)
    if role == "search":
        renamed = _arguments(call.arguments, {names.search_query: _QUERIES})
        found = normalise_arguments(ToolCall(name=names.search, arguments=renamed), names)
        known = {names.search_query}
    elif role == "visit":
        renamed = _arguments(call.arguments, {names.visit_url: _URLS, names.visit_goal: _GOALS})
        found = normalise_arguments(ToolCall(name=names.visit, arguments=renamed), names)
        known = {names.visit_url, names.visit_goal}
    else:
        return call
    kept = found.arguments if settings.extra_arguments or not known & set(found.arguments) else _only(found.arguments, known)
    return call.model_copy(update={"name": found.name, "arguments": kept})


def _are_canonical(calls: tuple[ToolCall, ...], settings: NamesSettings, names: ToolNames) -> bool:
    return all(_meaning(call) == _meaning(canonical_call(call, settings, names)) for call in calls)


def _arguments(given: dict[str, Any], wanted: dict[str, tuple[str, ...]]) -> dict[str, Any]:
    """The arguments under canonical names, these first; the first known name of each that is there."""
    found = dict(given)
    named: dict[str, Any] = {}
    for canonical, known in wanted.items():
        key = next((name for name in (canonical, *known) if name in found), None)
        if key is not None:
            named[canonical] = found.pop(key)
    return named | found


def _only(arguments: dict[str, Any], known: set[str]) -> dict[str, Any]:
    return {key: value for key, value in arguments.items() if key in known}


def _meaning(call: ToolCall) -> tuple[str, list[tuple[str, Any]]]:
    return call.name, list(call.arguments.items())


def _differences(old: ToolCall, new: ToolCall) -> list[Note]:
    notes: list[Note] = []
    if old.name != new.name:
        notes.append(Note("tools_renamed", 1, old.name, new.name))
    if _meaning(old)[1] != _meaning(new)[1]:
        notes.append(Note("arguments_changed", 1, call_body(old), call_body(new)))
    if len(new.arguments) < len(old.arguments):
        notes.append(Note("arguments_left_out", len(old.arguments) - len(new.arguments), call_body(old), call_body(new)))
    return notes


def _renamed(kept: Kept, old: tuple[ToolCall, ...], new: tuple[ToolCall, ...]) -> Kept:
    """A reply whose events bear the calls' names."""
    index, node = kept
    if len(node.events) != len(new) or all(a.name == b.name for a, b in zip(old, new, strict=True)):
        return kept
    pairs = zip(node.events, new, strict=True)
    events = tuple(event.model_copy(update={"name": call.name, "role": tool_role(call.name)}) for event, call in pairs)
    return index, with_text(node, node.text, events=events)
