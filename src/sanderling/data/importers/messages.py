"""One message of any chat layout, understood or not: who speaks, what is said, thought and called.

Contract: :func:`understand` takes the common form (``forms.py`` makes it) and never raises; it returns a :class:`Said`, or
the code of why the message cannot be classified. ``{"role", "content"}`` and ``{"from", "value"}`` are the same thing here.
Fields that are null count as absent: Parquet fills every message of a column with the fields of all. Knows no nodes, files or
layouts.
"""

import json
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from sanderling.core.lenient import decode_json, decode_json5
from sanderling.core.types import ToolCall


class Speaker(StrEnum):
    """Who speaks, whatever the file calls it."""

    SYSTEM = "system"
    USER = "user"
    ASSISTANT = "assistant"
    TOOL = "tool"
    THOUGHT = "thought"
    """Reasoning in a message of its own; the next message of the assistant belongs to the same turn."""
    CALL = "call"
    """A call in a message of its own, as JSON or in its tags."""
    ANSWER = "answer"
    """A final answer in a message of its own."""


_SPEAKERS = {
    "system": Speaker.SYSTEM,
    "developer": Speaker.SYSTEM,
    "user": Speaker.USER,
    "human": Speaker.USER,
    "assistant": Speaker.ASSISTANT,
    "gpt": Speaker.ASSISTANT,
    "model": Speaker.ASSISTANT,
    "bot": Speaker.ASSISTANT,
    "ai": Speaker.ASSISTANT,
    "chatgpt": Speaker.ASSISTANT,
    "tool": Speaker.TOOL,
    "function": Speaker.TOOL,
    "observation": Speaker.TOOL,
    "tool_response": Speaker.TOOL,
    "tool_output": Speaker.TOOL,
    "tool_result": Speaker.TOOL,
    "function_response": Speaker.TOOL,
    "ipython": Speaker.TOOL,
    "reasoning": Speaker.THOUGHT,
    "thought": Speaker.THOUGHT,
    "think": Speaker.THOUGHT,
    "function_call": Speaker.CALL,
    "tool_call": Speaker.CALL,
    "answer": Speaker.ANSWER,
    "final_answer": Speaker.ANSWER,
}
_PLAIN_ROLES = frozenset({"system", "user", "human", "assistant", "gpt"})
"""Roles whose node says all there is to say."""
_PLAIN_FIELDS = (frozenset({"role", "content"}), frozenset({"from", "value"}))
_THINK_FIELDS = ("reasoning_content", "reasoning", "thought", "thinking")
_CALL_FIELDS = frozenset({"tool_calls", "function_call"})
_KNOWN_FIELDS = frozenset({"role", "content", "from", "value", "tool_call_id", "name", *_THINK_FIELDS, *_CALL_FIELDS})


@dataclass(frozen=True)
class Said:
    """What one message says."""

    message: dict[str, Any]
    speaker: Speaker
    text: str
    """The content as text; empty where there is none."""
    think: str | None = None
    """Reasoning from a field of its own."""
    calls: tuple[ToolCall, ...] = ()
    """Calls from fields of their own."""
    call_ids: tuple[str, ...] = ()
    """Ids of these calls; for a tool's message the one call that it answers."""
    tool: str = ""
    """For a tool's message: the tool's name, where it is given."""
    oddities: tuple[str, ...] = ()
    size: int = 1
    """How many messages of the file it stands for."""
    plain: bool = False
    """Whether speaker and text are all there is, so that the message need not be kept beside them."""


