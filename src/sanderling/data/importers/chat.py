"""Chat messages to nodes: what the importers of chat layouts share.

Contract: every message is in exactly one node, in order, and either the node's text is the message's content, unchanged, or
the node's ``raw`` is the message (``{"messages": [...]}`` where a node holds several). What cannot be classified becomes a
RAW node that holds the message itself. Two kinds of nodes hold several messages, as the loop's own records do:

- the results of several calls of one turn are *one* OBSERVATION (it has one event for each call it answers, and rows, rewards
  and statistics look for the one observation after a turn), each result in its own ``<tool_response>``;
- reasoning that stands in a message of its own and the turn that follows it are one TURN.

A message that holds results of several calls (``forms.py`` takes it apart) is in one node for each piece.

A result beyond the calls of the turn is an OBSERVATION of its own, with the problem ``observation_without_call``.
Knows no file layout.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from sanderling.core.parse import parse_turn
from sanderling.core.record import Node, NodeKind
from sanderling.core.types import Role, ToolCall
from sanderling.data.importers.forms import Unit, units
from sanderling.data.importers.messages import Said, Speaker, calls_in, understand
from sanderling.data.importers.report import Notes
from sanderling.data.importers.results import WRAPPED, joined_observation, raw_node
from sanderling.data.importers.turns import structured_turn_node, turn_node
from sanderling.data.importers.written import read_written, result_text


def chat_nodes(messages: Sequence[Any], where: str, notes: Notes) -> list[Node]:
    """A chain of nodes for a list of messages. Odd things go into ``notes``."""
    chain = _Chain(where, notes)
    spread = [(index, unit) for index, message in enumerate(messages) for unit in units(message)]
    notes.tally("messages", sum(unit.size for _, unit in spread))
    for number, (index, unit) in enumerate(spread, start=1):
        chain.add(unit, f"{where} message {index}", last=number == len(spread))
    chain.flush()
    return chain.nodes


@dataclass
class _Chain:
    """Nodes so far, and what still waits for the messages after it."""

    where: str
    notes: Notes
    nodes: list[Node] = field(default_factory=list)
    results: list[tuple[Said, str]] = field(default_factory=list)
    """Tool results in a row, and their places."""
    thought: tuple[Said, str] | None = None
    call_ids: tuple[str, ...] = ()
    """Ids of the last turn's calls."""
    asked: bool = False
    structured: bool = False
    """Whether any call came in a field, in a message of its own, or in another system's words."""
    written: bool = False
    """Whether the last turn calls in another system's words: the next message of the user is what the tools returned."""

    def add(self, unit: Unit, place: str, *, last: bool) -> None:
        said = understand(unit.message)
        if isinstance(said, str):
            self.flush()
            self.put(raw_node(unit.original, self.parent, place, self.notes, said), unit.size)
            return
        for code in dict.fromkeys((*unit.oddities, *said.oddities)):
            self.notes.add(code, place, unit.original)
        if unit.translated:
            said = replace(said, message=unit.original, size=unit.size, plain=False)
        said = self.returned(said)
        if said.speaker is Speaker.TOOL or (said.speaker is Speaker.USER and said.text.lstrip().startswith(WRAPPED)):
            self.flush_thought()
            self.results.append((said, place))
            return
        self.flush_results()
        if said.speaker is Speaker.THOUGHT:
            self.flush_thought()
            self.thought = (said, place)
        elif said.speaker in (Speaker.SYSTEM, Speaker.USER):
            self.flush_thought()
            self.plain(said, place)
        else:
            self.turn(self.tagged(said, place) if last else said, place)

    def returned(self, said: Said) -> Said:
        """A user's message as the tools', where it answers a call in other words or tells that the episode is over."""
        waits, self.written = self.written and said.speaker is Speaker.USER, False
        over = bool(self.nodes) and self.nodes[-1].answer is not None and said.speaker is Speaker.USER
        inner = result_text(said.text) if waits or over else None
        if not waits and inner is None:
            return said
        return replace(said, speaker=Speaker.TOOL, text=said.text if inner is None else inner, plain=False)

    @property
    def parent(self) -> int | None:
        return len(self.nodes) - 1 if self.nodes else None

    def put(self, node: Node, messages: int = 1) -> None:
        """Add a node; a turn before it that called and got no answer is told."""
        self.notes.tally("raw" if node.kind is NodeKind.RAW else "kept", messages)
        before = self.nodes[-1] if self.nodes else None
        unanswered = before is not None and before.kind is NodeKind.TURN and before.calls
        if before is not None and unanswered and node.kind is not NodeKind.OBSERVATION:
            self.unanswered(before)
        self.nodes.append(node)

    def unanswered(self, turn: Node) -> None:
        self.notes.add("call_without_response", f"{self.where} node {len(self.nodes) - 1}", turn.calls[0].raw)
        self.nodes[-1] = turn.model_copy(update={"problems": (*turn.problems, "call_without_response")})

    def plain(self, said: Said, place: str) -> None:
        raw = None if said.plain else said.message
        if said.speaker is Speaker.SYSTEM:
            self.put(Node(parent=self.parent, role=Role.SYSTEM, kind=NodeKind.SYSTEM, text=said.text, raw=raw), said.size)
            return
        if self.asked:
            self.notes.add("bare_user_message", place, said.text)
        kind = NodeKind.HINT if self.asked else NodeKind.QUESTION
        self.asked = True
        self.put(Node(parent=self.parent, role=Role.USER, kind=kind, text=said.text, raw=raw), said.size)

    def turn(self, said: Said, place: str) -> None:
        before, self.thought = self.thought, None
        raw = None if said.plain else said.message
        if before is not None:
            raw = {"messages": [before[0].message, said.message]}
            said = replace(said, think="\n\n".join(part for part in (_bare(before[0].text, "think"), said.think) if part))
        calling = said.speaker is Speaker.CALL
        if calling:
            called = _spoken_calls(said)
            said = replace(said, calls=called, text="") if called else replace(said, speaker=Speaker.ASSISTANT)
        said = self.in_other_words(said)
        if calling and not said.calls:
            self.notes.add("odd_tool_calls", place, said.text)
        self.structured = self.structured or bool(said.calls)
        self.call_ids = said.call_ids
        size = said.size + (0 if before is None else before[0].size)
        self.put(_turn(said, self.parent, place, self.notes, raw), size)

    def in_other_words(self, said: Said) -> Said:
        """A turn with the calls, or the answer, that its text spells in another system's words."""
        if said.speaker is not Speaker.ASSISTANT or said.calls or parse_turn(said.text).actionable:
            return said
        found = read_written(said.text)
        if found is None:
            return said
        self.written = bool(found.calls)
        self.structured = True
        think = "\n\n".join(part for part in (said.think, found.think) if part) or None
        speaker = said.speaker if found.answer is None else Speaker.ANSWER
        text = found.said if found.answer is None else found.answer
        return replace(said, speaker=speaker, text=text, think=think, calls=found.calls, plain=False)

    def flush(self) -> None:
        self.flush_results()
        self.flush_thought()

    def flush_thought(self) -> None:
        """Reasoning that no turn followed is a turn without an action."""
        if self.thought is None:
            return
        (said, place), self.thought = self.thought, None
        said = replace(said, think=_bare(said.text, "think"), text="")
        self.put(_turn(said, self.parent, place, self.notes, said.message), said.size)

    def flush_results(self) -> None:
        """Results of one turn's calls become one observation; what is left over, one each."""
        if not self.results:
            return
        waiting, self.results = self.results, []
        before = self.nodes[-1] if self.nodes else None
        calls = before.calls if before is not None and before.kind is NodeKind.TURN else ()
        size = max(1, len(calls))
        first, left = waiting[:size], waiting[size:]
        self.put(joined_observation(first, before, self.call_ids, self.parent, self.notes), _size(first))
        for one in left:
            self.put(joined_observation([one], self.nodes[-1], (), self.parent, self.notes), _size([one]))

    def tagged(self, said: Said, place: str) -> Said:
        """In a structured conversation the last words, where they call nothing and have no tags, are the answer."""
        parsed = parse_turn(said.text)
        answer = said.text.rpartition("</think>")[2].strip()
        if not self.structured or said.speaker is not Speaker.ASSISTANT or said.calls or parsed.actionable or not answer:
            return said
        self.notes.add("answer_without_tags", place, said.text)
        think = parsed.think if "</think>" in said.text else said.think
        return replace(said, speaker=Speaker.ANSWER, text=answer, think=think, plain=False)


