"""The tolerant parser: what a turn means, however untidily it is written.

Reads a turn's text and never edits it: the context stays exactly as it was sampled, and what was odd is told in codes. Never
raises for any text; time is linear in its length. It does not know which tools exist (an unknown name is kept as written)
and it does not judge: the strict check that reward uses is ``grammar.py``.

Rules, in order:

1. Text from the first ``<tool_response>`` on is cut: the model was inventing the observation (the systems stop there too).
2. Reasoning ends at the first ``</think>`` after it opened. A tag within reasoning is a mention, not an action. If reasoning
   never ends, readable calls in it are taken, flagged, provided that there are none outside; an answer in it never is.
3. A call's body is a JSON value, read from its first brace, so tags within its strings do no harm; then JSON5; a ``<code>``
   block after it becomes the argument ``code``. A missing close tag ends the body at the next opening tag or the text's end.
4. The answer is the last answer outside reasoning.
"""

import re
from collections.abc import Collection
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from sanderling.core.lenient import decode_json, decode_json5, without_surrogates
from sanderling.core.profiles import ToolNames
from sanderling.core.types import ToolCall

THINK, THINK_END = "<think>", "</think>"
CALL, CALL_END = "<tool_call>", "</tool_call>"
ANSWER, ANSWER_END = "<answer>", "</answer>"
CODE, CODE_END = "<code>", "</code>"
_RESPONSE = "<tool_response>"
_PYTHON = "PythonInterpreter"
_MAX_CALLS = 32
"""Calls read from one turn: more is a model gone astray. Also what keeps the time linear."""
_OPENERS = re.compile("<(?:tool_call|answer|think)>")
_BOUNDARY = re.compile("</?tool_call>|<answer>|<think>")
_BLANK = re.compile(r"\s*")
_NAME = re.compile(r'"name"\s{0,8}:\s{0,8}"([^"\n]{1,64})"')
_ARGUMENT_KEYS = ("arguments", "parameters", "args")


class ParseProblem(StrEnum):
    """What was odd about a turn. Most codes are harmless: what could be read was read."""

    MISSING_THINK = "missing_think"
    MISSING_THINK_OPEN = "missing_think_open"
    """``</think>`` without ``<think>``."""
    UNCLOSED_THINK = "unclosed_think"
    DOUBLED_THINK = "doubled_think"
    """A further reasoning tag, or a further block of reasoning."""
    STRAY_TEXT = "stray_text"
    """Text outside reasoning, before the first action."""
    TRAILING_TEXT = "trailing_text"
    """Text after the first action."""
    CUT_AT_RESPONSE = "cut_at_response"
    """The model wrote ``<tool_response>`` itself; nothing from there on was read."""
    CALL_IN_THINK = "call_in_think"
    """Reasoning never ended, and the call in it was taken."""
    ANSWER_IN_THINK = "answer_in_think"
    """Reasoning never ended and holds an answer tag; no answer was read from it."""
    UNCLOSED_CALL = "unclosed_call"
    UNREADABLE_CALL = "unreadable_call"
    """A call that is no JSON object with a name, however leniently read; it was left out."""
    LENIENT_CALL = "lenient_call"
    """Readable, but not as one strict JSON object with a name and arguments."""
    BAD_ARGUMENTS = "bad_arguments"
    """The arguments are no object; the call was kept with none."""
    SEVERAL_CALLS = "several_calls"
    TOO_MANY_CALLS = "too_many_calls"
    """More calls than are ever read from one turn; the rest was left out."""
    UNCLOSED_ANSWER = "unclosed_answer"
    EMPTY_ANSWER = "empty_answer"
    SEVERAL_ANSWERS = "several_answers"
    BOTH = "both"
    """A call and an answer."""
    NO_ACTION = "no_action"
    """Neither a call nor an answer."""


