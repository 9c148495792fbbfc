"""Messages of any chat layout: who speaks, what is said, thought, called and returned.

`read_message` never raises and loses nothing. ``{"role", "content"}`` and ``{"from", "value"}`` are the same here; calls and
reasoning may stand in fields of their own, and content may be a list of texts. Fields that are null count as absent: Parquet
fills every message of a column with the fields of all.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from sanderling.core.text import decode_json, decode_json5
from sanderling.core.types import ToolCall
from sanderling.data.questions import ANSWER_KEYS, NAMES, opened


class Speaker(StrEnum):
    """Who speaks, whatever the file calls it."""

    SYSTEM = "system"
    USER = "user"
    ASSISTANT = "assistant"
    TOOL = "tool"
    CALL = "call"
    ANSWER = "answer"


_SPEAKERS = {role: Speaker(speaker) for speaker, roles in NAMES["roles"].items() for role in roles}
_PLAIN_ROLES = frozenset({"system", "user", "human", "assistant", "gpt"})
_PLAIN_FIELDS = (frozenset({"role", "content"}), frozenset({"from", "value"}))
_KNOWN_FIELDS = frozenset(name for kind in ("thought", "call", "other") for name in NAMES["fields"][kind])
_OF_PAGES = frozenset({"title", "url", "link", "name"})
_LONG = 500  # characters; what a question brings along besides, such as rubrics, is shorter
_TAG = re.compile("</?(?:think|tool_call|tool_response|answer)>")
_TEXTS = (None, "text", "output_text", "input_text")


@dataclass(frozen=True)
class ChatMessage:
    """What one message says."""

    original: Any  # the message as it was
    speaker: Speaker
    text: str = ""
    think: str | None = None  # think and calls are those of fields of their own
    calls: tuple[ToolCall, ...] = ()
    call_ids: tuple[str, ...] = ()  # of these calls; for a tool's message the one call that it answers
    oddities: tuple[str, ...] = ()
    plain: bool = False  # speaker and text are all there is: the message need not be kept beside them
    unclear: str = ""  # why nobody can tell what the message is


def messages_in(entry: Mapping[str, Any], key: str = "messages") -> list[Any] | None:
    """A field's list of messages, as it is or as JSON text."""
    value = opened(entry.get(key))
    return value if isinstance(value, list) else None


def speaker_of(message: Any) -> Speaker | None:
    """Who says a message, in any case; None where it does not say, or nobody knows the role."""
    given = [message.get(key) for key in ("role", "from")] if isinstance(message, dict) else []
    return _speaker(next((role for role in given if role is not None), None))


def _speaker(role: Any) -> Speaker | None:
    return _SPEAKERS.get(role.casefold()) if isinstance(role, str) else None


def conversation_field(entry: Mapping[str, Any]) -> str:
    """The field, such as ``msgs`` or ``run.msgs``, that holds a conversation as far as it looks; empty without any."""
    held = [(name, opened(value)) for name, value in entry.items() if name not in ANSWER_KEYS]
    held += [
        (f"{name}.{key}", opened(inner)) for name, value in held if isinstance(value, dict) for key, inner in value.items()
    ]
    return next((name for name, value in held if isinstance(value, list) and len(value) > 1 and _is_talk(value[:20])), "")


def _is_talk(items: list[Any]) -> bool:
    """Whether an assistant is among those who speak; or, where nobody is named, texts are long or hold a protocol's tags.

    Pages and tools, which questions bring along, have a title, an address or a name.
    """
    talk = [item for item in items if isinstance(item, dict)]
    for key in {key for item in talk for key in item}:
        speakers = [speaker for item in talk if (speaker := _speaker(item.get(key))) is not None]
        if speakers:
            return Speaker.ASSISTANT in speakers
    if any(_OF_PAGES & item.keys() for item in talk):
        return False
    texts = [text for item in items for text in (item.values() if isinstance(item, dict) else [item]) if isinstance(text, str)]
    return any(len(text) > _LONG or _TAG.search(text) for text in texts)


