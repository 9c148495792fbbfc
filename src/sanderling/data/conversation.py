"""A conversation's messages as the nodes of a trajectory, how it ended, and what an import counts on the way.

Every message is in exactly one node, in order, and either the node's text is the message's content, unchanged, or the node's
``raw`` is the message (``{"messages": [...]}`` where a node holds several). What cannot be classified becomes a RAW node. As in
the loop's own records, the results of all calls of one turn are *one* OBSERVATION with an event for each call it answers, each
result in its own ``<tool_response>``.
"""

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from sanderling.core.chat import wrap_observation
from sanderling.core.observations import read_observation, tool_role
from sanderling.core.parse import ParseProblem, parse_turn
from sanderling.core.record import Node, NodeKind, Question, ToolEvent, Trajectory, question_id
from sanderling.core.text import visible
from sanderling.core.types import Ending, Role, ToolCall, ToolStatus
from sanderling.data.messages import ChatMessage, Speaker, calls_in, messages_in, read_message, speaker_of
from sanderling.data.questions import ANSWER_KEYS, NAMES, SURE_QUESTION_KEYS, masked_urls, rest

_EXAMPLE_CHARS = 160
_OF_LAYOUT = ("trajectories", "questions", "messages", "kept", "raw")
_COUNTS = ("files", "entries", *_OF_LAYOUT, "unread")


@dataclass
class ImportReport:
    """Counts that grow while files are read; prints itself as rich tables.

    Two sums always hold, so nothing is lost in silence: ``messages == kept + raw``, and
    ``entries == trajectories + questions + unread``.
    """

    files: int = 0  # that held at least one entry in a known layout
    entries: int = 0  # lines, rows or list items met in these files
    unread: int = 0  # of these, what could not be read or is in no known layout
    odd: Counter[str] = field(default_factory=Counter)  # by code; codes ``turn:...`` come from the parser of turns
    examples: dict[str, str] = field(default_factory=dict)  # of each code, where it was first met, and how it looked
    layouts: dict[str, Counter[str]] = field(default_factory=dict)  # counts by layout: ``_OF_LAYOUT``
    layout: str = ""  # whose entry is being read
    left_files: list[tuple[str, str]] = field(default_factory=list)  # files that are no recordings, and why

    def add(self, code: str, where: str, what: object = "", count: int = 1) -> None:
        self.odd[code] += count
        if code not in self.examples:
            shown = " ".join(str(what)[: 8 * _EXAMPLE_CHARS].split())
            shown = shown if len(shown) <= _EXAMPLE_CHARS else shown[: _EXAMPLE_CHARS - 1] + "…"
            self.examples[code] = f"{where}: {shown}" if shown else where

    def tally(self, what: str, count: int = 1) -> None:
        self.layouts.setdefault(self.layout, Counter())[what] += count

    def absorb(self, other: "ImportReport") -> None:
        """Add what was noted elsewhere; of an example the first stays."""
        self.files += other.files
        self.entries += other.entries
        self.unread += other.unread
        self.left_files += other.left_files
        self.odd.update(other.odd)
        self.examples = other.examples | self.examples
        for name, counts in other.layouts.items():
            self.layouts.setdefault(name, Counter()).update(counts)

    def _total(self, what: str) -> int:
        return sum(counts[what] for counts in self.layouts.values())

    trajectories = property(lambda self: self._total("trajectories"))
    questions = property(lambda self: self._total("questions"))
    messages = property(lambda self: self._total("messages"))
    kept = property(lambda self: self._total("kept"))
    raw = property(lambda self: self._total("raw"))

    @property
    def advice(self) -> str:
        """What to do about entries that could not be read, where there is something to do; empty otherwise."""
        told = {
            "damaged_file": "a file is damaged ({example}), of which all that can be read is kept: copy or download it again",
            "not_utf8": "{count:,} lines are not UTF-8 ({example}): convert the file, as with iconv -f latin1 -t utf-8",
            "conversation_unread": "{count:,} entries hold a conversation in a field that no layout knows ({example}): give "
            "sanderling data import --messages FIELD or --layout NAME (questions, where it is none)",
        }
        found = {code: text for code, text in told.items() if self.odd[code]}
        return "; ".join(text.format(count=self.odd[code], example=self.examples[code]) for code, text in found.items())

    def as_json(self) -> dict[str, Any]:
        odd = [{"code": code, "count": self.odd[code], "example": self.examples[code]} for code in sorted(self.odd)]
        met = [(name, counts) for name, counts in sorted(self.layouts.items()) if counts.total()]
        layouts = [{"layout": name} | {what: counts[what] for what in _OF_LAYOUT} for name, counts in met]
        return {what: getattr(self, what) for what in _COUNTS} | {"odd": odd, "layouts": layouts}

    def __rich__(self) -> RenderableType:
        found, counts = self.as_json(), Table("what", "count", title="Import")
        for name in _COUNTS:
            counts.add_row(name, f"{found[name]:,}")
        layouts, odd = Table("layout", *_OF_LAYOUT), Table("odd", "count", "first seen")
        for one in found["layouts"]:
            layouts.add_row(one["layout"], *(f"{one[what]:,}" for what in _OF_LAYOUT))
        for one in found["odd"]:
            odd.add_row(visible(one["code"]), f"{one['count']:,}", Text(visible(one["example"])))
        return Group(counts, *(table for table in (layouts, odd) if table.row_count))