@dataclass(frozen=True)
class ParsedTurn:
    """What a turn means."""

    think: str | None
    """Reasoning, without tags and outer blanks; None: there was none."""
    calls: tuple[ToolCall, ...] = ()
    answer: str | None = None
    """Never empty, never from inside reasoning."""
    problems: tuple[ParseProblem, ...] = ()
    """Each code once, in order of appearance."""
    left: tuple[str, ...] = field(default=(), compare=False)
    """What was read and stands in none of the above: text between the parts, calls that could not be read, earlier answers.
    What follows the first ``<tool_response>`` is not read and not here."""

    @property
    def actionable(self) -> bool:
        """Whether there is a call to run or an answer to take."""
        return bool(self.calls) or self.answer is not None


def parse_turn(text: str, *, think_open: bool = False, names: ToolNames | None = None) -> ParsedTurn:
    """Read one turn. Never raises.

    ``think_open``: the prompt already ended in ``<think>``, so the text begins inside the reasoning.
    ``names``: bring arguments into this family's form (:func:`normalise_arguments`); None: leave them as written.
    """
    parsed = _Reader(without_surrogates(text), think_open).read()
    if names is None:
        return parsed
    calls = tuple(normalise_arguments(call, names) for call in parsed.calls)
    return replace(parsed, calls=calls)


_SENTENCES = {
    ParseProblem.UNREADABLE_CALL: "The tool call is not a JSON object with a name and arguments.",
    ParseProblem.ANSWER_IN_THINK: "The answer stands inside the reasoning, which was not closed with </think>.",
    ParseProblem.EMPTY_ANSWER: "The answer is empty.",
    ParseProblem.UNCLOSED_THINK: "The reasoning was not closed with </think>, and no tool call or answer follows it.",
    ParseProblem.BOTH: "A tool call and an answer stand in one turn.",
    ParseProblem.NO_ACTION: "There is neither a tool call nor an answer.",
}


def explain(problems: Collection[ParseProblem]) -> str:
    """One sentence on why a turn could not be used, for the malformed hint; the most telling code speaks."""
    for problem, sentence in _SENTENCES.items():
        if problem in problems:
            return sentence
    return "The turn does not have the required form."


