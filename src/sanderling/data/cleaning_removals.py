r"""Steps that take something away: calls with what was returned to them, turns that break the protocol, whole trajectories.

A trajectory of which no call is left is dropped whole, since its answer would rest on nothing. LiteResearcher's filters
(arXiv 2604.17931, whose numbers are the defaults here) are `forbidden`, `repeat_limit`, `min_calls`, `tool_errors`,
`artefacts` and `reasoning`.
"""

import json
import re
from collections import Counter
from dataclasses import replace

from pydantic import NonNegativeInt, PositiveInt

from sanderling.core.grammar import Violation, check_final, check_turn
from sanderling.core.observations import read_observation
from sanderling.core.profiles import BETWEEN, ToolNames
from sanderling.core.record import NodeKind
from sanderling.core.text import decode_json
from sanderling.core.types import ToolCall, ToolStatus
from sanderling.data.cleaning_draft import REPLIES, Draft, Drop, Reason, Round, canonical, is_wrapped, join_blocks, split_blocks


def _list_key(call: ToolCall, names: ToolNames) -> str | None:
    """The argument that a search's queries or a visit's addresses stand in."""
    return {names.search: names.search_query, names.visit: names.visit_url}.get(call.name)


def _signature(call: ToolCall, names: ToolNames, *, with_goal: bool) -> str:
    """Equal for equal calls, whatever the order of queries or URLs; ``with_goal``: for another goal it is another call."""

    def as_json(value: object) -> str:
        return json.dumps(value, sort_keys=True, default=str)

    key = _list_key(call, names)
    if key not in call.arguments:
        return as_json([call.name, call.arguments])
    items = call.arguments[key] if isinstance(call.arguments[key], list) else [call.arguments[key]]
    parts = [call.name, sorted({item.strip() if isinstance(item, str) else as_json(item) for item in items})]
    if call.name == names.visit:
        parts.append(call.arguments.get(names.visit_goal) if with_goal else None)
    return as_json(parts)


def _failed_calls(one: Round) -> list[bool]:
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
    before, had_calls, draft.rounds = draft.rounds, _has_calls(draft.rounds[:-1]), []
    for one in before:
        chosen = [call.name in allowed for call in one.node.calls]
        draft.notes["calls_disallowed"] += chosen.count(False)
        says_more = any(chosen) or one.node.answer is not None
        if all(chosen) or (says_more and draft.keep_calls(one, chosen)):
            draft.rounds.append(one)
        else:
            draft.notes["turns_removed"] += 1
            draft.notes["calls_beside_them_lost"] += sum(chosen)
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
        failed = _failed_calls(one) if keep_retries else [False] * len(calls)
        answered = one.observation is not None and bool(one.node.think)  # else `malformed` takes it, and the next one counts
        chosen: list[bool] = []
        for call, in_vain in zip(calls, failed, strict=True):
            signed = _signature(call, draft.profile.tools, with_goal=with_goal)
            chosen.append(signed not in made)
            if answered and not in_vain:
                made.add(signed)
        if all(chosen) or one.node.answer is not None or (any(chosen) and not draft.keep_calls(one, chosen)):
            draft.rounds.append(one)
            continue
        draft.notes["calls_repeated"] += chosen.count(False)
        if any(chosen):
            draft.rounds.append(one)
        else:
            draft.notes["turns_removed"] += 1


def mend_turns(draft: Draft) -> Drop | None:
    """Repair malformed turns, or take them away.

    A turn before the last has to make a call that was answered; the last one has to answer. What both calls and answers is
    what came of it. Of several calls those that their tool can take as one are joined. A last turn that is no answer stays.
    """
    head = [message for message in draft.head if message.node.kind not in REPLIES]
    draft.notes["responses_without_call"] += len(draft.head) - len(head)
    before, draft.head, draft.rounds = draft.rounds, head, []
    faults: Counter[str] = Counter()
    for one in before[:-1]:
        fault = _mend(draft, one)
        if fault:
            faults[fault] += 1
        else:
            draft.rounds.append(one)
    draft.notes += faults
    draft.notes["turns_removed"] += faults.total()
    for last in before[-1:]:
        _mend_end(draft, last)
        draft.rounds.append(last)
    if not _has_calls(before[:-1]) or _has_calls(draft.rounds):
        return None
    code, number = faults.most_common(1)[0]
    silent = code in (f"malformed:{Violation.NO_THINK.value}", f"malformed:{Violation.THINK_EMPTY.value}")
    return Drop(Reason.NO_REASONING if silent else Reason.MALFORMED_TURN, f"no call is left: {number} times {code}")


