"""Steps that take calls away, with what was returned to them: disallowed ones, repeated ones, turns that break the protocol.

A trajectory of which no call is left is dropped whole, since its answer would rest on nothing.
"""

import json
from collections import Counter
from dataclasses import replace
from enum import StrEnum

from sanderling.core.config import Frozen
from sanderling.core.grammar import Violation
from sanderling.core.lenient import decode_json
from sanderling.core.observations import read_observation
from sanderling.core.profiles import Profile, ToolNames
from sanderling.core.prompts import BETWEEN
from sanderling.core.record import NodeKind
from sanderling.core.types import ToolCall, ToolStatus
from sanderling.data.cleaning.draft import (
    Draft,
    Drop,
    Note,
    Reason,
    Round,
    call_body,
    canonical,
    join_blocks,
    keep_calls,
    read_turn,
    split_blocks,
    violations,
    with_calls,
    with_text,
)


def signature(call: ToolCall, names: ToolNames, *, with_goal: bool) -> str:
    """Equal for equal calls: the tool and what it is asked for, whatever the order and repetition of queries or URLs.

    ``with_goal``: a page read for another goal is another call (DR-Venus says it is the same).
    """

    def parts(value: object) -> list[str]:
        items = value if isinstance(value, list) else [value]
        return sorted({item.strip() if isinstance(item, str) else _json(item) for item in items})

    if call.name == names.search and names.search_query in call.arguments:
        return _json([call.name, parts(call.arguments[names.search_query])])
    if call.name == names.visit and names.visit_url in call.arguments:
        goal = call.arguments.get(names.visit_goal) if with_goal else None
        return _json([call.name, parts(call.arguments[names.visit_url]), goal])
    return _json([call.name, call.arguments])


def _json(value: object) -> str:
    return json.dumps(value, sort_keys=True, default=str)


def failed_calls(one: Round) -> list[bool]:
    """For each call whether it failed: the tool's own word where recorded, else what the response reads like.

    A search that found nothing did not fail. Without a response none did.
    """
    calls = one.node.calls
    if one.observation is None:
        return [False] * len(calls)
    node = one.observation[1]
    statuses = [event.status for event in node.events]
    if len(statuses) != len(calls):
        statuses = [read_observation(block).status for block in split_blocks(node.text)]
    if len(statuses) != len(calls):
        statuses = [read_observation(node.text).status] * len(calls)
    return [status not in (ToolStatus.OK, ToolStatus.EMPTY) for status in statuses]


def _has_calls(rounds: list[Round]) -> bool:
    return any(one.node.calls for one in rounds)


class PruneSettings(Frozen):
    """Which tools may stay."""

    tools: tuple[str, ...] = ()
    """Names of the allowed tools; empty: the target's search and visit."""


def prune_tools(draft: Draft, settings: PruneSettings) -> Drop | None:
    """Take calls of other tools away. A turn with allowed calls beside keeps those."""
    allowed = set(settings.tools or (draft.profile.tools.search, draft.profile.tools.visit))
    before, draft.rounds = draft.rounds, []
    for one in before:
        chosen = [call.name in allowed for call in one.node.calls]
        draft.notes += [Note("calls_disallowed", 1, call_body(call)) for call in one.node.calls if call.name not in allowed]
        fewer: Round | None = one
        if not all(chosen):
            fewer = keep_calls(one, chosen, draft.profile) if any(chosen) or one.node.answer is not None else None
        if fewer is not None:
            draft.rounds.append(fewer)
            continue
        draft.note("turns_removed")
        if any(chosen):
            draft.note("calls_beside_them_lost", sum(chosen))
    if _has_calls(before[:-1]) and not _has_calls(draft.rounds):
        return Drop(Reason.FORBIDDEN_TOOL, "no call is left: all were of other tools")
    return None


class RepeatsSettings(Frozen):
    """What counts as the same call."""

    with_goal: bool = False
    """A page read for another goal is another call."""
    keep_retries: bool = True