def read_message(message: Any) -> ChatMessage:
    """A message as a file has it; one that was read stays."""
    if isinstance(message, ChatMessage):
        return message
    speaker = speaker_of(message)
    if speaker is None:
        why = "unknown_role" if isinstance(message, dict) else "content_not_text"
        return ChatMessage(message, Speaker.USER, unclear=why)
    given = {key for key, value in message.items() if value is not None}
    content, odd = message.get("content", message.get("value")), list[str]()
    role = next(message[key] for key in ("role", "from") if key in given)
    if role.casefold() == "function" and "name" not in given and calls_in(content):
        speaker = Speaker.CALL  # OpenAI's messages of a function name it; LLaMA-Factory's call one
    if isinstance(content, list) and (texts := texts_in(content)):
        left = len(texts) < len(content)
        if not (left and speaker is Speaker.TOOL):  # a result that is not all text stays whole
            odd += ["content_in_parts", *(["parts_left_out"] if left else [])]
            content = "".join(texts)
    calls, think = (), None
    if speaker is Speaker.ASSISTANT:
        calls = _calls_of(message)
        think = next((t for k in NAMES["fields"]["thought"] if isinstance(t := message.get(k), str) and t.strip()), None)
    structured = speaker is Speaker.TOOL and content is not None and not isinstance(content, str)
    text = json.dumps(content, ensure_ascii=False) if structured else content if isinstance(content, str) else None
    silent = "content" not in given and (bool(calls) or think is not None or (speaker is Speaker.TOOL and content is None))
    if calls is None or (text is None and not silent):
        return ChatMessage(message, speaker, unclear="odd_tool_calls" if calls is None else "content_not_text")
    odd += [*(["structured_result"] if structured else []), *(["extra_fields"] if given - _KNOWN_FIELDS else [])]
    odd += [] if (text or "").strip() or calls or think else ["empty_message"]
    is_text = isinstance(message.get("content", message.get("value")), str)
    plain = is_text and role in _PLAIN_ROLES and given <= _PLAIN_FIELDS["from" in message]
    return ChatMessage(
        original=message,
        speaker=speaker,
        text=text or "",
        think=think,
        calls=tuple(call for call, _ in calls),
        call_ids=(_id(message.get("tool_call_id")),) if speaker is Speaker.TOOL else tuple(id for _, id in calls),
        oddities=tuple(odd),
        plain=plain,
    )


def texts_in(content: Any) -> list[str]:
    """The texts in a content that is a list of parts."""
    parts = [part if isinstance(part, dict) else {"text": part} for part in content] if isinstance(content, list) else []
    return [part["text"] for part in parts if part.get("type") in _TEXTS and isinstance(part.get("text"), str)]


def _calls_of(message: dict[str, Any]) -> list[tuple[ToolCall, str]] | None:
    """The calls in a message's own fields, with their ids; None when they cannot be read."""
    given = message.get("tool_calls")
    if isinstance(given, str) and (given := _decoded(given) if given.strip() else []) is None:
        return None
    listed = given if isinstance(given, list) else [] if given is None else [given]
    if not listed and message.get("function_call") is not None:
        listed = [message["function_call"]]
    calls = [(read_call(item), _id(item.get("id")) if isinstance(item, dict) else "") for item in listed]
    read = [(call, id) for call, id in calls if call is not None]
    return read if len(read) == len(calls) else None


def read_call(given: Any) -> ToolCall | None:
    """One structured call: ``{"function": {"name", "arguments"}}``, ``{"name", "arguments"}``, or JSON text of these.

    Arguments that are JSON text are read; null ones are left out. Arguments that are no object stay in ``raw`` alone.
    """
    given = _decoded(given) if isinstance(given, str) else given
    if not isinstance(given, dict):
        return None
    inner = given["function"] if isinstance(given.get("function"), dict) else given
    name = inner.get("name")
    if not isinstance(name, str) or not name.strip():
        return None
    arguments = next((inner[key] for key in ("arguments", "parameters") if inner.get(key) is not None), {})
    if isinstance(arguments, str):
        found = _decoded(arguments) if arguments.strip() else {}
        arguments = found if isinstance(found, dict) else arguments
    if isinstance(arguments, dict):
        arguments = {str(key): value for key, value in arguments.items() if value is not None}
    return tool_call(name, arguments)


def tool_call(name: str, arguments: Any) -> ToolCall:
    """A call with its body as the protocol writes it."""
    body = json.dumps({"name": name, "arguments": arguments}, ensure_ascii=False)
    return ToolCall(name=name.strip(), arguments=arguments if isinstance(arguments, dict) else {}, raw=f"\n{body}\n")


def calls_in(text: Any) -> tuple[ToolCall, ...]:
    """The calls that a text spells in JSON: one, or a list of them. None of them when any cannot be read."""
    found = _decoded(text) if isinstance(text, str) and text.lstrip()[:1] in ("{", "[") else None
    calls = [read_call(item) for item in (found if isinstance(found, list) else [found])]
    return () if None in calls else tuple(call for call in calls if call is not None)


def _decoded(text: str) -> Any | None:
    found = decode_json(text.strip())
    return found[0] if found is not None and found[1] == len(text.strip()) else decode_json5(text)


def _id(value: Any) -> str:
    return value if isinstance(value, str) else str(value) if isinstance(value, int) else ""
