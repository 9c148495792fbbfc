"""What every step of cleaning works on: a main branch taken apart into rounds, changed, and put together again.

A round is a turn with what was said in reply, so a round that goes takes its replies along and no two replies are ever left in
a row. Token ids stay with a message whose text stays. Whatever a step removes or rewrites it notes; a step that drops the whole
trajectory returns a `Drop`. Messages that nothing touched stay the very same objects, and so does an untouched trajectory.
"""

import datetime
import json
import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import compress, pairwise
from typing import Any, NamedTuple

from sanderling.core.chat import strip_think_prefix, wrap_observation
from sanderling.core.grammar import Violation, check_turn
from sanderling.core.observations import unwrap
from sanderling.core.parse import ParsedTurn, ParseProblem, parse_turn
from sanderling.core.profiles import Profile
from sanderling.core.prompts import default_specs, render_system
from sanderling.core.record import Node, NodeKind, Trajectory
from sanderling.core.types import FixedClock, ToolCall


class Reason(StrEnum):
    """Why a trajectory is left out."""

    OUTAGE = "outage"
    """It ended in an outage or was stopped: not the agent's doing."""
    EMPTY = "empty"
    UNREADABLE = "unreadable"
    """It holds an imported message nobody could classify."""
    NO_ANSWER = "no_answer"
    """It does not end with the agent's own answer, so there is no end to imitate."""
    SYSTEM_NOT_FIRST = "system_not_first"
    NO_QUESTION = "no_question"
    BROKEN_ORDER = "broken_order"
    UNWRAPPED_RESPONSE = "unwrapped_response"
    """A response stands without its tags: a chat template would drop all reasoning before it."""
    MALFORMED_TURN = "malformed_turn"
    MALFORMED_ANSWER = "malformed_answer"
    REPEATED_CALLS = "repeated_calls"
    TOO_FEW_CALLS = "too_few_calls"
    TOOL_ERRORS = "tool_errors"
    ARTEFACTS = "artefacts"
    """Text that went through a wrong encoding, or a ``\\boxed`` answer."""
    NO_REASONING = "no_reasoning"
    """A call or an answer without reasoning before it, which the target's grammar demands."""
    FORBIDDEN_TOOL = "forbidden_tool"
    TOO_LONG = "too_long"


class Drop(NamedTuple):
    """A step's word that a trajectory is left out."""

    reason: Reason
    detail: str = ""
    """What shows the reason: a piece of text, or a figure."""


@dataclass(frozen=True, slots=True)
class Note:
    """Something a step removed or rewrote within one trajectory."""

    code: str
    number: int = 1
    before: str = ""
    """For an example in the report: text as it was, and what became of it."""
    after: str = ""


Kept = tuple[int | None, Node]
"""A message of the new main branch, and the index it had; None: it is new."""


@dataclass(frozen=True, slots=True)
class Round:
    """A turn and what was said in reply."""

    turn: Kept
    replies: tuple[Kept, ...] = ()

    @property
    def node(self) -> Node:
        return self.turn[1]

    @property
    def observation(self) -> Kept | None:
        """What the tools returned; None where nothing is recorded."""
        return next((kept for kept in self.replies if kept[1].kind is NodeKind.OBSERVATION), None)

    def with_observation(self, new: Kept) -> "Round":
        own = self.observation
        return replace(self, replies=tuple(new if kept is own else kept for kept in self.replies))