def drop_repeats(draft: Draft, settings: RepeatsSettings) -> None:
    """Take repeated calls away: what was asked once is not asked again, and the first stays.

    By default the goal of a visit is no part of a call, as in DR-Venus, and a call that failed may be tried again: what the
    second try returned may be what the answer rests on. A turn stays as it is where its calls cannot be told apart, or where an
    answer stands beside them.
    """
    before, draft.rounds = draft.rounds, []
    made: set[str] = set()
    for one in before:
        failed = failed_calls(one) if settings.keep_retries else [False] * len(one.node.calls)
        answered = one.observation is not None and bool(one.node.think)  # else `malformed` takes it, and the next one counts
        chosen: list[bool] = []
        for call, in_vain in zip(one.node.calls, failed, strict=True):
            signed = signature(call, draft.profile.tools, with_goal=settings.with_goal)
            chosen.append(signed not in made)
            if answered and not in_vain:
                made.add(signed)
        if all(chosen) or one.node.answer is not None:
            draft.rounds.append(one)
            continue
        fewer = keep_calls(one, chosen, draft.profile) if any(chosen) else None
        if fewer is None and any(chosen):
            draft.rounds.append(one)
            continue
        draft.notes += [
            Note("calls_repeated", 1, call_body(call)) for call, new in zip(one.node.calls, chosen, strict=True) if not new
        ]
        if fewer is None:
            draft.note("turns_removed")
        else:
            draft.rounds.append(fewer)


class SeveralCalls(StrEnum):
    """What becomes of a turn with several calls."""

    JOIN = "join"
    """One call of those that can be joined with the first; the others are dropped with their results."""
    DROP = "drop"


class MalformedSettings(Frozen):
    """How much is repaired."""

    several_calls: SeveralCalls = SeveralCalls.JOIN


_EARLY, _UNANSWERED = "early_answers", "calls_without_response"
_SAID = (NodeKind.OBSERVATION, NodeKind.HINT)


def mend_turns(draft: Draft, settings: MalformedSettings) -> Drop | None:
    """Repair malformed turns, or take them away.

    A turn before the last has to make a call that was answered; the last one has to answer. What both calls and answers is
    what came of it: a call where a response follows, else an answer. Several calls become one where their tool takes lists.
    What does not keep to the strict grammar then goes, under the grammar's own code. A last turn that is no answer stays:
    without an end the trajectory is no matter of repair, and `validate` drops it.
    """
    stray = [kept for kept in draft.head if kept[1].kind in _SAID]
    if stray:
        draft.head = [kept for kept in draft.head if kept[1].kind not in _SAID]
        draft.note("responses_without_call", len(stray))
    before, draft.rounds = draft.rounds, []
    for one in before[:-1]:
        mended, fault = _middle(draft, one, settings)
        if mended is not None:
            draft.rounds.append(mended)
        else:
            draft.note(fault, 1, one.node.text)
            draft.note("turns_removed")
    draft.rounds += [_last(draft, one) for one in before[-1:]]
    if not _has_calls(before[:-1]) or _has_calls(draft.rounds):
        return None
    faults = Counter(
        note.code for note in draft.notes if note.code.startswith("malformed:") or note.code in (_EARLY, _UNANSWERED)
    )
    code, number = faults.most_common(1)[0]
    silent = code in (f"malformed:{Violation.NO_THINK.value}", f"malformed:{Violation.THINK_EMPTY.value}")
    return Drop(Reason.NO_REASONING if silent else Reason.MALFORMED_TURN, f"no call is left: {number} times {code}")


def _last(draft: Draft, one: Round) -> Round:
    index, node = one.turn
    if node.answer is None:
        return one
    turn = with_calls(node, read_turn(node, draft.profile), ()) if node.calls else None
    if turn is not None:
        draft.notes += [Note("calls_beside_answer", 1, call_body(call)) for call in node.calls]
    said = [kept for kept in one.replies if kept[1].kind in _SAID]
    if said:
        draft.note("messages_after_answer", len(said), said[0][1].text)
    replies = tuple(kept for kept in one.replies if kept[1].kind not in _SAID)
    return Round(one.turn if turn is None else (index, turn), replies)