_WRAPPED = "<tool_response>"
_ENDINGS = {said: Ending[name] for said, name in NAMES["endings"].items()}  # what files say in ``termination``


def conversation(
    entry: Mapping[str, Any],
    messages: Sequence[Any] | str,
    id: str,
    notes: ImportReport,
    *,
    question: str | None = None,
    answers: tuple[str, ...] = (),
    held: Iterable[str] = (),
    prompts: Iterable[str] = (),
) -> Trajectory:
    """A trajectory of messages, or of those in the field so named.

    ``question``: what the file calls so; None: its first user message. The question's id is made of its text, so that rollouts
    of one question share it. ``held``: the entry's fields that need not stay in ``meta``. ``prompts``: fields that a system
    prompt may stand in beside the messages.
    """
    kept = set(held)
    if isinstance(messages, str):
        kept.add(messages)
        messages = messages_in(entry, messages) or []
        first = messages[0] if messages else None
        has_one = speaker_of(first) is Speaker.SYSTEM
        key = None if has_one else next((key for key in prompts if isinstance(entry.get(key), str) and entry[key]), None)
        if key is not None:
            kept.add(key)
            messages = [{"role": "system", "content": entry[key]}, *messages]
    chat, spread = _Chat(id, notes), [read_message(message) for message in messages]
    notes.tally("messages", len(spread))
    for index, said in enumerate(spread):
        chat.add(said, f"{id} message {index}", last=index == len(spread) - 1)
    nodes = chat.flush()
    if question is None:
        question = next((node.text for node in nodes if node.kind is NodeKind.QUESTION), "")
    if not question.strip():
        notes.add("no_question", id)
    if not answers:  # an answer that is not text, in whatever form, stays in ``meta``
        kept -= {key for key in ANSWER_KEYS if entry.get(key)}
    return Trajectory(
        id=id,
        question=Question(id=question_id(question), text=question, answers=answers, masked_urls=masked_urls(entry)),
        nodes=tuple(nodes),
        leaf=len(nodes) - 1 if nodes else None,
        ending=_ending_of(entry, nodes, id, notes),
        answer=nodes[-1].answer if nodes and nodes[-1].kind is NodeKind.TURN else None,
        meta=rest(entry, {*kept, *(key for key in SURE_QUESTION_KEYS if entry.get(key) == question)}),
    )


def _ending_of(entry: Mapping[str, Any], nodes: Sequence[Node], where: str, notes: ImportReport) -> Ending | None:
    """The ending that ``termination``, ``finished`` or ``success`` tells; None when none of them does. Never guessed."""
    named = entry.get("termination")
    if named is not None:
        if str(named) not in _ENDINGS:
            notes.add("unknown_termination", where, named)
        return _ENDINGS.get(str(named))
    if not (entry.get("finished") is True or entry.get("success") is True) or not nodes or nodes[-1].answer is None:
        return None  # of a rollout that says that it finished only an answer is beyond doubt
    return Ending.ANSWERED_AT_BUDGET if len(nodes) > 1 and nodes[-2].kind is NodeKind.HINT else Ending.ANSWERED