@dataclass
class _Reader:
    """One pass over one turn."""

    text: str
    think_open: bool
    thoughts: list[str] = field(default_factory=list)
    calls: list[ToolCall] = field(default_factory=list)
    answers: list[str] = field(default_factory=list)
    problems: dict[ParseProblem, None] = field(default_factory=dict)
    left: list[str] = field(default_factory=list)
    acted: bool = False
    """Whether any action tag was met outside reasoning."""
    tried: int = 0
    """Calls tried so far."""
    last_answer_end: int = -1

    def read(self) -> ParsedTurn:
        cut = self.text.find(_RESPONSE)
        if cut >= 0:
            self.text = self.text[:cut]
            self.flag(ParseProblem.CUT_AT_RESPONSE)
        self.last_answer_end = self.text.rfind(ANSWER_END)
        at = self.enter()
        while at < len(self.text):
            at = self.step(at)
        return self.result()

    def flag(self, problem: ParseProblem) -> None:
        self.problems.setdefault(problem)

    def enter(self) -> int:
        """Deal with reasoning that has no opening tag of its own in the text."""
        if self.think_open:
            return self.think(0)
        opened, closed = self.text.find(THINK), self.text.find(THINK_END)
        begins_with_action = self.text.lstrip().startswith((CALL, ANSWER))
        if closed >= 0 and not 0 <= opened < closed and not begins_with_action:
            self.flag(ParseProblem.MISSING_THINK_OPEN)
            return self.think(0)
        return 0

    def step(self, at: int) -> int:
        """Read the next thing outside reasoning; returns where it ended."""
        found = _OPENERS.search(self.text, at)
        self.outside(self.text[at : found.start() if found else len(self.text)])
        if found is None:
            return len(self.text)
        if found[0] == THINK:
            if self.thoughts:
                self.flag(ParseProblem.DOUBLED_THINK)
            return self.think(found.end())
        self.acted = True
        return self.call(found.end()) if found[0] == CALL else self.answer(found.end())

    def outside(self, piece: str) -> None:
        if self.thoughts and not self.acted and THINK_END in piece:
            # A second </think> right after the first: what lies between belongs to the reasoning.
            self.flag(ParseProblem.DOUBLED_THINK)
            more, _, piece = piece.rpartition(THINK_END)
            self.thoughts.append(more.replace(THINK_END, ""))
        if piece.strip():
            self.flag(ParseProblem.TRAILING_TEXT if self.acted else ParseProblem.STRAY_TEXT)
            self.left.append(piece)

    def think(self, start: int) -> int:
        """Reasoning from ``start`` to its end tag, or to the end of the text."""
        end = self.text.find(THINK_END, start)
        if end < 0:
            return self.unclosed(start)
        self.thought(self.text[start:end])
        return end + len(THINK_END)

    def thought(self, piece: str) -> None:
        if THINK in piece:
            self.flag(ParseProblem.DOUBLED_THINK)
        self.thoughts.append(piece.replace(THINK, ""))

    def unclosed(self, start: int) -> int:
        """Reasoning that never ends: calls in it count only when there is no action outside."""
        self.flag(ParseProblem.UNCLOSED_THINK)
        rest = self.text[start:]
        if ANSWER in rest:
            self.flag(ParseProblem.ANSWER_IN_THINK)
        first = len(rest)
        if not self.acted:
            at, read = rest.find(CALL), 0
            while at >= 0:
                before = len(self.calls)
                end = self.call(start + at + len(CALL), mention=True) - start
                if len(self.calls) > before:
                    if first < len(rest):
                        self.left.append(rest[read:at])
                    first, read = min(first, at), end
                    self.flag(ParseProblem.CALL_IN_THINK)
                at = rest.find(CALL, end)
            if first < len(rest):
                self.left.append(rest[read:])
        self.thought(rest[:first])
        return len(self.text)

    def answer(self, start: int) -> int:
        """An answer from ``start``; returns where it ended. The innermost of nested answers is the answer."""
        if start <= self.last_answer_end:
            end = self.text.find(ANSWER_END, start)
            after = end + len(ANSWER_END)
        else:
            self.flag(ParseProblem.UNCLOSED_ANSWER)
            following = _OPENERS.search(self.text, start)
            end = after = following.start() if following else len(self.text)
        body = self.text[start:end]
        if ANSWER in body:
            self.flag(ParseProblem.SEVERAL_ANSWERS)
            outer, _, body = body.rpartition(ANSWER)
            self.left.append(outer)
        if body.strip():
            self.answers.append(body.strip())
        else:
            self.flag(ParseProblem.EMPTY_ANSWER)
        return after

    def call(self, start: int, *, mention: bool = False) -> int:
        """A call whose body begins at ``start``; returns where it ended. ``mention``: unreadable is no problem."""
        if self.tried >= _MAX_CALLS:
            self.flag(ParseProblem.TOO_MANY_CALLS)
            if not mention:
                self.left.append(self.text[start:])
            return len(self.text)
        self.tried += 1
        body = read_body(self.text, start)
        if not body.calls and not mention:
            self.left.append(self.text[start : body.end])
        if len(body.calls) > _MAX_CALLS - len(self.calls):
            self.flag(ParseProblem.TOO_MANY_CALLS)
        self.calls.extend(body.calls[: _MAX_CALLS - len(self.calls)])
        if body.calls or not mention:
            self.problems.update(dict.fromkeys(body.problems))
        return body.end

    def result(self) -> ParsedTurn:
        if not self.thoughts:
            self.flag(ParseProblem.MISSING_THINK)
        if len(self.calls) > 1:
            self.flag(ParseProblem.SEVERAL_CALLS)
        if len(self.answers) > 1:
            self.flag(ParseProblem.SEVERAL_ANSWERS)
        if self.calls and self.answers:
            self.flag(ParseProblem.BOTH)
        if not self.calls and not self.answers:
            self.flag(ParseProblem.NO_ACTION)
        think = "\n".join(piece.strip() for piece in self.thoughts if piece.strip()) if self.thoughts else None
        answer = self.answers[-1] if self.answers else None
        left = tuple(piece.strip() for piece in (*self.left, *self.answers[:-1]) if piece.strip())
        return ParsedTurn(think, tuple(self.calls), answer, tuple(self.problems), left)


