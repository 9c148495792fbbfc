"""Steps that take calls away, with what was returned to them: disallowed ones, repeated ones, turns that break the protocol.

A trajectory of which no call is left is dropped whole, since its answer would rest on nothing.
"""

import json
from collections import Counter
from dataclasses import replace
from typing import Literal

from sanderling.core.grammar import Violation
from sanderling.core.lenient import decode_json
from sanderling.core.observations import read_observation
from sanderling.core.profiles import ToolNames
from sanderling.core.prompts import BETWEEN
from sanderling.core.record import NodeKind
from sanderling.core.types import ToolCall, ToolStatus
from sanderling.data.cleaning.draft import Draft, Drop, Note, Reason, Round, call_body, canonical, join_blocks, split_blocks


def signature(call: ToolCall, names: ToolNames, *, with_goal: bool) -> str:
    """Equal for equal calls, whatever the order of queries or URLs; ``with_goal``: for another goal it is another call."""

    def told(value: object) -> str:
        return json.dumps(value, sort_keys=True, default=str)

    listed = {names.search: names.search_query, names.visit: names.visit_url}.get(call.name)
    if listed not in call.arguments:
        return told([call.name, call.arguments])
    items = call.arguments[listed] if isinstance(call.arguments[listed], list) else [call.arguments[listed]]
    parts = [call.name, sorted({item.strip() if isinstance(item, str) else told(item) for item in items})]
    if call.name == names.visit:
        parts.append(call.arguments.get(names.visit_goal) if with_goal else None)
    return told(parts)


def failed_calls(one: Round) -> list[bool]:
    """For each call whether it failed: the tool's own word where recorded, else what the response, if any, reads like."""
    calls = one.node.calls
    if one.observation is None:
        return [False] * len(calls)
    node = one.observation.node
    statuses = [event.status for event in node.events]
    if len(statuses) != len(calls):
        statuses = [read_observation(block).status for block in split_blocks(node.text)]
    if len(statuses) != len(calls):
        statuses = [read_observation(node.text).status] * len(calls)
    return [status not in (ToolStatus.OK, ToolStatus.EMPTY) for status in statuses]


def _has_calls(rounds: list[Round]) -> bool:
    return any(one.node.calls for one in rounds)


def prune_tools(draft: Draft, *, tools: tuple[str, ...] = ()) -> Drop | None:
    """Take calls of other tools away. A turn with allowed calls beside keeps those.

    ``tools``: names of the allowed ones; none: the target's search and visit.
    """
    allowed = tools or (draft.profile.tools.search, draft.profile.tools.visit)
    before, draft.rounds = draft.rounds, []
    had_calls = _has_calls(before[:-1])
    for one in before:
        chosen = [call.name in allowed for call in one.node.calls]
        draft.notes += [Note("calls_disallowed", 1, call_body(call)) for call in one.node.calls if call.name not in allowed]
        says_more = any(chosen) or one.node.answer is not None
        if all(chosen) or (says_more and draft.keep_calls(one, chosen)):
            draft.rounds.append(one)
            continue
        draft.note("turns_removed")
        if any(chosen):
            draft.note("calls_beside_them_lost", sum(chosen))
    if had_calls and not _has_calls(draft.rounds):
        return Drop(Reason.FORBIDDEN_TOOL, "no call is left: all were of other tools")
    return None


def drop_repeats(draft: Draft, *, with_goal: bool = False, keep_retries: bool = True) -> None:
    """Take repeated calls away: what was asked once is not asked again, and the first stays.

    A call that failed may be tried again (``keep_retries``). A turn stays where its calls cannot be told apart, or it answers.
    """
    before, draft.rounds = draft.rounds, []
    made: set[str] = set()
    for one in before:
        calls = one.node.calls
        failed = failed_calls(one) if keep_retries else [False] * len(calls)
        answered = one.observation is not None and bool(one.node.think)  # else `malformed` takes it, and the next one counts
        chosen: list[bool] = []
        for call, in_vain in zip(calls, failed, strict=True):
            signed = signature(call, draft.profile.tools, with_goal=with_goal)
            chosen.append(signed not in made)
            if answered and not in_vain:
                made.add(signed)
        if all(chosen) or one.node.answer is not None or (any(chosen) and not draft.keep_calls(one, chosen)):
            draft.rounds.append(one)
            continue
        draft.notes += [Note("calls_repeated", 1, call_body(call)) for call, new in zip(calls, chosen, strict=True) if not new]
        if any(chosen):
            draft.rounds.append(one)
        else:
            draft.note("turns_removed")


_EARLY, _UNANSWERED = "early_answers", "calls_without_response"
_SAID = (NodeKind.OBSERVATION, NodeKind.HINT)


