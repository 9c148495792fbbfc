"""Messages of any chat layout: who speaks, what is said, thought, called and returned; and whole episodes in one text.

`read_message` never raises and loses nothing. ``{"role", "content"}`` and ``{"from", "value"}`` are the same here; content may
be text or the list of parts of chat APIs; calls and reasoning may stand in fields of their own. Fields that are null count as
absent: Parquet fills every message of a column with the fields of all.

Example: ``read_message({"role": "human", "content": "why?"})[0].speaker is Speaker.USER``
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import groupby
from typing import Any, TypeGuard

from sanderling.core.lenient import decode_json, decode_json5
from sanderling.core.types import ToolCall
from sanderling.data.questions import NAMES, opened


class Speaker(StrEnum):
    """Who speaks, whatever the file calls it. Reasoning in a message of its own belongs to the turn that follows."""

    SYSTEM = "system"
    USER = "user"
    ASSISTANT = "assistant"
    TOOL = "tool"
    THOUGHT = "thought"
    CALL = "call"
    ANSWER = "answer"


_SPEAKERS = {role: Speaker(speaker) for speaker, roles in NAMES["roles"].items() for role in roles}
_PLAIN_ROLES = frozenset({"system", "user", "human", "assistant", "gpt"})
_PLAIN_FIELDS = (frozenset({"role", "content"}), frozenset({"from", "value"}))
_KNOWN_FIELDS = frozenset(name for kind in ("thought", "call", "other") for name in NAMES["fields"][kind])


@dataclass(frozen=True)
class ChatMessage:
    """What one message says, or one piece of it."""

    original: Any  # the message, several that make it up (``{"messages": [...]}``), or the message with this piece
    speaker: Speaker
    text: str = ""
    think: str | None = None  # think and calls are those of fields of their own
    calls: tuple[ToolCall, ...] = ()
    call_ids: tuple[str, ...] = ()  # of these calls; for a tool's message the one call that it answers
    oddities: tuple[str, ...] = ()
    size: int = 1  # how many messages of the file it stands for
    plain: bool = False  # speaker and text are all there is: the message need not be kept beside them
    unclear: str = ""  # why nobody can tell what the message is


def read_message(message: Any) -> list[ChatMessage]:
    """A message as a file has it, piece by piece: one that holds results of several calls is several. What is read stays."""
    if isinstance(message, ChatMessage):
        return [message]
    speaks = isinstance(message, dict) and isinstance(message.get("role", message.get("from")), str)
    if not speaks or not is_parts(message.get("content")):
        return [understood(message)]
    role, pieces = message.get("role", message.get("from")), read_parts(message["content"])
    left = any(piece.left for piece in pieces)
    if not any(piece.result or piece.texts or piece.thoughts or piece.calls for piece in pieces) or (
        left and role in ("tool", "function", "observation")
    ):
        return [understood(message)]  # nothing of it can be read, or not all of a result
    found: list[ChatMessage] = []
    for piece in pieces:
        if piece.result:
            plain: dict[str, Any] = {"role": "tool", "tool_call_id": piece.answers, "content": piece.texts[0]}
        else:
            fields = {key: value for key, value in message.items() if key not in ("content", "value", "from", "role")}
            if piece.thoughts and not fields.get("reasoning_content"):
                fields["reasoning_content"] = "\n\n".join(piece.thoughts)
            if piece.calls and not fields.get("tool_calls"):
                fields["tool_calls"] = piece.calls
            silent = role == "assistant" and not piece.texts and (piece.calls or piece.thoughts)
            plain = {"role": role, "content": None if silent else "".join(piece.texts), **fields}
        own = message if len(pieces) == 1 else {**message, "content": piece.parts}
        odd = () if found else ("content_in_parts", *(("parts_left_out",) if left else ()))
        found.append(understood(plain, own, 0 if found else 1, odd))
    return found


def messages_in(entry: Mapping[str, Any], key: str = "messages") -> list[Any] | None:
    """A field's list of messages: as it is, as JSON text, or as ``datasets`` stores it, a list for each of their fields."""
    value = opened(entry.get(key))
    if isinstance(value, dict) and {"role", "from"} & set(value):
        columns = list(value.values())
        if all(isinstance(column, list) for column in columns) and len({len(column) for column in columns}) == 1:
            return [dict(zip(value, row, strict=True)) for row in zip(*columns, strict=True)]
    return value if isinstance(value, list) else None