def _size(results: Sequence[tuple[Said, str]]) -> int:
    return sum(said.size for said, _ in results)


def _turn(said: Said, parent: int | None, place: str, notes: Notes, raw: dict[str, Any] | None) -> Node:
    """A turn out of text, out of fields, or out of both."""
    tagged = parse_turn(said.text) if said.calls or said.think is not None else None
    if said.speaker is Speaker.ANSWER:
        answer = _bare(said.text, "answer")
        return structured_turn_node(said.think, said.calls, answer, parent, place, notes, raw=raw or said.message)
    if tagged is None:
        return turn_node(said.text, parent, place, notes, raw=raw)
    think = said.think if tagged.think is None else tagged.think
    if tagged.actionable:  # the text has its own tags: it is the turn, and the fields repeat it
        text = said.text if tagged.think is not None or think is None else f"<think>\n{think}\n</think>\n\n{said.text}"
        return turn_node(text, parent, place, notes, raw=raw or said.message)
    rest = said.text.rpartition("</think>")[2] if tagged.think is not None else said.text
    return structured_turn_node(think, said.calls, None, parent, place, notes, raw=raw or said.message, said=rest.strip())


def _spoken_calls(said: Said) -> tuple[ToolCall, ...]:
    """The calls of a message that is nothing but calls: JSON of one or several, or in their tags."""
    return parse_turn(said.text).calls or calls_in(said.text)


def _bare(text: str, tag: str) -> str:
    """Text without the tags that may surround it."""
    inner = text.strip()
    if inner.startswith(f"<{tag}>"):
        inner = inner[len(tag) + 2 :]
    if inner.endswith(f"</{tag}>"):
        inner = inner[: -len(tag) - 3]
    return inner.strip()
