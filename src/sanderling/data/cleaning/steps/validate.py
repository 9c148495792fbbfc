"""Validate: what is left is exactly what the protocol demands, or is dropped with the first reason.

System prompt first, then the question; turns and responses alternate (a response is an observation, a hint of the loop, or one
after the other), every response in its tags; every turn keeps to the strict grammar (`protocol.grammar`); the last one answers.
"""

from sanderling.core.grammar import Violation, check_final, check_turn
from sanderling.core.record import NodeKind, Trajectory
from sanderling.data.cleaning.contract import Outcome, Reason, Target
from sanderling.data.cleaning.responses import is_wrapped
from sanderling.data.cleaning.rounds import Round, take_apart
from sanderling.data.cleaning.turn_text import begins_inside

_REPLIES = (
    (NodeKind.OBSERVATION,),
    (NodeKind.OBSERVATION, NodeKind.HINT),
    (NodeKind.HINT,),
)


def validate(trajectory: Trajectory, target: Target) -> Outcome:
    """The trajectory, or why it is no supervision."""
    found = _first_fault(trajectory, target)
    return Outcome(trajectory) if found is None else Outcome(None, reason=found[0], detail=found[1])


def _first_fault(trajectory: Trajectory, target: Target) -> tuple[Reason, str] | None:
    apart = take_apart(trajectory)
    kinds = [node.kind for _, node in apart.head]
    raw = next((node for node in trajectory.branch() if node.kind is NodeKind.RAW), None)
    if trajectory.ending is not None and not trajectory.ending.scored:
        return Reason.OUTAGE, trajectory.ending.value
    if raw is not None:
        return Reason.UNREADABLE, raw.text[:200]
    if not apart.rounds:
        return Reason.EMPTY, ""
    if kinds[:1] != [NodeKind.SYSTEM]:
        return Reason.SYSTEM_NOT_FIRST, ", ".join(kinds)
    if kinds[1:2] != [NodeKind.QUESTION]:
        return Reason.NO_QUESTION, ", ".join(kinds)
    if len(kinds) > 2:
        return Reason.BROKEN_ORDER, ", ".join(kinds)
    return _fault_in_rounds(apart.rounds, target)


def _fault_in_rounds(rounds: tuple[Round, ...], target: Target) -> tuple[Reason, str] | None:
    for place, one in enumerate(rounds):
        last = place == len(rounds) - 1
        kinds = tuple(node.kind for _, node in one.replies)
        if last:
            if one.node.answer is None or one.node.calls:
                return Reason.NO_ANSWER, one.node.text[-200:]
        elif kinds not in _REPLIES:
            return Reason.BROKEN_ORDER, f"turn {place + 1}, then {', '.join(kinds) or 'a turn'}"
        if last and kinds:
            return Reason.BROKEN_ORDER, f"the answer, then {', '.join(kinds)}"
        bare = next((node for _, node in one.replies if not is_wrapped(node.text)), None)
        if bare is not None:
            return Reason.UNWRAPPED_RESPONSE, bare.text[:200]
        fault = _fault_in_turn(one, target, last=last)
        if fault is not None:
            return fault
    return None


def _fault_in_turn(one: Round, target: Target, *, last: bool) -> tuple[Reason, str] | None:
    check = check_final if last else check_turn
    found = check(one.node.text, think_open=begins_inside(one.node, target.profile))
    if not found:
        return None
    if Violation.NO_THINK in found or Violation.THINK_EMPTY in found:
        return Reason.NO_REASONING, "the answer" if last else "a call"
    return (Reason.MALFORMED_ANSWER if last else Reason.MALFORMED_TURN), ", ".join(found)
