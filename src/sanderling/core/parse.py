"""The tolerant parser: what a turn means, however untidily it is written.

It never raises, takes time linear in the text and tells in codes what was odd. Text from the first ``<tool_response>`` on is
cut: the model was inventing it. Reasoning ends at its first ``</think>``, and tags in it are mentions; where it never ends,
readable calls in it are taken if there are none outside, an answer never. A call's body is JSON, so tags within its strings do
no harm, or JSON5, or ``<code>``; without a close tag it ends at the next opening tag. The last answer outside reasoning counts.
"""

import re
from collections.abc import Collection
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, NamedTuple

from sanderling.core.profiles import ToolNames
from sanderling.core.text import decode_json, decode_json5, without_surrogates
from sanderling.core.types import ToolCall

THINK, THINK_END = "<think>", "</think>"
CALL, CALL_END = "<tool_call>", "</tool_call>"
ANSWER, ANSWER_END = "<answer>", "</answer>"
CODE, CODE_END = "<code>", "</code>"
RESPONSE, RESPONSE_END = "<tool_response>", "</tool_response>"
MAX_CALLS = 32  # calls read from one turn, which also keeps the time linear
_OPENERS = re.compile("<(?:tool_call|answer|think)>")
_BOUNDARY = re.compile("</?tool_call>|<answer>|<think>")
_TEXT = re.compile(r"\S|\Z")
_NAME = re.compile(r'"name"\s{0,8}:\s{0,8}"([^"\n]{1,64})"')
_ARGUMENT_KEYS = ("arguments", "parameters", "args")


class ParseProblem(StrEnum):
    """What was odd about a turn. Most codes are harmless: what could be read was read."""

    MISSING_THINK = "missing_think"
    MISSING_THINK_OPEN = "missing_think_open"
    UNCLOSED_THINK = "unclosed_think"
    DOUBLED_THINK = "doubled_think"  # a further reasoning tag, or a further block of reasoning
    STRAY_TEXT = "stray_text"  # text outside reasoning, before the first action
    TRAILING_TEXT = "trailing_text"
    CUT_AT_RESPONSE = "cut_at_response"
    CALL_IN_THINK = "call_in_think"  # reasoning never ended; the call in it was taken
    ANSWER_IN_THINK = "answer_in_think"  # reasoning never ended; the answer in it was not taken
    UNCLOSED_CALL = "unclosed_call"
    UNREADABLE_CALL = "unreadable_call"  # no JSON object with a name, however leniently read; it was left out
    LENIENT_CALL = "lenient_call"  # readable, but not as one strict JSON object with a name and arguments
    BAD_ARGUMENTS = "bad_arguments"  # the arguments are no object; the call was kept with none
    SEVERAL_CALLS = "several_calls"
    TOO_MANY_CALLS = "too_many_calls"  # more calls than are ever read from one turn; the rest was left out
    UNCLOSED_ANSWER = "unclosed_answer"
    EMPTY_ANSWER = "empty_answer"
    SEVERAL_ANSWERS = "several_answers"
    BOTH = "both"  # a call and an answer
    NO_ACTION = "no_action"


@dataclass(frozen=True)
class ParsedTurn:
    """What a turn means."""

    think: str | None  # reasoning, without tags and outer blanks; None: there was none
    calls: tuple[ToolCall, ...] = ()
    answer: str | None = None  # never empty
    problems: tuple[ParseProblem, ...] = ()  # each code once, in order of appearance
    left: tuple[str, ...] = field(default=(), compare=False)
    """What was read and stands in none of the above: text between the parts, calls that could not be read, earlier answers."""

    @property
    def actionable(self) -> bool:
        """Whether there is a call to run or an answer to take."""
        return bool(self.calls) or self.answer is not None


