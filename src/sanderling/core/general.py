"""Turns of general models, which write calls in whatever form they were trained on, and answers as plain prose.

Native calls arrive as ``<tool_call>`` blocks (`policy.native`), which `parse_turn` reads; so does it Hermes' form. What it
cannot act on is looked through for the other forms that models fall back to when their server does not translate them: XML-like
tags (Qwen3-Coder, GLM, MiniMax, Claude), and a tool's name with a JSON object, bare, fenced or between control tokens (Llama,
Mistral, Kimi, DeepSeek, gpt-oss). Only tools that there are count, so JSON in an answer is no call.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from sanderling.core.parse import MAX_CALLS, RESPONSE, RESPONSE_END, ParsedTurn, ParseProblem, normalise_arguments, parse_turn
from sanderling.core.profiles import ToolNames
from sanderling.core.text import decode_json
from sanderling.core.types import ToolCall, ToolSpec

_FUNCTION = re.compile(r"<function=([\w.-]+)>(.*?)(?:</function>|\Z)", re.DOTALL)
_PARAMETER = re.compile(r"<parameter=([\w.-]+)>\n?(.*?)\n?(?:</parameter>|(?=<parameter=)|\Z)", re.DOTALL)
_INVOKE = re.compile(r'<(?:[\w:｜|]+[:｜|])?invoke name="([\w.-]+)">(.*?)(?:</(?:[\w:｜|]+[:｜|])?invoke>|\Z)', re.DOTALL)
_NAMED = re.compile(
    r'<(?:[\w:｜|]+[:｜|])?parameter name="([\w.-]+)"[^>]*>(.*?)(?:</(?:[\w:｜|]+[:｜|])?parameter>|\Z)', re.DOTALL
)
_KEYED = re.compile(r"<tool_call>\s*([\w.-]+)\s*((?:<arg_key>.*?</arg_value>\s*)+)", re.DOTALL)
_KEY_VALUE = re.compile(r"<arg_key>(.*?)</arg_key>\s*<arg_value>(.*?)</arg_value>", re.DOTALL)
_BEFORE_JSON = re.compile(
    r"(?<![\w-])([\w-]{1,64})(?::\d{1,9})?\s*"
    r"(?:\[ARGS\]|\[CALL_ID\]\w*\[ARGS\]|<\|tool_call_argument_begin\|>|<\|constrain\|>\s*json\s*<\|message\|>|<\|message\|>"
    r"|```(?:json)?)\s*(?=\{)"
)
_TAGGED = ((_FUNCTION, _PARAMETER), (_INVOKE, _NAMED), (_KEYED, _KEY_VALUE))
_JSON_KEYS = ("arguments", "parameters", "args", "input")
_POINTS = re.compile(r"\[(\d{1,6})\]")
_MARKUP = re.compile(r"<\|[^|>\s]{1,40}\|>|<｜[^>]{1,40}｜>|\[/?TOOL_CALLS\]")


def parse_general(
    text: str, specs: Sequence[ToolSpec], names: ToolNames, *, last: bool = False, passages: int = 0
) -> ParsedTurn:
    """Read one turn of any chat model. Never raises.

    Prose without a call is an answer where it points at one of the numbered ``passages`` that were read, or was the ``last``
    thing to say: the model had been told that it must answer. Otherwise it is no action yet.
    """
    parsed = parse_turn(text, names=names)
    if parsed.calls and parsed.answer is not None:  # a model that calls is still at work
        parsed = replace(parsed, answer=None, left=(*parsed.left, parsed.answer))
    if parsed.actionable:
        return parsed
    said = _without_results(_outside_reasoning(text))
    known = {spec.name: spec for spec in specs}
    calls = _tagged_calls(said, known) or _json_calls(said, known)
    if calls:
        read = tuple(normalise_arguments(call, names) for call in calls[:MAX_CALLS])
        problems = (ParseProblem.LENIENT_CALL, *((ParseProblem.TOO_MANY_CALLS,) if len(calls) > MAX_CALLS else ()))
        return ParsedTurn(parsed.think, read, None, problems)
    prose = _MARKUP.sub("", said).strip()
    points = any(0 < int(number) <= passages for number in _POINTS.findall(prose))
    if (last or points) and prose and ParseProblem.UNREADABLE_CALL not in parsed.problems:
        return ParsedTurn(parsed.think, (), prose, tuple(p for p in parsed.problems if p is not ParseProblem.NO_ACTION))
    return parsed


def _outside_reasoning(text: str) -> str:
    """What follows the reasoning; nothing of reasoning that never ended."""
    return text.rpartition("</think>")[2] if "</think>" in text else text.partition("<think>")[0]


def _without_results(text: str) -> str:
    """Without results that the model made up. A turn that only begins as if it were one is meant, by small models."""
    kept, *others = text.split(RESPONSE)
    for part in others:
        _, closed, after = part.rpartition(RESPONSE_END)
        if closed or not kept.strip():
            kept += after
    return kept


def _tagged_calls(text: str, known: Mapping[str, ToolSpec]) -> list[ToolCall]:
    """Calls whose arguments stand in tags of their own."""
    for call, argument in _TAGGED:
        found: list[ToolCall] = []
        for one in call.finditer(text):
            if (spec := known.get(one[1])) is not None:
                given = {key.strip(): _value(raw, spec, key.strip()) for key, raw in argument.findall(one[2])}
                found.append(ToolCall(name=spec.name, arguments=given, raw=one[0]))
        if found:
            return found
    return []


def _value(raw: str, spec: ToolSpec, key: str) -> Any:
    """A tag's text as the tool's schema has it: JSON, except where a text is wanted."""
    wanted = spec.parameters.get("properties", {}).get(key, {}).get("type")
    found = None if wanted == "string" else decode_json(raw.strip())
    return found[0] if found is not None and found[1] == len(raw.strip()) else raw.strip()


def _json_calls(text: str, known: Mapping[str, ToolSpec]) -> list[ToolCall]:
    """JSON objects that name a tool, and those that stand behind a tool's name."""
    before = {found.end(): found[1] for found in _BEFORE_JSON.finditer(text) if found[1] in known}
    calls: list[ToolCall] = []
    for at, value in _objects(text):
        items = value if isinstance(value, list) else [value]
        if at in before and isinstance(value, dict):
            calls.append(ToolCall(name=before[at], arguments=value))
            continue
        for item in items:
            item = item.get("function", item) if isinstance(item, dict) and isinstance(item.get("function"), dict) else item
            key = next((key for key in _JSON_KEYS if isinstance(item, dict) and isinstance(item.get(key), dict)), None)
            if key is not None and item.get("name") in known:
                calls.append(ToolCall(name=item["name"], arguments=item[key]))
    return calls


def _objects(text: str) -> Iterator[tuple[int, Any]]:
    """JSON objects and lists in a text, outermost ones, with where they begin; at most as many tries as calls are read."""
    at, tries = 0, 0
    while (begin := re.compile(r"[{\[]").search(text, at)) is not None and tries < 8 * MAX_CALLS:
        tries += 1
        found = decode_json(text, begin.start())
        if found is not None and isinstance(found[0], dict | list):
            yield begin.start(), found[0]
        at = found[1] if found is not None else begin.end()
