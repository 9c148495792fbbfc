r"""Steps that keep a trajectory as it is or drop it whole: limits, bans, and the last word on what the protocol demands.

LiteResearcher's filters (arXiv 2604.17931, whose numbers are the defaults here) are `forbidden`, `repeat_limit`, `min_calls`,
`tool_errors`, `artefacts` and `reasoning`.
"""

import re
from collections import Counter

from pydantic import Field

from sanderling.core.config import Frozen
from sanderling.core.grammar import Violation, check_final, check_turn
from sanderling.core.record import Node, NodeKind
from sanderling.data.cleaning.calls import failed_calls, signature
from sanderling.data.cleaning.draft import Draft, Drop, Reason, Round, begins_inside, is_wrapped, read_turn


def keep_whole(draft: Draft, settings: None) -> Drop | None:
    """Keep what may be imitated at all: whole, answered, and no outage. Whether an answer is right is a judge's business."""
    trajectory = draft.trajectory
    kinds = {node.kind for _, node in draft.branch}
    detail = trajectory.ending.value if trajectory.ending else "ending not recorded"
    if trajectory.ending is not None and not trajectory.ending.scored:
        return Drop(Reason.OUTAGE, detail)
    if NodeKind.TURN not in kinds:
        return Drop(Reason.EMPTY, detail)
    if NodeKind.RAW in kinds:
        return Drop(Reason.UNREADABLE, detail)
    return Drop(Reason.NO_ANSWER, detail) if trajectory.answer is None else None


class ForbiddenSettings(Frozen):
    """Whose use drops a trajectory."""

    tools: tuple[str, ...] = ("PythonInterpreter",)
    """Names, in any case."""


def forbid_tools(draft: Draft, settings: ForbiddenSettings) -> Drop | None:
    """Drop a trajectory that calls a forbidden tool: its reasoning rests on what that said."""
    forbidden = {name.casefold() for name in settings.tools}
    used = sorted({call.name for one in draft.rounds for call in one.node.calls if call.name.casefold() in forbidden})
    return Drop(Reason.FORBIDDEN_TOOL, ", ".join(used)) if used else None


class MinCallsSettings(Frozen):
    """How many calls a trajectory needs."""

    least: int = Field(default=2, ge=0)


def demand_calls(draft: Draft, settings: MinCallsSettings) -> Drop | None:
    """Drop a guess: a trajectory that makes fewer calls than ``least``."""
    made = sum(len(one.node.calls) for one in draft.rounds)
    return Drop(Reason.TOO_FEW_CALLS, f"{made} calls") if made < settings.least else None


class RepeatLimitSettings(Frozen):
    """How often is too often."""

    most: int = Field(default=3, ge=1)
    with_goal: bool = True
    """A page read for another goal is another call."""


def limit_repeats(draft: Draft, settings: RepeatLimitSettings) -> Drop | None:
    """Drop a trajectory that goes in circles: one that makes one call more than ``most`` times."""
    tools = draft.profile.tools
    made = Counter(
        signature(call, tools, with_goal=settings.with_goal) for one in draft.rounds for call in one.node.calls
    ).most_common(1)
    if not made or made[0][1] <= settings.most:
        return None
    return Drop(Reason.REPEATED_CALLS, f"{made[0][1]} times {made[0][0][:200]}")


class ToolErrorsSettings(Frozen):
    """How many failures are borne."""

    most: int = Field(default=2, ge=0)


def limit_errors(draft: Draft, settings: ToolErrorsSettings) -> Drop | None:
    """Drop a trajectory of which more than ``most`` calls failed."""
    failed = sum(sum(failed_calls(one)) for one in draft.rounds)
    return Drop(Reason.TOOL_ERRORS, f"{failed} failed calls") if failed > settings.most else None


class ReasoningSettings(Frozen):
    """What counts as thinking."""

    least_characters: int = Field(default=1, ge=1)


def demand_reasoning(draft: Draft, settings: ReasoningSettings) -> Drop | None:
    """Drop a trajectory that calls a tool without having thought."""
    for place, one in enumerate(draft.rounds, start=1):
        think = (read_turn(one.node, draft.profile).think or "") if one.node.calls else None
        if think is not None and len(think.strip()) < settings.least_characters:
            return Drop(Reason.NO_REASONING, f"turn {place}")
    return None


class LengthSettings(Frozen):
    """The limits; 0: none."""

    most_turns: int = Field(default=0, ge=0)
    most_characters: int = Field(default=0, ge=0)


def limit_length(draft: Draft, settings: LengthSettings) -> Drop | None:
    """Drop what is too long to be learnt from whole. Characters count, since a recipe has no tokenizer; `data rows` has."""
    turns, characters = len(draft.rounds), sum(len(node.text) for _, node in draft.branch)
    if settings.most_turns and turns > settings.most_turns:
        return Drop(Reason.TOO_LONG, f"{turns} turns")
    if settings.most_characters and characters > settings.most_characters:
        return Drop(Reason.TOO_LONG, f"{characters} characters")
    return None


class ArtefactsSettings(Frozen):
    """What is borne."""

    most: int = Field(default=0, ge=0)
    boxed: bool = False