def parse_turn(text: str, *, think_open: bool = False, names: ToolNames | None = None) -> ParsedTurn:
    """Read one turn. Never raises.

    ``think_open``: the text begins inside the reasoning. ``names``: bring arguments into this family's form.
    """
    parsed = _Reader(without_surrogates(text), think_open).read()
    if names is not None:
        parsed = replace(parsed, calls=tuple(normalise_arguments(call, names) for call in parsed.calls))
    return parsed


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
    found = (sentence for problem, sentence in _SENTENCES.items() if problem in problems)
    return next(found, "The turn does not have the required form.")


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
    acted: bool = False  # whether any action tag was met outside reasoning
    tried: int = 0
    last_answer_end: int = -1

    def flag(self, problem: ParseProblem, found: bool = True) -> None:
        if found:
            self.problems.setdefault(problem)

    def read(self) -> ParsedTurn:
        self.flag(ParseProblem.CUT_AT_RESPONSE, RESPONSE in self.text)
        text = self.text = self.text.partition(RESPONSE)[0]
        self.last_answer_end = text.rfind(ANSWER_END)
        at, opened, closed = 0, text.find(THINK), text.find(THINK_END)
        if self.think_open:
            at = self.think(0)
        elif closed >= 0 and not 0 <= opened < closed and not text.lstrip().startswith((CALL, ANSWER)):
            self.flag(ParseProblem.MISSING_THINK_OPEN)
            at = self.think(0)
        while at < len(text):
            found = _OPENERS.search(text, at)
            piece = text[at : found.start() if found else len(text)]
            if self.thoughts and not self.acted and THINK_END in piece:
                # A second </think> right after the first: what lies between belongs to the reasoning.
                self.flag(ParseProblem.DOUBLED_THINK)
                more, _, piece = piece.rpartition(THINK_END)
                self.thoughts.append(more.replace(THINK_END, ""))
            if piece.strip():
                self.flag(ParseProblem.TRAILING_TEXT if self.acted else ParseProblem.STRAY_TEXT)
                self.left.append(piece)
            if found is None:
                break
            if found[0] == THINK:
                self.flag(ParseProblem.DOUBLED_THINK, bool(self.thoughts))
                at = self.think(found.end())
            else:
                self.acted = True
                at = self.call(found.end()) if found[0] == CALL else self.answer(found.end())
        self.flag(ParseProblem.MISSING_THINK, not self.thoughts)
        self.flag(ParseProblem.SEVERAL_CALLS, len(self.calls) > 1)
        self.flag(ParseProblem.SEVERAL_ANSWERS, len(self.answers) > 1)
        self.flag(ParseProblem.BOTH, bool(self.calls and self.answers))
        self.flag(ParseProblem.NO_ACTION, not self.calls and not self.answers)
        think = "\n".join(piece.strip() for piece in self.thoughts if piece.strip()) if self.thoughts else None
        left = tuple(piece.strip() for piece in (*self.left, *self.answers[:-1]) if piece.strip())
        return ParsedTurn(think, tuple(self.calls), self.answers[-1] if self.answers else None, tuple(self.problems), left)

    def think(self, start: int) -> int:
        """Reasoning from ``start`` to its end tag; where it never ends, calls in it count only when no action is outside."""
        end = self.text.find(THINK_END, start)
        rest = self.text[start : end if end >= 0 else len(self.text)]
        after = start + len(rest) + len(THINK_END)
        if end < 0:
            self.flag(ParseProblem.UNCLOSED_THINK)
            self.flag(ParseProblem.ANSWER_IN_THINK, ANSWER in rest)
            at, first, read = -1 if self.acted else rest.find(CALL), None, 0
            while at >= 0:
                before = len(self.calls)
                end = self.call(start + at + len(CALL), mention=True) - start
                if len(self.calls) > before:
                    if first is None:
                        first = at
                        self.flag(ParseProblem.CALL_IN_THINK)
                    else:
                        self.left.append(rest[read:at])
                    read = end
                at = rest.find(CALL, end)
            if first is not None:
                self.left.append(rest[read:])
                rest = rest[:first]
        self.flag(ParseProblem.DOUBLED_THINK, THINK in rest)
        self.thoughts.append(rest.replace(THINK, ""))
        return after

    def answer(self, start: int) -> int:
        """An answer from ``start``; returns where it ended. The innermost of nested answers is the answer."""
        if start <= self.last_answer_end:
            end = self.text.find(ANSWER_END, start)
            after = end + len(ANSWER_END)
        else:  # told without a search, which many open answers would make quadratic
            self.flag(ParseProblem.UNCLOSED_ANSWER)
            following = _OPENERS.search(self.text, start)
            end = after = following.start() if following else len(self.text)
        outer, nested, body = self.text[start:end].rpartition(ANSWER)
        if nested:
            self.flag(ParseProblem.SEVERAL_ANSWERS)
            self.left.append(outer)
        self.flag(ParseProblem.EMPTY_ANSWER, not body.strip())
        self.answers += filter(None, [body.strip()])
        return after

    def call(self, start: int, *, mention: bool = False) -> int:
        """A call whose body begins at ``start``; returns where it ended. ``mention``: unreadable is no problem."""
        calls, end, problems = [], len(self.text), [ParseProblem.TOO_MANY_CALLS]
        is_tried = self.tried < MAX_CALLS
        if is_tried:
            self.tried += 1
            calls, end, problems = _read_calls(self.text, start)
        if not calls and not mention:
            self.left.append(self.text[start:end])
        room = MAX_CALLS - len(self.calls)
        self.flag(ParseProblem.TOO_MANY_CALLS, len(calls) > room)
        self.calls += calls[:room]
        if calls or not mention or not is_tried:
            self.problems.update(dict.fromkeys(problems))
        return end


class _Body(NamedTuple):
    """What stands in one ``<tool_call>``, up to the ``end`` of its close tag."""

    raw: str
    end: int
    closed: bool
    value: Any
    code: str | None
    lenient: bool