def mend_turns(draft: Draft, *, several_calls: Literal["join", "drop"] = "join") -> Drop | None:
    """Repair malformed turns, or take them away.

    A turn before the last has to make a call that was answered; the last one has to answer. What both calls and answers is
    what came of it. Of several calls those that their tool can take as one are joined, or the turn goes (``drop``). A last turn
    that is no answer stays: that is no matter of repair.
    """
    head = [message for message in draft.head if message.node.kind not in _SAID]
    if len(head) < len(draft.head):
        draft.note("responses_without_call", len(draft.head) - len(head))
        draft.head = head
    before, draft.rounds = draft.rounds, []
    had_calls = _has_calls(before[:-1])
    for one in before[:-1]:
        text = one.node.text
        fault = _mended(draft, one, join=several_calls == "join")
        if fault:
            draft.note(fault, 1, text)
            draft.note("turns_removed")
        else:
            draft.rounds.append(one)
    for last in before[-1:]:
        _end(draft, last)
        draft.rounds.append(last)
    if not had_calls or _has_calls(draft.rounds):
        return None
    faults = [note.code for note in draft.notes if note.code.startswith("malformed:") or note.code in (_EARLY, _UNANSWERED)]
    code, number = Counter(faults).most_common(1)[0]
    silent = code in (f"malformed:{Violation.NO_THINK.value}", f"malformed:{Violation.THINK_EMPTY.value}")
    return Drop(Reason.NO_REASONING if silent else Reason.MALFORMED_TURN, f"no call is left: {number} times {code}")


def _end(draft: Draft, last: Round) -> None:
    """An answer alone, with nothing said after it."""
    node = last.node
    if node.answer is None:
        return
    turn = canonical(node, replace(draft.read(node), calls=())) if node.calls else None
    if turn is not None:
        draft.notes += [Note("calls_beside_answer", 1, call_body(call)) for call in node.calls]
        last.turn.node = turn
    said = [reply for reply in last.replies if reply.node.kind in _SAID]
    if said:
        draft.note("messages_after_answer", len(said), said[0].node.text)
        last.replies = [reply for reply in last.replies if reply.node.kind not in _SAID]


def _mended(draft: Draft, one: Round, *, join: bool) -> str:
    """Make it a turn that calls and is answered, in one well-formed call; returns the code of its fault where it cannot be."""
    node = one.node
    if not node.calls:
        return _EARLY if node.answer is not None else "malformed:no_action"
    if one.observation is None:
        return _UNANSWERED
    if node.answer is not None:  # it is the call that was run: what stands beside it goes into the reasoning
        parsed = draft.read(node)
        left = (*parsed.left, parsed.answer) if parsed.answer is not None else parsed.left
        turn = canonical(node, replace(parsed, answer=None, left=left))
        if turn is None:
            return "malformed:not_canonical"
        one.turn.node = turn
        draft.note("answers_beside_call", 1, node.answer)
    if len(one.node.calls) > 1 and not (join and _joined(draft, one)):
        return "malformed:not_canonical"
    found = draft.violations(one.node)
    return f"malformed:{found[0].value}" if found else ""


def _joined(draft: Draft, one: Round) -> bool:
    """Several calls and their results as one; what cannot be joined with the first goes. False where that cannot be done."""
    names = draft.profile.tools
    first, calls = one.node.calls[0], one.node.calls

    def list_key(call: ToolCall) -> str | None:
        key = {names.search: names.search_query, names.visit: names.visit_url}.get(call.name)
        return key if key is not None and isinstance(call.arguments.get(key), list) else None

    def mate(call: ToolCall) -> tuple[str, str | None, object]:
        return call.name, list_key(call), call.arguments.get(names.visit_goal)

    chosen = [True, *(list_key(first) is not None and mate(call) == mate(first) for call in calls[1:])]
    if not all(chosen):
        if not draft.keep_calls(one, chosen):
            return False
        draft.notes += [
            Note("calls_not_joined", 1, call_body(call)) for call, kept in zip(calls, chosen, strict=True) if not kept
        ]
    node, seen, parsed = one.node, one.observation, draft.read(one.node)
    number = len(parsed.calls)
    if seen is None or number < 2:
        return True
    first, key = parsed.calls[0], list_key(parsed.calls[0])
    if key is not None:
        asked = [item for call in parsed.calls for item in call.arguments[key]]
        first = first.model_copy(update={"arguments": first.arguments | {key: asked}})
    turn = canonical(node, replace(parsed, calls=(first,)))
    blocks, events = split_blocks(seen.node.text), seen.node.events
    if turn is None or len(blocks) not in (1, number) or 0 < len(events) < number:
        return False  # results that are missing, or are more than one and not one for each call
    draft.note("calls_joined", number, node.text, turn.text)
    text = seen.node.text
    if len(blocks) > 1:  # as their tool would have laid them out for one call: JSON lists are one list, other text is in a row
        found = [(decode_json(block) if block.startswith("[") else None, len(block)) for block in blocks[:64]]
        lists = [one[0] for one, size in found if one and isinstance(one[0], list) and one[1] == size]
        whole = json.dumps([item for one in lists for item in one], ensure_ascii=False)
        text = join_blocks([whole if len(lists) == len(blocks) else BETWEEN.join(blocks)])
    one.turn.node = turn
    seen.write(text, events=events[:1] if len(events) == number else events)
    return True
