"""Messages of other families in the one form that :mod:`messages` understands.

Contract: :func:`units` never raises. What a message says is in its units, in order; the first stands for the message in every
count, further ones for nothing. A unit keeps what it was made of in ``original``, so that a node made of it can hold it.
Families: lists of parts (:mod:`parts`), LangChain (``type`` for a role, ``kwargs``), Harmony (``channel``, ``recipient``),
and pairs (``{"human", "assistant"}``). Any other message is its own one unit, as it is.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sanderling.data.importers.messages import as_json
from sanderling.data.importers.parts import Piece, is_parts, plain_text, read_parts

_LANGCHAIN = {
    "human": "user",
    "HumanMessage": "user",
    "ai": "assistant",
    "AIMessage": "assistant",
    "AIMessageChunk": "assistant",
    "system": "system",
    "SystemMessage": "system",
    "tool": "tool",
    "ToolMessage": "tool",
    "function": "function",
    "FunctionMessage": "function",
}
_PAIRS = (("human", "user"), ("user", "user"), ("assistant", "assistant"), ("gpt", "assistant"))
_LIFTED = ("reasoning_content", "tool_calls", "function_call")
_OWN = "assistant"


@dataclass(frozen=True)
class Unit:
    """One message in the common form."""

    message: Any
    original: Any
    """What it was made of."""
    size: int = 1
    """How many messages of the file it stands for."""
    oddities: tuple[str, ...] = ()

    @property
    def translated(self) -> bool:
        return self.message is not self.original


def units(message: Any) -> list[Unit]:
    """The units of one message: one, or several where a message holds the results of tools."""
    if isinstance(message, Unit):
        return [message]
    if not isinstance(message, dict):
        return [Unit(message, message)]
    pair = _pair(message)
    if pair:
        return pair
    named = _langchain(message)
    content = named.get("content")
    if isinstance(named.get("channel"), str) or isinstance(named.get("recipient"), str):
        return [_harmony(named, message)]
    if _has_role(named) and is_parts(content):
        return _spread(named, content, message)
    if _has_role(named) and isinstance(named.get("text"), str) and content is None and named.get("value") is None:
        return [Unit({**named, "content": named["text"], "text": None}, message)]
    return [Unit(named, message)]


def is_message(value: Any) -> bool:
    """Whether a value looks like one message of any family."""
    if not isinstance(value, dict):
        return False
    if _has_role(value):
        return bool({"content", "value", "tool_calls", "function_call", "text"} & set(value))
    return _langchain(value) is not value or bool(_pair(value))


def _has_role(message: Mapping[str, Any]) -> bool:
    return isinstance(message.get("role", message.get("from")), str)


def _pair(message: dict[str, Any]) -> list[Unit]:
    """A question and its answer in one object."""
    given = [(key, role) for key, role in _PAIRS if isinstance(message.get(key), str)]
    if len(message) > 3 or {role for _, role in given} != {"user", "assistant"}:
        return []
    made = [Unit({"role": role, "content": message[key]}, {key: message[key]}, size=0) for key, role in given]
    return [Unit(made[0].message, made[0].original), *made[1:]]


def _langchain(message: dict[str, Any]) -> dict[str, Any]:
    """A message of LangChain with a role and its fields where others have them; any other as it is."""
    inner, kind = message, message.get("type")
    if isinstance(message.get("kwargs"), dict) and isinstance(message.get("id"), list) and message["id"]:
        inner, kind = message["kwargs"], message["id"][-1]
    elif isinstance(message.get("data"), dict) and kind in _LANGCHAIN:
        inner = message["data"]
    role = _LANGCHAIN.get(kind) if isinstance(kind, str) else None
    if role is None or _has_role(message) or "content" not in inner:
        return message
    beside = inner.get("additional_kwargs")
    lifted = {key: beside[key] for key in _LIFTED if key in beside} if isinstance(beside, dict) else {}
    fields = ("content", "tool_calls", "tool_call_id", "name", *_LIFTED)
    own = {key: inner[key] for key in fields if inner.get(key) not in (None, [])}
    return {"role": role, "content": inner["content"], **lifted, **own}


def _harmony(message: dict[str, Any], original: dict[str, Any]) -> Unit:
    """A message of the channels analysis, commentary and final, and of a call's recipient."""
    content, role = message.get("content"), message.get("role", message.get("from"))
    parts = read_parts(content) if is_parts(content) else []
    text = content if isinstance(content, str) else "".join(piece.text for piece in parts) if parts else None
    if text is None or (parts and not any(piece.texts for piece in parts)):
        return Unit({"role": role, "content": as_json(content)}, original, oddities=("structured_system",) if parts else ())
    recipient, channel = message.get("recipient"), message.get("channel")
    if role == _OWN and isinstance(recipient, str) and recipient not in ("assistant", "all", "user", ""):
        called = {"id": "", "name": recipient.removeprefix("functions."), "arguments": text}
        return Unit({"role": role, "content": None, "tool_calls": [called]}, original)
    if role == _OWN:
        role = {"analysis": "thought", "final": "answer"}.get(channel if isinstance(channel, str) else "", role)
    named = {"name": message["name"]} if isinstance(message.get("name"), str) else {}
    return Unit({"role": role, "content": text, **named}, original)


def _spread(message: dict[str, Any], content: list[Any], original: dict[str, Any]) -> list[Unit]:
    """A message whose content is parts."""
    role = message.get("role", message.get("from"))
    pieces = read_parts(content)
    left = [kind for piece in pieces for kind in piece.left]
    if role == "system" and not any(piece.read for piece in pieces):
        return [Unit({"role": role, "content": as_json(content)}, original, oddities=("structured_system",))]
    if not any(piece.read for piece in pieces) or (left and role in ("tool", "function", "observation")):
        return [Unit(message, original)]
    oddities = ("content_in_parts", *(("parts_left_out",) if left else ()))
    made: list[Unit] = []
    for number, piece in enumerate(pieces):
        own = original if len(pieces) == 1 else {**original, "content": piece.parts}
        made.append(Unit(_said(message, role, piece), own, 0 if number else 1, () if number else oddities))
    return made


def _said(message: dict[str, Any], role: Any, piece: Piece) -> dict[str, Any]:
    """One piece as a message."""
    if piece.result:
        return {"role": "tool", "tool_call_id": piece.answers, "content": piece.texts[0]}
    fields = {key: value for key, value in message.items() if key not in ("content", "value", "from", "role")}
    fields |= {"reasoning_content": piece.think} if piece.think and not fields.get("reasoning_content") else {}
    fields |= {"tool_calls": [_call(call) for call in piece.calls]} if piece.calls and not fields.get("tool_calls") else {}
    only_fields = role == _OWN and not piece.texts and (piece.calls or piece.think)
    return {"role": role, "content": None if only_fields else piece.text, **fields}


def _call(given: Any) -> Any:
    """A call as :func:`messages.read_call` reads it."""
    if not isinstance(given, dict):
        return given
    inner = next((given[key] for key in ("input", "arguments", "args", "parameters") if given.get(key) is not None), {})
    name = given.get("name") or plain_text(given)
    return {"id": given.get("call_id") or given.get("id") or "", "name": name, "arguments": inner}


def unit_of(messages: list[dict[str, Any]], common: dict[str, Any]) -> Unit:
    """One message that several of a file make up together."""
    return Unit(common, messages[0] if len(messages) == 1 else {"messages": messages}, size=len(messages))


def text_unit(role: str, content: str, original: str) -> Unit:
    """A message that was cut out of a longer text."""
    return Unit({"role": role, "content": content}, {"role": role, "content": original})