def _mend_end(draft: Draft, last: Round) -> None:
    """An answer alone, with nothing said after it."""
    node = last.node
    if node.answer is None:
        return
    turn = canonical(node, replace(draft.read(node), calls=())) if node.calls else None
    if turn is not None:
        draft.notes["calls_beside_answer"] += len(node.calls)
        last.turn.node = turn
    others = [reply for reply in last.replies if reply.node.kind not in REPLIES]
    draft.notes["messages_after_answer"] += len(last.replies) - len(others)
    last.replies = others


def _mend(draft: Draft, one: Round) -> str:
    """Make it a turn that calls and is answered, in one well-formed call; returns the code of its fault where it cannot be."""
    node = one.node
    if not node.calls:
        return "early_answers" if node.answer is not None else "malformed:no_action"
    if one.observation is None:
        return "calls_without_response"
    if node.answer is not None:  # it is the call that was run: what stands beside it goes into the reasoning
        parsed = draft.read(node)
        left = (*parsed.left, parsed.answer) if parsed.answer is not None else parsed.left
        turn = canonical(node, replace(parsed, answer=None, left=left))
        if turn is None:
            return "malformed:not_canonical"
        one.turn.node = turn
        draft.notes["answers_beside_call"] += 1
    if len(one.node.calls) > 1 and not _join_calls(draft, one):
        return "malformed:not_canonical"
    found = draft.violations(one.node)
    return f"malformed:{found[0].value}" if found else ""


def _join_calls(draft: Draft, one: Round) -> bool:
    """Several calls and their results as one; what cannot be joined with the first goes. False where that cannot be done."""
    names = draft.profile.tools

    def listed(call: ToolCall) -> str | None:
        key = _list_key(call, names)
        return key if key is not None and isinstance(call.arguments.get(key), list) else None

    def kind(call: ToolCall) -> tuple[str, str | None, object]:
        return call.name, listed(call), call.arguments.get(names.visit_goal)

    first, *others = one.node.calls
    chosen = [True, *(listed(first) is not None and kind(call) == kind(first) for call in others)]
    if not all(chosen):
        if not draft.keep_calls(one, chosen):
            return False
        draft.notes["calls_not_joined"] += chosen.count(False)
    node, seen, parsed = one.node, one.observation, draft.read(one.node)
    number = len(parsed.calls)
    if seen is None or number < 2:
        return True
    first, key = parsed.calls[0], listed(parsed.calls[0])
    if key is not None:
        asked = [item for call in parsed.calls for item in call.arguments[key]]
        first = first.model_copy(update={"arguments": first.arguments | {key: asked}})
    turn = canonical(node, replace(parsed, calls=(first,)))
    blocks, events = split_blocks(seen.node.text), seen.node.events
    if turn is None or len(blocks) not in (1, number) or 0 < len(events) < number:
        return False  # results that are missing, or are more than one and not one for each call
    draft.notes["calls_joined"] += number
    text = seen.node.text
    if len(blocks) > 1:  # as their tool would have laid them out for one call: JSON lists are one list, other text is in a row
        found = [(decode_json(block) if block.startswith("[") else None, len(block)) for block in blocks[:64]]
        lists = [one[0] for one, size in found if one and isinstance(one[0], list) and one[1] == size]
        whole = json.dumps([item for one in lists for item in one], ensure_ascii=False)
        text = join_blocks([whole if len(lists) == len(blocks) else BETWEEN.join(blocks)])
    one.turn.node = turn
    seen.write(text, events=events[:1] if len(events) == number else events)
    return True


