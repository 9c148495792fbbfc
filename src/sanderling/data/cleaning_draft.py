"""What every step of cleaning works on: a main branch taken apart into rounds, changed, and put together again.

A turn that goes takes along what was said in reply, so no two replies are ever left in a row. Token ids stay with a message
whose text stays. Messages that nothing touched stay the very same objects, and so does an untouched trajectory.
"""

import json
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property
from itertools import compress, pairwise
from typing import Any, NamedTuple

from sanderling.core.chat import unwrap, wrap_observation
from sanderling.core.grammar import Violation, check_turn
from sanderling.core.parse import ParsedTurn, parse_turn
from sanderling.core.profiles import Profile
from sanderling.core.record import Node, NodeKind, Trajectory

REPLIES = (NodeKind.OBSERVATION, NodeKind.HINT)


class Reason(StrEnum):
    """Why a trajectory is left out."""

    OUTAGE = "outage"  # it ended in an outage or was stopped: not the agent's doing
    EMPTY = "empty"
    UNREADABLE = "unreadable"  # it holds an imported message nobody could classify
    NO_ANSWER = "no_answer"  # it does not end with the agent's own answer, so there is no end to imitate
    SYSTEM_NOT_FIRST = "system_not_first"
    NO_QUESTION = "no_question"
    BROKEN_ORDER = "broken_order"
    UNWRAPPED_RESPONSE = "unwrapped_response"  # without its tags: a chat template would drop all reasoning before it
    MALFORMED_TURN = "malformed_turn"
    MALFORMED_ANSWER = "malformed_answer"
    REPEATED_CALLS = "repeated_calls"
    TOO_FEW_CALLS = "too_few_calls"
    TOOL_ERRORS = "tool_errors"
    ARTEFACTS = "artefacts"  # text that went through a wrong encoding, or a ``\boxed`` answer
    NO_REASONING = "no_reasoning"  # before a call or an answer, where the target's grammar demands it
    FORBIDDEN_TOOL = "forbidden_tool"
    TOO_LONG = "too_long"
    NO_CALL_LEFT = "no_call_left"  # cleaning removed all that it made, or none could be read


class Drop(NamedTuple):
    """A step's word that a trajectory is left out, with what shows it: a piece of text, or a figure."""

    reason: Reason
    detail: str = ""


@dataclass(slots=True)
class Message:
    """A message of the new main branch."""

    node: Node
    was: int | None = None  # the index it had; None: it is new

    def write(self, text: str, **fields: Any) -> None:
        """Give it another text: what was sampled for the old one goes with it. Equal text: only the fields change."""
        if text != self.node.text:
            fields |= {"text": text, "token_ids": None, "loss_mask": None, "logprobs": None, "versions": None}
        changed = {name: value for name, value in fields.items() if getattr(self.node, name) != value}
        if changed:
            self.node = self.node.model_copy(update=changed)


@dataclass(slots=True)
class Round:
    """A turn and what was said in reply."""

    turn: Message
    replies: list[Message]

    @property
    def node(self) -> Node:
        return self.turn.node

    @property
    def observation(self) -> Message | None:
        return next((reply for reply in self.replies if reply.node.kind is NodeKind.OBSERVATION), None)