class Draft:
    """A trajectory's main branch, open for the changes of one step.

    Example: ``draft = Draft(trajectory, profile); draft.rounds.pop(); draft.note("turns_removed"); draft.finish()``
    """

    def __init__(self, trajectory: Trajectory, profile: Profile) -> None:
        self.trajectory = trajectory
        self.profile = profile
        """Whose protocol the trajectory is brought into."""
        self.profile_name = trajectory.profile
        self.notes: list[Note] = []
        self._path = trajectory.path()
        branch: list[Kept] = [(index, trajectory.nodes[index]) for index in self._path]
        turns = [place for place, (_, node) in enumerate(branch) if node.kind is NodeKind.TURN]
        self.head = branch[: turns[0]] if turns else branch
        """What stands before the first turn."""
        self.rounds = [Round(branch[at], tuple(branch[at + 1 : end])) for at, end in pairwise([*turns, len(branch)])]

    def note(self, code: str, number: int = 1, before: str = "", after: str = "") -> None:
        self.notes.append(Note(code, number, before, after))

    @property
    def branch(self) -> list[Kept]:
        return [*self.head, *(kept for one in self.rounds for kept in (one.turn, *one.replies))]

    def finish(self) -> Trajectory:
        """The trajectory with this main branch, its messages first; the same object where nothing changed.

        A branch off the main one is what a model once saw: it stays where everything it shares with the main branch is as it
        was, and is pruned otherwise. Log-probabilities of a turn after a change were sampled in another context, and go.
        """
        trajectory, branch, path = self.trajectory, self.branch, self._path
        old = [trajectory.nodes[index] for index in path]
        if [index for index, _ in branch] == path and all(a is b for a, (_, b) in zip(old, branch, strict=True)):
            renamed = {"profile": self.profile_name}
            return trajectory if self.profile_name == trajectory.profile else trajectory.model_copy(update=renamed)
        nodes: list[Node] = []
        places: dict[int, int] = {}  # old index -> new index, of the messages that are left
        intact: set[int] = set()  # old indices of messages that stand where they stood, after what they stood after
        whole, before, unsampled, pruned = True, None, 0, 0
        for index, node in branch:
            was = None if index is None else trajectory.nodes[index]
            whole = whole and was is not None and was.parent == before
            if not whole and node.kind is NodeKind.TURN and node.logprobs is not None:
                node, unsampled = node.model_copy(update={"logprobs": None}), unsampled + 1
            whole = whole and was is not None and (was.text, was.token_ids) == (node.text, node.token_ids)
            nodes.append(_below(node, len(nodes) - 1 if nodes else None))
            if index is not None:
                places[index], before = len(nodes) - 1, index
                if whole:
                    intact.add(index)
        leaf, main = len(nodes) - 1 if nodes else None, set(path)
        for index, node in enumerate(trajectory.nodes):
            if index in main:
                continue
            if node.parent is not None and node.parent not in intact:
                pruned += 1
                continue
            nodes.append(_below(node, None if node.parent is None else places[node.parent]))
            places[index] = len(nodes) - 1
            intact.add(index)
        if pruned:
            self.note("branch_messages_pruned", pruned)
        if unsampled:
            self.note("logprobs_dropped", unsampled)
        last = nodes[leaf] if leaf is not None else None
        answer = last.answer if last is not None and last.kind is NodeKind.TURN else None
        update = {"nodes": tuple(nodes), "leaf": leaf, "answer": answer, "profile": self.profile_name}
        return trajectory.model_copy(update=update)


def _below(node: Node, parent: int | None) -> Node:
    return node if node.parent == parent else node.model_copy(update={"parent": parent})


def with_text(node: Node, text: str, **fields: Any) -> Node:
    """The node with another text: what was sampled for the old one goes with it. Equal text: only the fields change."""
    if text != node.text:
        fields |= {"text": text, "token_ids": None, "loss_mask": None, "logprobs": None, "versions": None}
    changed = {name: value for name, value in fields.items() if getattr(node, name) != value}
    return node.model_copy(update=changed) if changed else node


# The opening.

_DATE = re.compile(r"date[^\n]{0,24}?\b(\d{4}-\d{2}-\d{2})\b", re.I)


def system_prompt(profile: Profile, recorded: str, otherwise: datetime.date) -> str:
    """The profile's system prompt with the date that a recorded one names, or else another."""
    day = otherwise
    for found in _DATE.findall(recorded):
        with suppress(ValueError):  # such as the 31st of June
            day = datetime.date.fromisoformat(found)
    return render_system(profile, default_specs(profile), FixedClock(day))


# The tools' replies of one turn are one message: a block in tags for each call, in the calls' order, as the loop writes them
# and Qwen3's template does. Blocks are told apart only where there are as many as calls.

_BETWEEN = "\n</tool_response>\n<tool_response>\n"
_OPEN, _CLOSE = "<tool_response>\n", "\n</tool_response>"


def is_wrapped(text: str) -> bool:
    """Whether a response stands in its tags, as the loop writes them."""
    return text.startswith(_OPEN) and text.endswith(_CLOSE) and len(text) >= len(_OPEN) + len(_CLOSE)


def split_blocks(text: str) -> list[str]:
    """The blocks of a wrapped response; one where it holds a single call's result."""
    return unwrap(text).split(_BETWEEN)


def join_blocks(blocks: Sequence[str]) -> str:
    """A response of these blocks."""
    return wrap_observation(_BETWEEN.join(blocks))


