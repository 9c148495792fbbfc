"""Repair or drop malformed turns; a dropped turn takes its responses along, so no two responses are left in a row.

A turn before the last has to make a call that was answered; the last one has to answer. What both calls and answers is what
came of it: a call where a response follows, else an answer. Several calls become one where their tool takes lists. What does
not keep to the strict grammar then is dropped, under the grammar's own code. A last turn that is no answer stays: without an
end the trajectory is no matter of repair, and `validate` drops it. Where none of a trajectory's calls can stay it is dropped
whole: its answer would rest on nothing.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from enum import StrEnum

from pydantic import BaseModel, ConfigDict

from sanderling.core.grammar import Violation, check_turn
from sanderling.core.profiles import Profile
from sanderling.core.record import NodeKind, Trajectory
from sanderling.data.cleaning.contract import Note, Outcome, Reason, Target
from sanderling.data.cleaning.graph import Kept, rebuild, with_text
from sanderling.data.cleaning.responses import join_blocks, split_blocks
from sanderling.data.cleaning.rounds import Round, join, take_apart
from sanderling.data.cleaning.selection import keep_calls, merge_into
from sanderling.data.cleaning.several import join_calls, join_results, joinable
from sanderling.data.cleaning.turn_text import begins_inside, call_body, canonical, read_turn, with_calls


class SeveralCalls(StrEnum):
    """What becomes of a turn with several calls."""

    JOIN = "join"
    """One call of those that can be joined with the first; the others are dropped with their results."""
    DROP = "drop"
    """The turn is dropped."""


_EARLY, _UNANSWERED = "early_answers", "calls_without_response"
_FAULTS = frozenset({_EARLY, _UNANSWERED})
_WITHOUT_REASONING = frozenset(f"malformed:{code.value}" for code in (Violation.NO_THINK, Violation.THINK_EMPTY))


class MalformedSettings(BaseModel):
    """How much is repaired."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    several_calls: SeveralCalls = SeveralCalls.JOIN


def mend_turns(trajectory: Trajectory, settings: MalformedSettings, target: Target) -> Outcome:
    """The trajectory with every turn before the last one well formed and answered."""
    apart = take_apart(trajectory)
    notes: list[Note] = []
    head = [kept for kept in apart.head if kept[1].kind not in (NodeKind.OBSERVATION, NodeKind.HINT)]
    if len(head) < len(apart.head):
        notes.append(Note("responses_without_call", len(apart.head) - len(head)))
    rounds: list[Round] = []
    for place, one in enumerate(apart.rounds):
        last = place == len(apart.rounds) - 1
        mended = _last(one, target.profile, notes) if last else _middle(one, settings, target.profile, notes)
        if mended is not None:
            rounds.append(mended)
    if _calls(apart.rounds[:-1]) and not _calls(rounds):
        return _nothing_left(notes)
    return Outcome(*rebuild(trajectory, join(head, rounds), notes))


def _calls(rounds: Sequence[Round]) -> bool:
    return any(one.node.calls for one in rounds)


def _nothing_left(notes: list[Note]) -> Outcome:
    """A drop for the commonest fault of the turns that went."""
    faults = Counter(note.code for note in notes if note.code.startswith("malformed:") or note.code in _FAULTS)
    code, number = faults.most_common(1)[0]
    reason = Reason.NO_REASONING if code in _WITHOUT_REASONING else Reason.MALFORMED_TURN
    return Outcome(None, tuple(notes), reason, f"no call is left: {number} times {code}")


def _last(one: Round, profile: Profile, notes: list[Note]) -> Round | None:
    """The last turn as an answer where it gives one, and nothing said after it."""
    index, node = one.turn
    if node.answer is None:
        return one
    turn: Kept | None = one.turn
    if node.calls:
        found = with_calls(node, read_turn(node, profile), ())
        turn = None if found is None else (index, found)
        notes += [Note("calls_beside_answer", 1, call_body(call)) for call in node.calls] if turn else []
    left = [kept for kept in one.replies if kept[1].kind in (NodeKind.OBSERVATION, NodeKind.HINT)]
    if left:
        notes.append(Note("messages_after_answer", len(left), left[0][1].text))
    return Round(turn or one.turn, tuple(kept for kept in one.replies if kept not in left))


def _middle(one: Round, settings: MalformedSettings, profile: Profile, notes: list[Note]) -> Round | None:
    """A turn that calls and is answered, or None."""
    _, node = one.turn
    code = _fault(one)
    mended = None if code else _mended(one, settings, profile, notes)
    if mended is not None:
        found = check_turn(mended.node.text, think_open=begins_inside(mended.node, profile))
        if not found:
            return mended
        code = f"malformed:{found[0].value}"
    notes.append(Note(code or "malformed:not_canonical", 1, node.text))
    notes.append(Note("turns_removed"))
    return None


def _fault(one: Round) -> str:
    """Why a turn cannot stand in the middle, whatever its form."""
    node = one.node
    if not node.calls:
        return _EARLY if node.answer is not None else "malformed:no_action"
    return "" if one.observation is not None else _UNANSWERED


def _mended(one: Round, settings: MalformedSettings, profile: Profile, notes: list[Note]) -> Round | None:
    if one.node.answer is not None:
        one_call = _without_answer(one, profile)
        if one_call is None:
            return None
        notes.append(Note("answers_beside_call", 1, one.node.answer))
        one = one_call
    if len(one.node.calls) < 2:
        return one
    return None if settings.several_calls is SeveralCalls.DROP else _joined(one, profile, notes)


def _without_answer(one: Round, profile: Profile) -> Round | None:
    """The round as the call that was run; the answer beside it goes into the reasoning."""
    index, node = one.turn
    parsed = read_turn(node, profile)
    left = (*parsed.left, parsed.answer) if parsed.answer is not None else parsed.left
    found = canonical(node, replace(parsed, answer=None, left=left))
    return None if found is None else replace(one, turn=(index, found.node))


def _joined(one: Round, profile: Profile, notes: list[Note]) -> Round | None:
    """Several calls as one, their results as one."""
    calls = one.node.calls
    chosen = joinable(calls, profile.tools)
    if not all(chosen):
        fewer = keep_calls(one, chosen, profile)
        if fewer is None:
            return None
        lost = [call for call, kept in zip(calls, chosen, strict=True) if not kept]
        notes += [Note("calls_not_joined", 1, call_body(call)) for call in lost]
        one = fewer
    index, node = one.turn
    parsed = read_turn(node, profile)
    if one.observation is None or not parsed.calls or len(parsed.calls) < 2:
        return one
    place, seen = one.observation
    blocks = split_blocks(seen.text)
    turn = with_calls(node, parsed, (join_calls(parsed.calls, profile.tools),))
    if turn is None or len(blocks) not in (1, len(parsed.calls)) or 0 < len(seen.events) < len(parsed.calls):
        return None  # results that are missing, or are more than one and not one for each call
    notes.append(Note("calls_joined", len(parsed.calls), node.text, turn.text))
    text = join_blocks([join_results(blocks)]) if len(blocks) > 1 else seen.text
    events = seen.events[:1] if len(seen.events) == len(parsed.calls) else seen.events
    return merge_into(one, (index, turn), (place, with_text(seen, text, events=events)))
