r"""Steps that keep a trajectory as it is or drop it whole: limits, bans, and the last word on what the protocol demands.

LiteResearcher's filters (arXiv 2604.17931, whose numbers are the defaults here) are `forbidden`, `repeat_limit`, `min_calls`,
`tool_errors`, `artefacts` and `reasoning`.
"""

import re
from collections import Counter

from pydantic import NonNegativeInt, PositiveInt

from sanderling.core.grammar import Violation, check_final, check_turn
from sanderling.core.record import NodeKind
from sanderling.data.cleaning.calls import failed_calls, signature
from sanderling.data.cleaning.draft import Draft, Drop, Reason, is_wrapped


def keep_whole(draft: Draft) -> Drop | None:
    """Keep what may be imitated at all: whole, answered, and no outage. Whether an answer is right is a judge's business."""
    trajectory = draft.trajectory
    kinds = {message.node.kind for message in draft.branch}
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
    made = Counter(signature(call, draft.profile.tools, with_goal=with_goal) for call in calls).most_common(1)
    if not made or made[0][1] <= most:
        return None
    return Drop(Reason.REPEATED_CALLS, f"{made[0][1]} times {made[0][0][:200]}")


def limit_errors(draft: Draft, *, most: NonNegativeInt = 2) -> Drop | None:
    """Drop a trajectory of which more than ``most`` calls failed."""
    failed = sum(sum(failed_calls(one)) for one in draft.rounds)
    return Drop(Reason.TOOL_ERRORS, f"{failed} failed calls") if failed > most else None


def demand_reasoning(draft: Draft, *, least_characters: PositiveInt = 1) -> Drop | None:
    """Drop a trajectory that calls a tool without having thought."""
    for place, one in enumerate(draft.rounds, start=1):
        think = (draft.read(one.node).think or "") if one.node.calls else None
        if think is not None and len(think.strip()) < least_characters:
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
_SUSPECTS = re.compile(
    "[\u00c2-\u00f4][\u0080-\u00bf\u0152\u0153\u0160\u0161\u0178\u017d\u017e\u0192\u02c6\u02dc\u2013\u2014\u2018-\u201a"
    "\u201c-\u201e\u2020-\u2022\u2026\u2030\u2039\u203a\u20ac\u2122]{1,3}"
)
"""The first byte of a character in UTF-8, and what the bytes 80 to BF are in Latin-1 and in Windows-1252."""


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
        found = (check_final if last else check_turn)(text, think_open=draft.begins_inside(one.node))
        if Violation.NO_THINK in found or Violation.THINK_EMPTY in found:
            return Drop(Reason.NO_REASONING, "the answer" if last else "a call")
        if found:
            return Drop(Reason.MALFORMED_ANSWER if last else Reason.MALFORMED_TURN, ", ".join(found))
    return None