# -- the body of one call: where it ends, and which calls it holds -------------------------------------------------------


@dataclass(frozen=True)
class CallBody:
    """What one ``<tool_call>`` held."""

    calls: tuple[ToolCall, ...]
    end: int
    """Index in the text after everything that belongs to it, its close tag included."""
    problems: tuple[ParseProblem, ...]


@dataclass(frozen=True)
class _Extent:
    """Where a body lies: its raw text, the JSON value if there is one, the code if there is any."""

    raw: str
    end: int
    closed: bool
    value: Any = None
    code: str | None = None
    lenient: bool = False


def read_body(text: str, start: int) -> CallBody:
    """Read the body that begins at ``start``, just after its open tag.

    Accepts a JSON object (or a list of them) with a name and arguments; arguments that are a JSON string; ``parameters`` or
    ``args`` for arguments; the ``{"function": {...}}`` form; arguments beside the name; a ``<code>`` block as Tongyi
    DeepResearch and AgentCPM write it for PythonInterpreter, which becomes the argument ``code``.
    """
    extent = _with_value(text, start) or _by_tags(text, start)
    problems = [] if extent.closed else [ParseProblem.UNCLOSED_CALL]
    if extent.lenient:
        problems.append(ParseProblem.LENIENT_CALL)
    items = extent.value if isinstance(extent.value, list) else [extent.value]
    if extent.value is None and extent.code is not None:
        named = _NAME.search(extent.raw)
        items = [{"name": named[1] if named else _PYTHON, "arguments": {}}]
        problems.append(ParseProblem.LENIENT_CALL)
    calls: list[ToolCall] = []
    for item in items:
        call, odd = _one_call(item, extent)
        problems.extend(odd)
        if call is not None:
            calls.append(call)
    if not calls and ParseProblem.UNREADABLE_CALL not in problems:
        problems.append(ParseProblem.UNREADABLE_CALL)
    return CallBody(tuple(calls), extent.end, tuple(dict.fromkeys(problems)))


def _with_value(text: str, start: int) -> _Extent | None:
    """A body that begins with a JSON value: the value's own end decides, so tags within its strings do no harm."""
    at = _blank(text, start)
    found = decode_json(text, at) if text[at : at + 1] in ("{", "[") else None
    if found is None:
        return None
    value, at, lenient = found
    code, at, closed_at = _code_and_close(text, at)
    if closed_at is None and code is None:
        boundary = _BOUNDARY.search(text, at)
        if boundary is not None and boundary[0] == CALL_END:  # junk before the close tag, such as a brace too many
            closed_at, at, lenient = boundary.start(), boundary.end(), True
    raw = text[start : at if closed_at is None else closed_at]
    return _Extent(raw, at, closed_at is not None, value, code, lenient)


def _code_and_close(text: str, at: int) -> tuple[str | None, int, int | None]:
    """An optional ``<code>`` block and the close tag, in either order: code, index after both, index of the close tag."""
    closed_at, code = None, None
    for _ in range(2):
        next_at = _blank(text, at)
        if closed_at is None and text.startswith(CALL_END, next_at):
            closed_at, at = next_at, next_at + len(CALL_END)
        elif code is None and text.startswith(CODE, next_at):
            code, at = _code(text, next_at + len(CODE))
    return code, at, closed_at


def _code(text: str, start: int) -> tuple[str, int]:
    """A code block from ``start``: the code, and the index after its close tag (or where it must have ended)."""
    end = text.find(CODE_END, start)
    if end >= 0:
        return text[start:end].strip("\n"), end + len(CODE_END)
    end = text.find(CALL_END, start)
    end = len(text) if end < 0 else end
    return text[start:end].strip("\n"), end