# A turn has one canonical text: reasoning, then its calls or its answer. Nothing that was said is lost: text between the parts,
# calls that could not be read and earlier answers go to the end of the reasoning. Only what a model wrote after
# `<tool_response>`, an invented response, is cut. A turn that cannot be written so that it reads back the same has none.

_TAGS = re.compile("</?(?:think|tool_call|answer|tool_response)>")


def begins_inside(node: Node, profile: Profile) -> bool:
    """Whether a turn's text begins inside the reasoning: it was sampled after a prompt that holds the tag."""
    return node.token_ids is not None and "<think>" in profile.think_prefix


def read_turn(node: Node, profile: Profile) -> ParsedTurn:
    """A turn as the tolerant parser reads it, arguments as they were written."""
    return parse_turn(node.text, think_open=begins_inside(node, profile))


def violations(node: Node, profile: Profile) -> tuple[Violation, ...]:
    """How a turn breaks the strict grammar; empty: well formed."""
    return check_turn(node.text, think_open=begins_inside(node, profile))


def written_out(node: Node, profile: Profile) -> str:
    """A turn's text with the reasoning tag that its prompt held."""
    if not begins_inside(node, profile):
        return node.text
    return profile.think_prefix + strip_think_prefix(node.text, profile.think_prefix)


def call_body(call: ToolCall) -> str:
    """A call as JSON on one line; a protocol tag within its strings is escaped, so that it ends nothing."""
    body = json.dumps({"name": call.name, "arguments": call.arguments}, ensure_ascii=False)
    return _TAGS.sub(lambda tag: "\\u003c" + tag[0][1:], body)


class Rewritten(NamedTuple):
    """A canonical turn."""

    node: Node
    into_reasoning: tuple[str, ...]
    """What stood between the parts."""
    cut: str
    """The invented response that was cut off."""


def canonical(node: Node, parsed: ParsedTurn) -> Rewritten | None:
    """The turn in canonical text, without its ids where that changes it; None where it has no canonical form.

    That is so for a turn without reasoning of any kind, without a call or an answer, or with both.
    """
    left = tuple(text for text in (_TAGS.sub(" ", piece).strip() for piece in parsed.left) if text)
    think = "\n\n".join(piece for piece in (parsed.think, *left) if piece).strip()
    if not think or bool(parsed.calls) == (parsed.answer is not None):
        return None
    bodies = [f"\n{call_body(call)}\n" for call in parsed.calls]
    parts = [f"<think>\n{think}\n</think>", *(f"<tool_call>{body}</tool_call>" for body in bodies)]
    text = "\n\n".join([*parts, *([] if parsed.answer is None else [f"<answer>\n{parsed.answer}\n</answer>"])])
    if not set(check_turn(text, think_open=False)) <= {Violation.SEVERAL_CALLS}:
        return None
    calls = tuple(call.model_copy(update={"raw": body}) for call, body in zip(parsed.calls, bodies, strict=True))
    new = with_text(node, text, think=think, calls=calls, answer=parsed.answer, problems=())
    cut = node.text[node.text.find("<tool_response>") :] if ParseProblem.CUT_AT_RESPONSE in parsed.problems else ""
    return Rewritten(new, left, cut)


def with_calls(node: Node, parsed: ParsedTurn, calls: tuple[ToolCall, ...]) -> Node | None:
    """The turn making these calls instead of its own; None where it has no canonical form."""
    found = canonical(node, replace(parsed, calls=calls))
    return None if found is None else found.node


def keep_calls(one: Round, chosen: Sequence[bool], profile: Profile) -> Round | None:
    """The round with the chosen calls only, and their results; None where these cannot be told apart."""
    index, node = one.turn
    parsed = read_turn(node, profile)
    if len(parsed.calls) != len(chosen):
        return None
    turn = with_calls(node, parsed, tuple(compress(parsed.calls, chosen)))
    if turn is None:
        return None
    fewer = replace(one, turn=(index, turn))
    if one.observation is None:
        return fewer
    place, seen = one.observation
    blocks = split_blocks(seen.text)
    if len(blocks) != len(chosen):
        return None
    events = tuple(compress(seen.events, chosen)) if len(seen.events) == len(chosen) else seen.events
    return fewer.with_observation((place, with_text(seen, join_blocks(list(compress(blocks, chosen))), events=events)))