def _middle(draft: Draft, one: Round, settings: MalformedSettings) -> tuple[Round | None, str]:
    """A turn that calls and is answered, in one well-formed call; or None, and the code of its fault."""
    if not one.node.calls:
        return None, _EARLY if one.node.answer is not None else "malformed:no_action"
    if one.observation is None:
        return None, _UNANSWERED
    mended: Round | None = one
    if one.node.answer is not None:
        mended = _without_answer(one, draft.profile)
        if mended is not None:
            draft.note("answers_beside_call", 1, one.node.answer)
    if mended is not None and len(mended.node.calls) > 1:
        mended = None if settings.several_calls is SeveralCalls.DROP else _joined(draft, mended)
    if mended is None:
        return None, "malformed:not_canonical"
    found = violations(mended.node, draft.profile)
    return (None, f"malformed:{found[0].value}") if found else (mended, "")


def _without_answer(one: Round, profile: Profile) -> Round | None:
    """The round as the call that was run; the answer beside it goes into the reasoning."""
    index, node = one.turn
    parsed = read_turn(node, profile)
    left = (*parsed.left, parsed.answer) if parsed.answer is not None else parsed.left
    found = canonical(node, replace(parsed, answer=None, left=left))
    return None if found is None else replace(one, turn=(index, found.node))


def _joined(draft: Draft, one: Round) -> Round | None:
    """Several calls as one where their tool takes lists, their results as one; what cannot be joined with the first goes."""
    names = draft.profile.tools
    first = one.node.calls[0]
    chosen = [place == 0 or _joinable(first, call, names) for place, call in enumerate(one.node.calls)]
    if not all(chosen):
        fewer = keep_calls(one, chosen, draft.profile)
        if fewer is None:
            return None
        lost = [call for call, kept in zip(one.node.calls, chosen, strict=True) if not kept]
        draft.notes += [Note("calls_not_joined", 1, call_body(call)) for call in lost]
        one = fewer
    index, node = one.turn
    parsed = read_turn(node, draft.profile)
    if one.observation is None or len(parsed.calls) < 2:
        return one
    first, key, number = parsed.calls[0], _list_key(parsed.calls[0], names), len(parsed.calls)
    if key is not None:
        asked = [item for call in parsed.calls for item in call.arguments[key]]
        first = first.model_copy(update={"arguments": first.arguments | {key: asked}})
    turn = with_calls(node, parsed, (first,))
    place, seen = one.observation
    blocks = split_blocks(seen.text)
    if turn is None or len(blocks) not in (1, number) or 0 < len(seen.events) < number:
        return None  # results that are missing, or are more than one and not one for each call
    draft.note("calls_joined", number, node.text, turn.text)
    text = join_blocks([_joined_results(blocks)]) if len(blocks) > 1 else seen.text
    events = seen.events[:1] if len(seen.events) == number else seen.events
    return replace(one, turn=(index, turn)).with_observation((place, with_text(seen, text, events=events)))


def _joinable(first: ToolCall, other: ToolCall, names: ToolNames) -> bool:
    """Whether one call could ask for both: queries of searches, or pages read for one goal."""
    key = _list_key(first, names)
    if key is None or _list_key(other, names) != key or first.name != other.name:
        return False
    return first.arguments.get(names.visit_goal) == other.arguments.get(names.visit_goal)


def _list_key(call: ToolCall, names: ToolNames) -> str | None:
    """The argument that holds what a call asks for, where it is a list."""
    key = {names.search: names.search_query, names.visit: names.visit_url}.get(call.name)
    return key if key is not None and isinstance(call.arguments.get(key), list) else None


def _joined_results(blocks: list[str]) -> str:
    """Results as their tool would have laid them out for one call: JSON lists become one list, other text stands in a row."""
    found = [decode_json(block) if block.startswith("[") else None for block in blocks[:64]]
    lists = [
        one[0] for one, block in zip(found, blocks, strict=False) if one and isinstance(one[0], list) and one[1] == len(block)
    ]
    if len(lists) == len(blocks):
        return json.dumps([item for one in lists for item in one], ensure_ascii=False)
    return BETWEEN.join(blocks)