def _by_tags(text: str, start: int) -> _Extent:
    """A body that is no plain JSON: it ends at the next tag. JSON5, or code alone, may still be in it."""
    boundary = _BOUNDARY.search(text, start)
    stop = boundary.start() if boundary else len(text)
    opened = text.find(CODE, start, stop)
    if opened >= 0:
        code, at = _code(text, opened + len(CODE))
        at = _blank(text, at)
        closed = text.startswith(CALL_END, at)
        value = decode_json5(text[start:opened])
        return _Extent(text[start:at], at + len(CALL_END) if closed else at, closed, value, code, value is not None)
    closed = boundary is not None and boundary[0] == CALL_END
    value = decode_json5(text[start:stop])
    end = boundary.end() if boundary is not None and closed else stop
    return _Extent(text[start:stop], end, closed, value, None, value is not None)


def _one_call(item: Any, extent: _Extent) -> tuple[ToolCall | None, list[ParseProblem]]:
    problems: list[ParseProblem] = []
    if isinstance(item, dict) and "name" not in item and isinstance(item.get("function"), dict):
        item = item["function"]
        problems.append(ParseProblem.LENIENT_CALL)
    name = item.get("name") if isinstance(item, dict) else None
    if not isinstance(name, str) or not name.strip():
        return None, [ParseProblem.UNREADABLE_CALL]
    arguments, odd = _arguments(item)
    if extent.code is not None:
        arguments.setdefault("code", extent.code)
    return ToolCall(name=name.strip(), arguments=arguments, raw=extent.raw), problems + odd


def _arguments(item: dict[str, Any]) -> tuple[dict[str, Any], list[ParseProblem]]:
    """The arguments of a call object, wherever they stand, and what was odd about them."""
    key = next((key for key in _ARGUMENT_KEYS if key in item), None)
    if key is None:
        return {name: value for name, value in item.items() if name != "name"}, [ParseProblem.LENIENT_CALL]
    value, problems = item[key], [] if key == _ARGUMENT_KEYS[0] else [ParseProblem.LENIENT_CALL]
    if isinstance(value, str):
        found = decode_json(value.strip())
        value = found[0] if found else decode_json5(value)
        problems.append(ParseProblem.LENIENT_CALL)
    if isinstance(value, dict):
        return dict(value), problems
    return {}, [*problems, ParseProblem.BAD_ARGUMENTS]


def _blank(text: str, at: int) -> int:
    """Index of the first character from ``at`` on that is no white space."""
    found = _BLANK.match(text, at)
    return found.end() if found else at


# -- arguments in one family's form --------------------------------------------------------------------------------------


def normalise_arguments(call: ToolCall, names: ToolNames) -> ToolCall:
    """The call with its arguments in the canonical form of ``names``; other tools' calls come back as they are.

    ``queries`` for ``query``, ``urls`` for ``url``, ``goal`` for ``purpose`` and back; a string in place of a list becomes a
    list of one; a list of goals becomes its first. Anything else is left for the tool to refuse.
    """
    if call.name == names.search:
        known = {names.search_query: ("query", "queries")}
    elif call.name == names.visit:
        known = {names.visit_url: ("url", "urls"), names.visit_goal: ("goal", "purpose")}
    else:
        return call
    arguments = dict(call.arguments)
    for canonical, others in known.items():
        for name in others:
            if canonical not in arguments and name in arguments:
                arguments[canonical] = arguments.pop(name)
    listed = next(iter(known))
    value = arguments.get(listed)
    if isinstance(value, str):
        found = decode_json(value.strip()) if value.lstrip().startswith("[") else None
        is_list = found is not None and isinstance(found[0], list) and found[1] == len(value.strip())
        arguments[listed] = found[0] if found is not None and is_list else [value]
    goal = arguments.get(names.visit_goal)
    if call.name == names.visit and isinstance(goal, list):
        arguments[names.visit_goal] = goal[0] if goal else ""
    return call.model_copy(update={"arguments": arguments})
