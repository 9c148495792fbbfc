"""Drop repeated calls with their responses: what was asked once is not asked again.

The first call stays. By default the goal of a visit is no part of a call, as in DR-Venus, and a call that failed may be tried
again: what the second try returned may be what the answer rests on.
"""

from pydantic import BaseModel, ConfigDict

from sanderling.core.record import Trajectory
from sanderling.data.cleaning.contract import Note, Outcome, Target
from sanderling.data.cleaning.graph import rebuild
from sanderling.data.cleaning.outcomes import failed_calls
from sanderling.data.cleaning.rounds import Round, join, take_apart
from sanderling.data.cleaning.selection import keep_calls
from sanderling.data.cleaning.signatures import signature
from sanderling.data.cleaning.turn_text import call_body


class RepeatsSettings(BaseModel):
    """What counts as the same call."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    with_goal: bool = False
    """A page read for another goal is another call."""
    keep_retries: bool = True
    """A call may be made again after it failed."""


def drop_repeats(trajectory: Trajectory, settings: RepeatsSettings, target: Target) -> Outcome:
    """The trajectory with every call made once."""
    apart = take_apart(trajectory)
    notes: list[Note] = []
    rounds: list[Round] = []
    made: set[str] = set()
    for one in apart.rounds:
        failed = failed_calls(one) if settings.keep_retries else [False] * len(one.node.calls)
        answered = one.observation is not None and bool(one.node.think)  # else `malformed` takes it, and the next one counts
        chosen: list[bool] = []
        for call, in_vain in zip(one.node.calls, failed, strict=True):
            signed = signature(call, target.profile.tools, with_goal=settings.with_goal)
            chosen.append(signed not in made)
            if answered and not in_vain:
                made.add(signed)
        kept = _kept(one, chosen, target, notes)
        if kept is not None:
            rounds.append(kept)
    return Outcome(*rebuild(trajectory, join(apart.head, rounds), notes))


def _kept(one: Round, chosen: list[bool], target: Target, notes: list[Note]) -> Round | None:
    """The round without its repeated calls; as it is where they cannot be told from the others, or an answer stands beside."""
    if all(chosen) or one.node.answer is not None:
        return one
    repeated = [Note("calls_repeated", 1, call_body(call)) for call, new in zip(one.node.calls, chosen, strict=True) if not new]
    if not any(chosen):
        notes += [*repeated, Note("turns_removed")]
        return None
    fewer = keep_calls(one, chosen, target.profile)
    if fewer is None:
        return one
    notes += repeated
    return fewer