# -- whole trajectories -----------------------------------------------------------------------------------------------


def keep_whole(draft: Draft) -> Drop | None:
    """Keep what may be imitated at all: whole, answered, and no outage. Whether an answer is right is a judge's business."""
    trajectory = draft.trajectory
    kinds = {node.kind for node in trajectory.branch()}
    detail = trajectory.ending.value if trajectory.ending else "ending not recorded"
    if trajectory.ending is not None and not trajectory.ending.scored:
        return Drop(Reason.OUTAGE, detail)
    if NodeKind.TURN not in kinds:
        return Drop(Reason.EMPTY, detail)
    if NodeKind.RAW in kinds:
        return Drop(Reason.UNREADABLE, detail)
    return Drop(Reason.NO_ANSWER, detail) if trajectory.answer is None else None


def forbid_tools(draft: Draft, *, tools: tuple[str, ...] = ("PythonInterpreter",)) -> Drop | None:
    """Drop a trajectory that calls a forbidden tool, its name in any case: its reasoning rests on what that said."""
    forbidden = {name.casefold() for name in tools}
    used = sorted({call.name for one in draft.rounds for call in one.node.calls if call.name.casefold() in forbidden})
    return Drop(Reason.FORBIDDEN_TOOL, ", ".join(used)) if used else None


def demand_calls(draft: Draft, *, least: NonNegativeInt = 2) -> Drop | None:
    """Drop a guess: a trajectory that makes fewer calls than ``least``."""
    made = sum(len(one.node.calls) for one in draft.rounds)
    return Drop(Reason.TOO_FEW_CALLS, f"{made} calls") if made < least else None


def limit_repeats(draft: Draft, *, most: PositiveInt = 3, with_goal: bool = True) -> Drop | None:
    """Drop a trajectory that goes in circles: one that makes one call (``with_goal``: for one goal) over ``most`` times."""
    calls = (call for one in draft.rounds for call in one.node.calls)
    made = Counter(_signature(call, draft.profile.tools, with_goal=with_goal) for call in calls).most_common(1)
    if not made or made[0][1] <= most:
        return None
    return Drop(Reason.REPEATED_CALLS, f"{made[0][1]} times {made[0][0][:200]}")


def limit_errors(draft: Draft, *, most: NonNegativeInt = 2) -> Drop | None:
    """Drop a trajectory of which more than ``most`` calls failed."""
    failed = sum(sum(_failed_calls(one)) for one in draft.rounds)
    return Drop(Reason.TOOL_ERRORS, f"{failed} failed calls") if failed > most else None


def demand_reasoning(draft: Draft, *, least_characters: PositiveInt = 1) -> Drop | None:
    """Drop a trajectory that calls a tool without having thought."""
    for place, one in enumerate(draft.rounds, start=1):
        if one.node.calls and len((draft.read(one.node).think or "").strip()) < least_characters:
            return Drop(Reason.NO_REASONING, f"turn {place}")
    return None


def limit_length(draft: Draft, *, most_turns: NonNegativeInt = 0, most_characters: NonNegativeInt = 0) -> Drop | None:
    """Drop what is too long to be learnt from whole; a limit of 0 is none."""
    characters = sum(len(message.node.text) for message in draft.branch)
    for number, most, unit in ((len(draft.rounds), most_turns, "turns"), (characters, most_characters, "characters")):
        if most and number > most:
            return Drop(Reason.TOO_LONG, f"{number} {unit}")
    return None


_BOXED = re.compile(r"\\boxed\s*\{")
_BROKEN = re.compile("[\ufffd\ud800-\udfff\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")
_ESCAPES = re.compile(r"(?:\\u[0-9a-fA-F]{4}){2,}")
_CALLS = re.compile("<tool_call>.*?</tool_call>", re.S)
# The first byte of a character in UTF-8, and what the bytes 80 to BF are in Latin-1 and in Windows-1252.
_SUSPECTS = re.compile(
    "[\u00c2-\u00f4][\u0080-\u00bf\u0152\u0153\u0160\u0161\u0178\u017d\u017e\u0192\u02c6\u02dc\u2013\u2014\u2018-\u201a"
    "\u201c-\u201e\u2020-\u2022\u2026\u2030\u2039\u203a\u20ac\u2122]{1,3}"
)


