"""Reading the body of one ``<tool_call>``: where it ends, and which calls it holds.

Accepts a JSON object (or a list of them) with a name and arguments; arguments that are a JSON string; ``parameters`` or
``args`` for arguments; the ``{"function": {...}}`` form; arguments beside the name; a ``<code>`` block as Tongyi DeepResearch
and AgentCPM write it for PythonInterpreter, which becomes the argument ``code``. Knows no tools. Raises nothing for any text.
"""

import re
from dataclasses import dataclass
from typing import Any

from sanderling.core.lenient import decode_json, decode_json5
from sanderling.core.messages import ToolCall
from sanderling.core.problems import ParseProblem

THINK, THINK_END = "<think>", "</think>"
CALL, CALL_END = "<tool_call>", "</tool_call>"
ANSWER, ANSWER_END = "<answer>", "</answer>"
CODE, CODE_END = "<code>", "</code>"

_PYTHON = "PythonInterpreter"
_BLANK = re.compile(r"\s*")
_BOUNDARY = re.compile("</?tool_call>|<answer>|<think>")
_NAME = re.compile(r'"name"\s{0,8}:\s{0,8}"([^"\n]{1,64})"')
_ARGUMENT_KEYS = ("arguments", "parameters", "args")


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
    """Read the body that begins at ``start``, just after its open tag."""
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