@dataclass
class _Chat:
    """The nodes of a conversation so far, each hanging off the one before it, and results that wait for those after them."""

    where: str
    notes: ImportReport
    nodes: list[Node] = field(default_factory=list)
    results: list[tuple[ChatMessage, str]] = field(default_factory=list)  # in a row, and their places
    call_ids: tuple[str, ...] = ()  # of the last turn's calls
    asked: bool = False
    structured: bool = False  # whether any call came in a field or in a message of its own

    @property
    def parent(self) -> int | None:
        return len(self.nodes) - 1 if self.nodes else None

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        """The calls of the last node that an observation would answer."""
        return self.nodes[-1].calls if self.nodes and self.nodes[-1].kind is NodeKind.TURN else ()

    def put(self, node: Node, place: str, size: int = 1) -> None:
        """Add a node that stands for ``size`` messages; a turn before it that called and got no answer is flagged."""
        if self.calls and node.kind is not NodeKind.OBSERVATION:
            turn, code = self.nodes[-1], "call_without_response"
            self.notes.add(code, f"{self.where} node {len(self.nodes) - 1}", turn.calls[0].raw)
            self.nodes[-1] = turn.model_copy(update={"problems": (*turn.problems, code)})
        self.notes.tally("raw" if node.kind is NodeKind.RAW else "kept", size)
        note_problems(node, place, self.notes)
        self.nodes.append(node)

    def add(self, said: ChatMessage, place: str, *, last: bool) -> None:
        """Take one message; ``last``: none comes after it."""
        if said.unclear:
            self.flush()
            self.put(_raw_node(self.parent, said.original, said.unclear), place)
            return
        for code in said.oddities:
            self.notes.add(code, place, said.original)
        by_user = said.speaker is Speaker.USER
        if said.speaker is Speaker.TOOL or (by_user and said.text.lstrip().startswith(_WRAPPED)):
            self.results.append((said, place))
            return
        self.flush()
        if said.speaker not in (Speaker.SYSTEM, Speaker.USER):
            self.turn(said, place, last=last)
            return
        role, kind = Role.SYSTEM, NodeKind.SYSTEM
        if by_user:
            role, kind = Role.USER, NodeKind.HINT if self.asked else NodeKind.QUESTION
            if self.asked:
                self.notes.add("bare_user_message", place, said.text)
            self.asked = True
        raw = None if said.plain else said.original
        self.put(Node(parent=self.parent, role=role, kind=kind, text=said.text, raw=raw), place)

    def turn(self, said: ChatMessage, place: str, *, last: bool) -> None:
        raw = None if said.plain else said.original
        if said.speaker is Speaker.CALL:  # nothing but calls: JSON of one or several, or in their tags
            calls = parse_turn(said.text).calls or calls_in(said.text)
            if not calls:
                self.notes.add("odd_tool_calls", place, said.text)
            said = replace(said, calls=calls, text="" if calls else said.text, speaker=Speaker.ASSISTANT)
        elif last and self.structured and said.speaker is Speaker.ASSISTANT and not said.calls:
            parsed, answer = parse_turn(said.text), said.text.rpartition("</think>")[2].strip()
            if answer and not parsed.actionable:
                # The last words of a structured conversation, where they call nothing and have no tags, are the answer.
                self.notes.add("answer_without_tags", place, said.text)
                think = parsed.think if "</think>" in said.text else said.think
                said = replace(said, speaker=Speaker.ANSWER, text=answer, think=think)
        self.structured = self.structured or bool(said.calls)
        self.call_ids = said.call_ids
        self.put(_turn(self.parent, said, raw), place)

    def flush(self) -> list[Node]:
        """Put the results that wait, those of one turn's calls as one observation; returns all nodes."""
        waiting, self.results = self.results, []
        size, ids = max(1, len(self.calls)), self.call_ids
        for some in [waiting[:size], *([one] for one in waiting[size:])] if waiting else []:
            self.put(self.joined(some, ids), some[0][1], len(some))
            ids = ()
        return self.nodes

    def joined(self, results: Sequence[tuple[ChatMessage, str]], ids: tuple[str, ...]) -> Node:
        """One observation for results in a row; ``ids``: those of the calls of the turn before it.

        A result answers the call with its id, and otherwise the first that no other answers. Results and events stand in the
        order of the calls, as in our own records: cleaning takes the first for the first's.
        """
        calls, place = self.calls, results[0][1]
        by_tool = results[0][0].speaker is Speaker.TOOL and bool(calls)
        answered = list(range(len(results)))
        if by_tool:
            free = list(range(max(len(calls), len(results))))
            named: list[int | None] = []
            for said, where in results:
                wanted = said.call_ids[0] if said.call_ids else ""
                at = next((at for at in free if wanted and at < len(ids) and ids[at] == wanted), None)
                if at is not None:
                    free.remove(at)
                elif wanted and any(ids):
                    self.notes.add("unknown_call_id", where, wanted)
                named.append(at)
            answered = [free.pop(0) if at is None else at for at in named]
            if len(results) < len(calls):
                self.notes.add("results_missing", place, f"{len(results)} of {len(calls)}")
        if answered != sorted(answered):
            self.notes.add("results_reordered", place, answered)
        ordered = [results[k][0] for k in sorted(range(len(results)), key=answered.__getitem__)]
        texts = [said.text if said.text.strip().startswith(_WRAPPED) else wrap_observation(said.text) for said in ordered]
        kept = [said.original for said, _ in results]
        raw = None if len(results) == 1 and results[0][0].plain else kept[0] if len(kept) == 1 else {"messages": kept}
        return _observation(self.parent, "\n".join(texts), calls, raw, sorted(answered) if by_tool else None)