def limit_artefacts(draft: Draft, settings: ArtefactsSettings) -> Drop | None:
    r"""Drop a trajectory whose agent wrote garbled text, or ``\boxed``, the form of answers of mathematics.

    The paper names encoding artefacts and does not say what they are. Here they are, in the agent's own turns and nowhere else
    (pages may hold anything): U+FFFD, which stands for bytes that were no text, and lone surrogates; control characters other
    than tab, line feed and carriage return; UTF-8 read as Latin-1 or Windows-1252 (``Ã©`` for é, ``â€™`` for an apostrophe);
    and two or more ``\u`` escapes in a row outside of tool calls, which are characters left in JSON.
    """
    found: list[str] = []
    for one in draft.rounds:
        if not settings.boxed and _BOXED.search(one.node.text):
            return Drop(Reason.ARTEFACTS, "\\boxed")
        found += _artefacts(one.node)
    return Drop(Reason.ARTEFACTS, " ".join(map(repr, found[:5]))) if len(found) > settings.most else None


_BOXED = re.compile(r"\\boxed\s*\{")
_BROKEN = re.compile("[\ufffd\ud800-\udfff\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")
_ESCAPES = re.compile(r"(?:\\u[0-9a-fA-F]{4}){2,}")
_CALLS = re.compile("<tool_call>.*?</tool_call>", re.S)
_SUSPECTS = re.compile(
    "[\u00c2-\u00f4][\u0080-\u00bf\u0152\u0153\u0160\u0161\u0178\u017d\u017e\u0192\u02c6\u02dc\u2013\u2014\u2018-\u201a"
    "\u201c-\u201e\u2020-\u2022\u2026\u2030\u2039\u203a\u20ac\u2122]{1,3}"
)
"""The first byte of a character in UTF-8, and what the bytes 80 to BF are in Latin-1 and in Windows-1252."""


def _artefacts(turn: Node) -> list[str]:
    found = _BROKEN.findall(turn.text)
    if not turn.text.isascii():
        found += [run for run in _SUSPECTS.findall(turn.text) if _is_misread(run)]
    if "\\u" in turn.text:
        found += _ESCAPES.findall(_CALLS.sub("", turn.text))
    return found


def _is_misread(text: str) -> bool:
    """Whether a run begins with a character's UTF-8 bytes, each read as a character of its own."""
    data = b"".join(char.encode("cp1252", "ignore") or (bytes([ord(char)]) if ord(char) < 256 else b"?") for char in text)
    return any(data[:size].decode("utf-8", "ignore").encode() == data[:size] for size in range(2, len(data) + 1))


_REPLIES = ((NodeKind.OBSERVATION,), (NodeKind.OBSERVATION, NodeKind.HINT), (NodeKind.HINT,))


def validate(draft: Draft, settings: None) -> Drop | None:
    """Drop what is not exactly what the protocol demands, for the first fault.

    System prompt first, then the question; turns and responses alternate, every response in its tags; every turn keeps to the
    strict grammar (`core.grammar`); the last one answers.
    """
    ending = draft.trajectory.ending
    kinds = [node.kind for _, node in draft.head]
    raw = next((node for _, node in draft.branch if node.kind is NodeKind.RAW), None)
    if ending is not None and not ending.scored:
        return Drop(Reason.OUTAGE, ending.value)
    if raw is not None:
        return Drop(Reason.UNREADABLE, raw.text[:200])
    if not draft.rounds:
        return Drop(Reason.EMPTY)
    if kinds[:1] != [NodeKind.SYSTEM]:
        return Drop(Reason.SYSTEM_NOT_FIRST, ", ".join(kinds))
    if kinds[1:2] != [NodeKind.QUESTION]:
        return Drop(Reason.NO_QUESTION, ", ".join(kinds))
    if len(kinds) > 2:
        return Drop(Reason.BROKEN_ORDER, ", ".join(kinds))
    faults = (_fault(draft, one, place) for place, one in enumerate(draft.rounds, start=1))
    return next((fault for fault in faults if fault is not None), None)


def _fault(draft: Draft, one: Round, place: int) -> Drop | None:
    """What is wrong with a round, the last of which has to be the answer."""
    text, last = one.node.text, place == len(draft.rounds)
    kinds = tuple(node.kind for _, node in one.replies)
    if last and (one.node.answer is None or one.node.calls):
        return Drop(Reason.NO_ANSWER, text[-200:])
    if last and kinds:
        return Drop(Reason.BROKEN_ORDER, f"the answer, then {', '.join(kinds)}")
    if not last and kinds not in _REPLIES:
        return Drop(Reason.BROKEN_ORDER, f"turn {place}, then {', '.join(kinds) or 'a turn'}")
    bare = next((node for _, node in one.replies if not is_wrapped(node.text)), None)
    if bare is not None:
        return Drop(Reason.UNWRAPPED_RESPONSE, bare.text[:200])
    found = (check_final if last else check_turn)(text, think_open=begins_inside(one.node, draft.profile))
    if Violation.NO_THINK in found or Violation.THINK_EMPTY in found:
        return Drop(Reason.NO_REASONING, "the answer" if last else "a call")
    return Drop(Reason.MALFORMED_ANSWER if last else Reason.MALFORMED_TURN, ", ".join(found)) if found else None