class Draft:
    """A trajectory's main branch, open for the changes of a step, which counts in ``notes`` whatever it removes or rewrites.

    Example: ``draft = Draft(trajectory, profile); draft.rounds.pop(); draft.notes["turns_removed"] += 1; draft.finish()``
    """

    def __init__(self, trajectory: Trajectory, profile: Profile) -> None:
        self.trajectory, self.profile, self.profile_name = trajectory, profile, trajectory.profile
        self.notes: Counter[str] = Counter()

    @cached_property
    def _path(self) -> list[int]:
        return self.trajectory.path()

    @cached_property
    def _taken_apart(self) -> tuple[list[Message], list[Round]]:
        branch = [Message(self.trajectory.nodes[index], index) for index in self._path]
        turns = [place for place, message in enumerate(branch) if message.node.kind is NodeKind.TURN]
        rounds = [Round(branch[at], branch[at + 1 : end]) for at, end in pairwise([*turns, len(branch)])]
        return branch[: turns[0]] if turns else branch, rounds

    @cached_property
    def head(self) -> list[Message]:
        """What stands before the first turn."""
        return self._taken_apart[0]

    @cached_property
    def rounds(self) -> list[Round]:
        return self._taken_apart[1]

    @property
    def branch(self) -> list[Message]:
        return [*self.head, *(message for one in self.rounds for message in (one.turn, *one.replies))]

    def begins_inside(self, turn: Node) -> bool:
        """Whether its text begins inside the reasoning: it was sampled after a prompt that holds the tag."""
        return turn.token_ids is not None and "<think>" in self.profile.think_prefix

    def read(self, turn: Node) -> ParsedTurn:
        """As the tolerant parser reads it, arguments as they were written."""
        return parse_turn(turn.text, think_open=self.begins_inside(turn))

    def violations(self, turn: Node) -> tuple[Violation, ...]:
        return check_turn(turn.text, think_open=self.begins_inside(turn), strict=True)

    def keep_calls(self, one: Round, chosen: Sequence[bool]) -> bool:
        """Leave the chosen calls only, and their results; False, and nothing changes, where these cannot be told apart."""
        parsed, seen = self.read(one.node), one.observation
        if len(parsed.calls) != len(chosen):
            return False
        turn = canonical(one.node, replace(parsed, calls=tuple(compress(parsed.calls, chosen))))
        blocks = split_blocks(seen.node.text) if seen is not None else []
        if turn is None or (seen is not None and len(blocks) != len(chosen)):
            return False
        one.turn.node = turn
        if seen is not None:
            events = seen.node.events
            events = tuple(compress(events, chosen)) if len(events) == len(chosen) else events
            seen.write(join_blocks(list(compress(blocks, chosen))), events=events)
        return True

    def finish(self) -> Trajectory:
        """The trajectory with this main branch, its messages first; the same object where nothing changed.

        A branch off the main one stays where all that they share is as it was, and is pruned otherwise. Log-probabilities of a
        turn after a change were sampled in another context, and go.
        """
        trajectory, path = self.trajectory, self._path
        if not vars(self).keys() & {"head", "rounds"}:
            return trajectory
        branch = self.branch
        if [one.was for one in branch] == path and all(
            one.node is trajectory.nodes[at] for one, at in zip(branch, path, strict=True)
        ):
            renamed = {"profile": self.profile_name}
            return trajectory if self.profile_name == trajectory.profile else trajectory.model_copy(update=renamed)
        nodes: list[Node] = []
        places: dict[int | None, int] = {}  # old index -> new one, of messages that stand after all that they stood after
        whole, before = True, None
        for message in branch:
            node, was = message.node, None if message.was is None else trajectory.nodes[message.was]
            whole = whole and was is not None and was.parent == before
            if not whole and node.kind is NodeKind.TURN and node.logprobs is not None:
                node = node.model_copy(update={"logprobs": None})
                self.notes["logprobs_dropped"] += 1
            whole = whole and was is not None and (was.text, was.token_ids) == (node.text, node.token_ids)
            nodes.append(_below(node, len(nodes) - 1 if nodes else None))
            before = message.was
            if whole:
                places[before] = len(nodes) - 1
        leaf, last = (len(nodes) - 1, nodes[-1]) if nodes else (None, None)
        for index in sorted(set(range(len(trajectory.nodes))) - set(path)):
            node = trajectory.nodes[index]
            if node.parent is not None and node.parent not in places:
                self.notes["branch_messages_pruned"] += 1
            else:
                nodes.append(_below(node, places.get(node.parent)))
                places[index] = len(nodes) - 1
        answer = last.answer if last is not None and last.kind is NodeKind.TURN else None
        update = {"nodes": tuple(nodes), "leaf": leaf, "answer": answer, "profile": self.profile_name}
        return trajectory.model_copy(update=update)


def _below(node: Node, parent: int | None) -> Node:
    return node if node.parent == parent else node.model_copy(update={"parent": parent})


# The tools' replies of one turn are one message: a block in tags for each call, in the calls' order, as the loop writes them.

_OPEN, _CLOSE = "<tool_response>\n", "\n</tool_response>"
_BETWEEN = f"{_CLOSE}\n{_OPEN}"


def is_wrapped(text: str) -> bool:
    """Whether a response stands in its tags, as the loop writes them."""
    return text.startswith(_OPEN) and text.endswith(_CLOSE) and len(text) >= len(_OPEN) + len(_CLOSE)


def split_blocks(text: str) -> list[str]:
    """The blocks of a wrapped response; one where it holds a single call's result."""
    return unwrap(text).split(_BETWEEN)


def join_blocks(blocks: Sequence[str]) -> str:
    """A response of these blocks."""
    return wrap_observation(_BETWEEN.join(blocks))


# A turn has one canonical text: reasoning, then its calls or its answer. Text between the parts, calls that could not be read
# and earlier answers go to the end of the reasoning. Only what a model wrote after `<tool_response>`, its invention, is cut.

_TAGS = re.compile("</?(?:think|tool_call|answer|tool_response)>")


def strays(parsed: ParsedTurn) -> list[str]:
    """What stood between a turn's parts, without tags."""
    return [text for text in (_TAGS.sub(" ", piece).strip() for piece in parsed.left) if text]


def canonical(node: Node, parsed: ParsedTurn) -> Node | None:
    """The turn in canonical text; None without reasoning of any kind, without a call or an answer, or with both."""
    think = "\n\n".join(piece for piece in (parsed.think, *strays(parsed)) if piece).strip()
    if not think or bool(parsed.calls) == (parsed.answer is not None):
        return None
    written = [json.dumps({"name": one.name, "arguments": one.arguments}, ensure_ascii=False) for one in parsed.calls]
    # A protocol tag within a call's strings is escaped, so that it ends nothing.
    bodies = ["\n" + _TAGS.sub(lambda tag: "\\u003c" + tag[0][1:], body) + "\n" for body in written]
    parts = [f"<think>\n{think}\n</think>", *(f"<tool_call>{body}</tool_call>" for body in bodies)]
    text = "\n\n".join([*parts, *([] if parsed.answer is None else [f"<answer>\n{parsed.answer}\n</answer>"])])
    if not set(check_turn(text, think_open=False, strict=True)) <= {Violation.SEVERAL_CALLS}:
        return None
    calls = tuple(call.model_copy(update={"raw": body}) for call, body in zip(parsed.calls, bodies, strict=True))
    new = Message(node)
    new.write(text, think=think, calls=calls, answer=parsed.answer, problems=())
    return new.node