def understood(message: Any, original: Any = None, size: int = 1, oddities: tuple[str, ...] = ()) -> ChatMessage:
    """A message of plain fields. ``original``: what it was made of, where that is something else than the message."""
    made = original is not None
    kept = original if made else message
    role = message.get("role", message.get("from")) if isinstance(message, dict) else None
    speaker = _SPEAKERS.get(role) if isinstance(role, str) else None
    if speaker is None:
        why = "unknown_role" if isinstance(message, dict) else "content_not_text"
        return ChatMessage(kept, Speaker.USER, size=size, unclear=why)
    given = {key for key, value in message.items() if value is not None}
    content = message.get("content", message.get("value"))
    if role == "function" and "name" not in given and calls_in(content):
        speaker = Speaker.CALL  # OpenAI's messages of a function name it; LLaMA-Factory's call one
    calls, think = (), None
    if speaker is Speaker.ASSISTANT:
        calls = _calls_of(message)
        think = next((t for k in NAMES["fields"]["thought"] if isinstance(t := message.get(k), str) and t.strip()), None)
    structured = speaker is Speaker.TOOL and content is not None and not isinstance(content, str)
    text = json.dumps(content, ensure_ascii=False) if structured else content if isinstance(content, str) else None
    silent = "content" not in given and (bool(calls) or think is not None or (speaker is Speaker.TOOL and content is None))
    if calls is None or (text is None and not silent):
        return ChatMessage(kept, speaker, size=size, unclear="odd_tool_calls" if calls is None else "content_not_text")
    odd = [*oddities, *(["structured_result"] if structured else []), *(["extra_fields"] if given - _KNOWN_FIELDS else [])]
    odd += [] if (text or "").strip() or calls or think else ["empty_message"]
    return ChatMessage(
        original=kept,
        speaker=speaker,
        text=text or "",
        think=think,
        calls=tuple(call for call, _ in calls),
        call_ids=(_id(message.get("tool_call_id")),) if speaker is Speaker.TOOL else tuple(id for _, id in calls),
        oddities=tuple(dict.fromkeys(odd)),
        size=size,
        plain=not made and role in _PLAIN_ROLES and given <= _PLAIN_FIELDS["from" in message] and not structured,
    )


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
    name = inner.get("name") or inner.get("function")
    if not isinstance(name, str) or not name.strip():
        return None
    arguments = next((inner[key] for key in ("arguments", "parameters", "args", "input") if inner.get(key) is not None), {})
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


_TEXTS = frozenset((*NAMES["parts"]["text"], None))
_THOUGHTS, _CALLS, _RESULTS = (frozenset(NAMES["parts"][kind]) for kind in ("thought", "call", "result"))


@dataclass
class Piece:
    """What stands between two results in a list of parts, or one result."""

    texts: list[str] = field(default_factory=list)
    thoughts: list[str] = field(default_factory=list)
    calls: list[Any] = field(default_factory=list)
    result: bool = False
    answers: str = ""  # for a result the id of the call it answers
    parts: list[Any] = field(default_factory=list)  # all that it was read from
    left: list[str] = field(default_factory=list)  # kinds of those that could not be read, such as images

    def add(self, part: Any) -> None:
        """One part that is no result."""
        self.parts.append(part)
        kind, text = _kind(part), _plain_part(part)
        if isinstance(part, str):
            self.texts.append(part)
        elif kind in _CALLS:
            inner = next((part[key] for key in NAMES["fields"]["arguments"] if part.get(key) is not None), {})
            call = {"id": part.get("call_id") or part.get("id") or "", "name": part.get("name") or text, "arguments": inner}
            self.calls.append(part["value"] if isinstance(part.get("value"), str) else call)
        elif kind in _THOUGHTS:
            listed = [item for key in ("summary", "content") if isinstance(part.get(key), list) for item in part[key]]
            thought = text or "\n\n".join(filter(None, map(_plain_part, listed)))
            (self.thoughts if thought.strip() else self.left).append(thought if thought.strip() else str(kind))
        elif kind in _TEXTS and text is not None:
            self.texts.append(text)
        else:
            self.left.append(str(kind))