def note_problems(node: Node, place: str, notes: ImportReport) -> None:
    """Count what is odd about a node."""
    shown: Any = (node.raw or {}).get("message", node.raw)
    if node.kind in (NodeKind.TURN, NodeKind.OBSERVATION):
        shown = node.text[-200:] if node.kind is NodeKind.TURN else node.text[:200]
    for problem in node.problems:
        notes.add(f"turn:{problem}" if node.kind is NodeKind.TURN else problem, place, shown)


def _turn(parent: int | None, said: ChatMessage, raw: dict[str, Any] | None) -> Node:
    if said.speaker is Speaker.ANSWER:
        return structured_turn(parent, said.think, said.calls, said.text, raw or said.original)
    text, parsed = said.text, parse_turn(said.text)
    if said.calls or said.think is not None:
        raw = raw or said.original
        think = said.think if parsed.think is None else parsed.think
        if not parsed.actionable:
            beside = (text.rpartition("</think>")[2] if parsed.think is not None else text).strip()
            return structured_turn(parent, think, said.calls, None, raw, beside)
        if parsed.think is None:  # the text has its own tags: it is the turn, and the fields repeat it
            text = text if think is None else f"<think>\n{think}\n</think>\n\n{text}"
            parsed = parse_turn(text)
    read: dict[str, Any] = {"think": parsed.think, "calls": parsed.calls, "answer": parsed.answer, "raw": raw}
    problems = tuple(problem.value for problem in parsed.problems)
    return Node(parent=parent, role=Role.ASSISTANT, kind=NodeKind.TURN, text=text, problems=problems, **read)


def structured_turn(
    parent: int | None,
    think: str | None,
    calls: tuple[ToolCall, ...],
    answer: str | None,
    raw: dict[str, Any] | None,
    beside: str = "",
) -> Node:
    """A turn whose parts are known: its text is rebuilt, and its fields are the parts.

    Where the parser reads something else in the text (an argument or a thought may hold tags), the parts are kept, and the node
    says ``rebuilt_differs``.
    """
    parts = [] if think is None else [f"<think>\n{think}\n</think>"]
    parts += [beside] if beside.strip() else []
    parts += [f"<tool_call>{call.raw}</tool_call>" for call in calls]
    parts += [] if answer is None else [f"<answer>\n{answer}\n</answer>"]
    text, answer = "\n\n".join(parts), (answer or "").strip() or None
    parsed = parse_turn(text)
    # A structured turn without reasoning is no accident of its writer.
    problems = [p.value for p in parsed.problems if think is not None or p is not ParseProblem.MISSING_THINK]
    meant = [(call.name, call.arguments) for call in calls]
    if [(call.name, call.arguments) for call in parsed.calls] != meant or parsed.answer != answer:
        problems.append("rebuilt_differs")
    said: dict[str, Any] = {"think": think, "calls": calls, "answer": answer, "problems": tuple(problems), "raw": raw}
    return Node(parent=parent, role=Role.ASSISTANT, kind=NodeKind.TURN, text=text, **said)


def _observation(
    parent: int | None,
    text: str,
    calls: tuple[ToolCall, ...],
    raw: dict[str, Any] | None = None,
    answered: Sequence[int] | None = None,
) -> Node:
    """What the tools returned, with one event for each call of the turn before it that has a result.

    ``answered``: the calls that the results in the text answer; None: as many as there are statuses, or all alike.
    """
    reading = read_observation(text)
    problems = (*dict.fromkeys(reading.problems), *(() if calls else ("observation_without_call",)))
    if answered is not None:
        told = zip(answered, reading.parts or (reading.status,), strict=False)
        pairs = [(calls[at], status) for at, status in told if at < len(calls)]
    else:
        parts = reading.parts if len(reading.parts) == len(calls) else (reading.status,) * len(calls)
        pairs = list(zip(calls, parts, strict=True))
    events: list[ToolEvent] = []
    for call, status in pairs:
        role = tool_role(call.name)
        if status is ToolStatus.EMPTY and not role and "odd_block" in reading.problems:
            status = ToolStatus.OK  # what looks like search results and holds none says nothing of a tool that is no search
        events.append(ToolEvent(name=call.name, role=role, status=status))
    seen: dict[str, Any] = {"problems": problems, "events": tuple(events), "raw": raw}
    return Node(parent=parent, role=Role.USER, kind=NodeKind.OBSERVATION, text=text, **seen)


def _raw_node(parent: int | None, message: Any, code: str) -> Node:
    """A message that cannot be classified, kept as it was; ``code`` says why."""
    raw = message if isinstance(message, dict) else {"message": message}
    role, content = raw.get("role"), raw.get("content")
    return Node(
        parent=parent,
        role=Role(role) if isinstance(role, str) and role in list(Role) else Role.USER,
        kind=NodeKind.RAW,
        text=content if isinstance(content, str) else json.dumps(message, ensure_ascii=False),
        problems=(code,),
        raw=raw,
    )