def _read_calls(text: str, start: int) -> tuple[list[ToolCall], int, list[ParseProblem]]:
    """The calls of the body that begins at ``start``, just after its open tag; where it ends, and what was odd about it.

    Accepts a JSON object (or a list of them) with a name and arguments; arguments in a JSON string, under another word or
    beside the name; the ``{"function": {...}}`` form; a ``<code>`` block as Tongyi DeepResearch and AgentCPM write it for
    PythonInterpreter, which becomes the argument ``code``.
    """
    body = _with_value(text, start) or _by_tags(text, start)
    problems = [] if body.closed else [ParseProblem.UNCLOSED_CALL]
    if body.lenient:
        problems.append(ParseProblem.LENIENT_CALL)
    items = body.value if isinstance(body.value, list) else [body.value]
    if body.value is None and body.code is not None:
        named = _NAME.search(body.raw)
        items = [{"name": named[1] if named else "PythonInterpreter", "arguments": {}}]
        problems.append(ParseProblem.LENIENT_CALL)
    calls: list[ToolCall] = []
    for item in items:
        is_wrapped = isinstance(item, dict) and "name" not in item and isinstance(item.get("function"), dict)
        if is_wrapped:
            item = item["function"]
        name = item.get("name") if isinstance(item, dict) else None
        if not isinstance(name, str) or not name.strip():
            problems.append(ParseProblem.UNREADABLE_CALL)
            continue
        arguments, odd = _arguments(item)
        problems += [ParseProblem.LENIENT_CALL, *odd] if is_wrapped else odd
        if body.code is not None:
            arguments.setdefault("code", body.code)
        calls.append(ToolCall(name=name.strip(), arguments=arguments, raw=body.raw))
    if not calls:
        problems.append(ParseProblem.UNREADABLE_CALL)
    return calls, body.end, problems


def _with_value(text: str, start: int) -> _Body | None:
    """A body that begins with a JSON value: the value's own end decides, so tags within its strings do no harm."""
    at = _blank(text, start)
    found = decode_json(text, at) if text[at : at + 1] in ("{", "[") else None
    if found is None:
        return None
    value, at, lenient = found
    closed_at, code = None, None
    for _ in range(2):  # a code block and the close tag, in either order
        following = _blank(text, at)
        if closed_at is None and text.startswith(CALL_END, following):
            closed_at, at = following, following + len(CALL_END)
        elif code is None and text.startswith(CODE, following):
            code, at = _code(text, following + len(CODE))
    if closed_at is None and code is None:
        boundary = _BOUNDARY.search(text, at)
        if boundary is not None and boundary[0] == CALL_END:  # junk before the close tag, such as a brace too many
            closed_at, at, lenient = boundary.start(), boundary.end(), True
    raw = text[start : at if closed_at is None else closed_at]
    return _Body(raw, at, closed_at is not None, value, code, lenient)


def _code(text: str, start: int) -> tuple[str, int]:
    """A code block from ``start``: the code, and the index after its close tag (or where it must have ended)."""
    end = text.find(CODE_END, start)
    after = end + len(CODE_END)
    if end < 0:
        closed = text.find(CALL_END, start)
        end = after = len(text) if closed < 0 else closed
    return text[start:end].strip("\n"), after


def _by_tags(text: str, start: int) -> _Body:
    """A body that is no plain JSON: it ends at the next tag. JSON5, or code alone, may still be in it."""
    boundary = _BOUNDARY.search(text, start)
    stop, code = boundary.start() if boundary else len(text), None
    opened = text.find(CODE, start, stop)
    value = decode_json5(text[start : stop if opened < 0 else opened])
    if opened >= 0:
        code, stop = _code(text, opened + len(CODE))
        stop = _blank(text, stop)
    closed = text.startswith(CALL_END, stop)
    end = stop + len(CALL_END) if closed else stop
    return _Body(text[start:stop], end, closed, value, code, value is not None)


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
    if not isinstance(value, dict):
        return {}, [*problems, ParseProblem.BAD_ARGUMENTS]
    return dict(value), problems


def _blank(text: str, at: int) -> int:
    """Index of the first character from ``at`` on that is no white space."""
    return _TEXT.search(text, at).start()  # pyright: ignore[reportOptionalMemberAccess] (the end is found)


def normalise_arguments(call: ToolCall, names: ToolNames) -> ToolCall:
    """The call with its arguments in the canonical form of ``names``; other tools' calls come back as they are.

    ``queries`` for ``query``, ``urls`` for ``url``, ``goal`` for ``purpose`` and back; a string in place of a list becomes a
    list of one; a list of goals becomes its first. Anything else is left for the tool to refuse.
    """
    if call.name not in (names.search, names.visit):
        return call
    listed, known = names.search_query, {names.search_query: ("query", "queries")}
    if call.name != names.search:
        listed, known = names.visit_url, {names.visit_url: ("url", "urls"), names.visit_goal: ("goal", "purpose")}
    arguments = dict(call.arguments)
    for canonical, others in known.items():
        for name in others:
            if canonical not in arguments and name in arguments:
                arguments[canonical] = arguments.pop(name)
    value, goal = arguments.get(listed), arguments.get(names.visit_goal)
    if isinstance(value, str):
        found = decode_json(value.strip()) if value.lstrip().startswith("[") else None
        is_list = found is not None and isinstance(found[0], list) and found[1] == len(value.strip())
        arguments[listed] = found[0] if found is not None and is_list else [value]
    if call.name == names.visit and isinstance(goal, list):
        arguments[names.visit_goal] = goal[0] if goal else ""
    return call.model_copy(update={"arguments": arguments})