def limit_artefacts(draft: Draft, *, most: NonNegativeInt = 0, boxed: bool = False) -> Drop | None:
    r"""Drop a trajectory whose agent wrote garbled text, or ``\boxed``, the form of answers of mathematics.

    Garbled are U+FFFD and lone surrogates; control characters other than tab, line feed and carriage return; UTF-8 read as
    Latin-1 or Windows-1252 (``Ã©`` for é); and two or more ``\u`` escapes in a row outside of tool calls. Pages may hold them.
    """
    found: list[str] = []
    for one in draft.rounds:
        text = one.node.text
        if not boxed and _BOXED.search(text):
            return Drop(Reason.ARTEFACTS, "\\boxed")
        found += _BROKEN.findall(text)
        if not text.isascii():
            found += [run for run in _SUSPECTS.findall(text) if _is_misread(run)]
        if "\\u" in text:
            found += _ESCAPES.findall(_CALLS.sub("", text))
    return Drop(Reason.ARTEFACTS, " ".join(map(repr, found[:5]))) if len(found) > most else None


def _is_misread(text: str) -> bool:
    """Whether a run begins with a character's UTF-8 bytes, each read as a character of its own."""
    data = b"".join(char.encode("cp1252", "ignore") or (bytes([ord(char)]) if ord(char) < 256 else b"?") for char in text)
    return any(data[:size].decode("utf-8", "ignore").encode() == data[:size] for size in range(2, len(data) + 1))


_REPLIES = ([NodeKind.OBSERVATION], [NodeKind.OBSERVATION, NodeKind.HINT], [NodeKind.HINT])


def validate(draft: Draft) -> Drop | None:
    """Drop what is not exactly what the protocol demands, for the first fault: order, tags, the strict grammar, an answer."""
    ending = draft.trajectory.ending
    kinds = [message.node.kind for message in draft.head]
    raw = next((message.node for message in draft.branch if message.node.kind is NodeKind.RAW), None)
    if ending is not None and not ending.scored:
        return Drop(Reason.OUTAGE, ending.value)
    if raw is not None:
        return Drop(Reason.UNREADABLE, raw.text[:200])
    if not draft.rounds:
        return Drop(Reason.EMPTY)
    if kinds != [NodeKind.SYSTEM, NodeKind.QUESTION]:
        fault = Reason.NO_QUESTION if kinds[1:2] != [NodeKind.QUESTION] else Reason.BROKEN_ORDER
        return Drop(fault if kinds[:1] == [NodeKind.SYSTEM] else Reason.SYSTEM_NOT_FIRST, ", ".join(kinds))
    for place, one in enumerate(draft.rounds, start=1):
        text, last = one.node.text, place == len(draft.rounds)
        kinds = [reply.node.kind for reply in one.replies]
        if last and (one.node.answer is None or one.node.calls):
            return Drop(Reason.NO_ANSWER, text[-200:])
        if last and kinds:
            return Drop(Reason.BROKEN_ORDER, f"the answer, then {', '.join(kinds)}")
        if not last and kinds not in _REPLIES:
            return Drop(Reason.BROKEN_ORDER, f"turn {place}, then {', '.join(kinds) or 'a turn'}")
        bare = next((reply.node for reply in one.replies if not is_wrapped(reply.node.text)), None)
        if bare is not None:
            return Drop(Reason.UNWRAPPED_RESPONSE, bare.text[:200])
        found = (check_final if last else check_turn)(text, think_open=draft.begins_inside(one.node), strict=True)
        if Violation.NO_THINK in found or Violation.THINK_EMPTY in found:
            return Drop(Reason.NO_REASONING, "the answer" if last else "a call")
        if found:
            return Drop(Reason.MALFORMED_ANSWER if last else Reason.MALFORMED_TURN, ", ".join(found))
    return None
