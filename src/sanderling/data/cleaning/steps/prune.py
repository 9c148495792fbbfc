"""Prune disallowed tools: their calls and the responses to them. A turn with allowed calls beside keeps those, with theirs.

A trajectory that called nothing else is dropped: its answer would rest on nothing.
"""

from pydantic import BaseModel, ConfigDict

from sanderling.core.record import Trajectory
from sanderling.data.cleaning.contract import Note, Outcome, Reason, Target
from sanderling.data.cleaning.graph import rebuild
from sanderling.data.cleaning.rounds import Round, join, take_apart
from sanderling.data.cleaning.selection import keep_calls
from sanderling.data.cleaning.turn_text import call_body


class PruneSettings(BaseModel):
    """Which tools may stay."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    tools: tuple[str, ...] = ()
    """Names of the allowed tools; empty: the target's search and visit."""


def prune_tools(trajectory: Trajectory, settings: PruneSettings, target: Target) -> Outcome:
    """The trajectory without calls of other tools."""
    allowed = set(settings.tools or target.allowed)
    apart = take_apart(trajectory)
    notes: list[Note] = []
    rounds: list[Round] = []
    for one in apart.rounds:
        chosen = [call.name in allowed for call in one.node.calls]
        if all(chosen):
            rounds.append(one)
            continue
        notes += [Note("calls_disallowed", 1, call_body(call)) for call in one.node.calls if call.name not in allowed]
        fewer = keep_calls(one, chosen, target.profile) if any(chosen) or one.node.answer is not None else None
        if fewer is not None:
            rounds.append(fewer)
            continue
        notes.append(Note("turns_removed"))
        if any(chosen):
            notes.append(Note("calls_beside_them_lost", sum(chosen)))
    if any(one.node.calls for one in apart.rounds[:-1]) and not any(one.node.calls for one in rounds):
        return Outcome(None, tuple(notes), Reason.FORBIDDEN_TOOL, "no call is left: all were of other tools")
    return Outcome(*rebuild(trajectory, join(apart.head, rounds), notes))