def is_parts(content: Any) -> TypeGuard[list[Any]]:
    """Whether a content is a list of parts: texts, and objects, each with a kind or a text."""
    if not isinstance(content, list) or not content:
        return False
    return all(isinstance(part, str) or _kind(part) is not None or _plain_part(part) is not None for part in content)


def read_parts(content: Sequence[Any]) -> list[Piece]:
    """The pieces of a list of parts, in order: never none, never two that are no result in a row."""
    pieces = [Piece()]
    for part in content:
        if _kind(part) not in _RESULTS:
            pieces[-1].add(part)
            continue
        told = next((part[key] for key in ("content", "output", "value") if part.get(key) is not None), "")
        asked = next((part[key] for key in ("tool_use_id", "tool_call_id", "call_id", "id") if part.get(key)), "")
        pieces += [Piece([_result_text(told)], result=True, answers=str(asked), parts=[part]), Piece()]
    return [piece for piece in pieces if piece.parts] or [Piece()]


def _kind(part: Any) -> str | None:
    kind = part.get("type") if isinstance(part, dict) else None
    return kind if isinstance(kind, str) else None


def _result_text(value: Any) -> Any:
    """The text of a result in parts that are all text; any other value itself."""
    pieces = read_parts(value) if is_parts(value) else []
    return "".join(pieces[0].texts) if len(pieces) == 1 and pieces[0].texts and not pieces[0].left else value


def _plain_part(part: Any) -> str | None:
    """The text of a part under whatever name, or None."""
    fields = part if isinstance(part, dict) else {}
    return next((fields[key] for key in NAMES["fields"]["text"] if isinstance(fields.get(key), str)), None)


def turns_of_items(items: list[Any]) -> list[Any]:
    """Items of OpenAI's Responses API as messages: those of an assistant that follow each other are one turn."""

    def is_own(item: Any) -> bool:
        kinds = ("reasoning", "function_call")
        return isinstance(item, dict) and (item.get("type") in kinds or item.get("role") == "assistant")

    found: list[Any] = []
    for own, group in groupby(items, is_own):
        if not own:
            for item in group:
                if isinstance(item, dict) and item.get("type") == "function_call_output":
                    text, id = _result_text(item.get("output")), item.get("call_id") or ""
                    item = understood({"role": "tool", "tool_call_id": id, "content": text}, item)
                found.append(item)
            continue
        turn, thoughts, texts, calls = list(group), [], [], []
        for item in turn:
            if item.get("type") == "function_call":
                calls.append({"id": item.get("call_id") or "", "name": item.get("name"), "arguments": item.get("arguments")})
                continue
            content = [item] if item.get("type") == "reasoning" else item.get("content")
            for piece in read_parts(content) if is_parts(content) else []:
                thoughts += piece.thoughts
                texts += ["".join(piece.texts)] if piece.texts else []
            texts += [content] if isinstance(content, str) else []
        content = "\n\n".join(texts) if texts or not (calls or thoughts) else None
        message: dict[str, Any] = {"role": "assistant", "content": content}
        message |= {"reasoning_content": "\n\n".join(thoughts)} if thoughts else {}
        message |= {"tool_calls": calls} if calls else {}
        found.append(understood(message, turn[0] if len(turn) == 1 else {"messages": turn}, size=len(turn)))
    return found