def understand(message: Any) -> Said | str:
    """What a message says, or the code of why nobody can tell."""
    if not isinstance(message, dict):
        return "content_not_text"
    role = message.get("role", message.get("from"))
    speaker = _SPEAKERS.get(role) if isinstance(role, str) else None
    if speaker is None:
        return "unknown_role"
    given = {key for key, value in message.items() if value is not None}
    if role == "function" and "name" not in given and calls_in(message.get("content", message.get("value"))):
        speaker = Speaker.CALL  # OpenAI's messages of a function name it; LLaMA-Factory's call one
    content, odd = _content(message.get("content", message.get("value")), speaker)
    calls = _calls_of(message) if speaker is Speaker.ASSISTANT else ()
    think = _think_of(message) if speaker is Speaker.ASSISTANT else None
    if calls is None:
        return "odd_tool_calls"
    if content is None:
        if not (calls or think or (speaker is Speaker.TOOL and message.get("content", message.get("value")) is None)):
            return "content_not_text"
        if "content" in given:
            return "content_not_text"
        content = ""
    extra = sorted(given - _KNOWN_FIELDS)
    oddities = [*odd, *(["extra_fields"] if extra else []), *([] if content.strip() or calls or think else ["empty_message"])]
    return Said(
        message=message,
        speaker=speaker,
        text=content,
        think=think,
        calls=tuple(call for call, _ in calls),
        call_ids=(_text(message.get("tool_call_id")),) if speaker is Speaker.TOOL else tuple(id for _, id in calls),
        tool=_text(message.get("name")),
        oddities=tuple(oddities),
        plain=role in _PLAIN_ROLES and given <= _PLAIN_FIELDS["from" in message] and not odd,
    )


def _content(content: Any, speaker: Speaker) -> tuple[str | None, list[str]]:
    """Content as text, or None; and what was odd about it."""
    if isinstance(content, str):
        return content, []
    if speaker is Speaker.TOOL and content is not None:
        return as_json(content), ["structured_result"]
    return None, []


def _think_of(message: dict[str, Any]) -> str | None:
    found = (message.get(key) for key in _THINK_FIELDS)
    return next((value for value in found if isinstance(value, str) and value.strip()), None)


def _calls_of(message: dict[str, Any]) -> tuple[tuple[ToolCall, str], ...] | None:
    """The calls in a message's own fields, with their ids; None when they cannot be read."""
    given = message.get("tool_calls")
    if isinstance(given, str):
        given = _decoded(given) if given.strip() else None
        if given is None and message["tool_calls"].strip():
            return None
    listed = given if isinstance(given, list) else [] if given is None else [given]
    if not listed and message.get("function_call") is not None:
        listed = [message["function_call"]]
    calls = [(read_call(item), _text(item.get("id")) if isinstance(item, dict) else "") for item in listed]
    return None if any(call is None for call, _ in calls) else tuple((call, id) for call, id in calls if call is not None)


def read_call(given: Any) -> ToolCall | None:
    """One structured call: ``{"function": {"name", "arguments"}}``, ``{"name", "arguments"}``, or JSON text of these.

    Arguments that are JSON text are read; null ones are left out. Arguments that are no object stay in ``raw`` alone.
    """
    given = _decoded(given) if isinstance(given, str) else given
    if not isinstance(given, dict):
        return None
    inner = given["function"] if isinstance(given.get("function"), dict) else given
    name = inner.get("name") or inner.get("function")
    if not isinstance(name, str) or not name.strip():
        return None
    arguments = next((inner[key] for key in ("arguments", "parameters", "args", "input") if inner.get(key) is not None), {})
    if isinstance(arguments, str):
        found = _decoded(arguments) if arguments.strip() else {}
        arguments = found if isinstance(found, dict) else arguments
    if isinstance(arguments, dict):
        arguments = {str(key): value for key, value in arguments.items() if value is not None}
    body = as_json({"name": name, "arguments": arguments})
    return ToolCall(name=name.strip(), arguments=arguments if isinstance(arguments, dict) else {}, raw=f"\n{body}\n")


def calls_in(text: Any) -> tuple[ToolCall, ...]:
    """The calls that a text spells in JSON: one, or a list of them. None of them when any cannot be read."""
    found = _decoded(text) if isinstance(text, str) and text.lstrip()[:1] in ("{", "[") else None
    calls = [read_call(item) for item in (found if isinstance(found, list) else [found])]
    return () if any(call is None for call in calls) else tuple(call for call in calls if call is not None)


def as_json(value: Any) -> str:
    """A value as one line of JSON; one nested too deeply for that as Python shows it."""
    try:
        return json.dumps(value, ensure_ascii=False)
    except RecursionError:
        return "(nested too deeply)"


def _decoded(text: str) -> Any | None:
    """The JSON or JSON5 value that the whole text spells, or None."""
    found = decode_json(text.strip())
    return found[0] if found is not None and found[1] == len(text.strip()) else decode_json5(text)


def _text(value: Any) -> str:
    """An id or a name, which some files give as numbers."""
    return value if isinstance(value, str) else str(value) if isinstance(value, int) else ""
