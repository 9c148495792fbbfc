"""Content that is a list of parts, as chat APIs give it, as one or several messages of plain fields.

Parts are texts (``text``, ``output_text``, ``input_text``), reasoning (``thinking``, ``reasoning``), calls (``tool_use``,
``tool_call``, ``function_call``) and results (``tool_result``). A result is a message of the tool wherever it stands; what
stands between results is one message of the role that speaks. Parts of other kinds (images, files) are named, not read:
the caller keeps the message they stood in. Knows no layout and no nodes.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, TypeGuard

_TEXTS = frozenset({"text", "output_text", "input_text", "refusal", None})
_THOUGHTS = frozenset({"reasoning", "thinking", "thought", "think", "summary_text", "reasoning_text"})
_CALLS = frozenset({"tool_use", "tool_call", "function_call", "server_tool_use", "mcp_call"})
_RESULTS = frozenset({"tool_result", "function_call_output", "web_search_tool_result", "tool_response"})
_TEXT_FIELDS = ("text", "value", "content", "thinking", "reasoning", "refusal")


@dataclass
class Piece:
    """What stands between two results, or one result."""

    texts: list[str] = field(default_factory=list)
    thoughts: list[str] = field(default_factory=list)
    calls: list[Any] = field(default_factory=list)
    result: bool = False
    answers: str = ""
    """For a result the id of the call it answers."""
    parts: list[Any] = field(default_factory=list)
    """The parts that it was read from, and those nobody can read."""
    left: list[str] = field(default_factory=list)
    """Kinds of the parts that could not be read."""

    @property
    def text(self) -> str:
        return "".join(self.texts)

    @property
    def think(self) -> str | None:
        return "\n\n".join(self.thoughts) or None

    @property
    def read(self) -> bool:
        """Whether anything of it could be read."""
        return self.result or bool(self.texts or self.thoughts or self.calls)


def is_parts(content: Any) -> TypeGuard[list[Any]]:
    """Whether a content is a list of parts: objects, each with a kind or a text."""
    return isinstance(content, list) and bool(content) and all(_is_part(part) for part in content)


def read_parts(content: Sequence[Any]) -> list[Piece]:
    """The pieces of a list of parts, in order: never none, never two that are no result in a row."""
    pieces = [Piece()]
    for part in content:
        kind = part.get("type") if isinstance(part, dict) else None
        if kind in _RESULTS:
            told = next((part[key] for key in ("content", "output", "value") if part.get(key) is not None), "")
            asked = next((part[key] for key in ("tool_use_id", "tool_call_id", "call_id", "id") if part.get(key)), "")
            pieces += [Piece([_result_text(told)], result=True, answers=str(asked), parts=[part]), Piece()]
            continue
        pieces[-1].parts.append(part)
        _add(part, kind, pieces[-1])
    found = [piece for piece in pieces if piece.parts]
    return found or [Piece()]


def _add(part: Any, kind: Any, piece: Piece) -> None:
    if isinstance(part, str):
        piece.texts.append(part)
        return
    text = plain_text(part)
    if kind in _CALLS:
        piece.calls.append(part.get("value") if isinstance(part.get("value"), str) else part)
    elif kind in _THOUGHTS:
        thought = text or plain_text({"text": "\n\n".join(_summary(part))})
        piece.thoughts += [thought] if thought and thought.strip() else []
        piece.left += [] if thought and thought.strip() else [str(kind)]
    elif kind in _TEXTS and text is not None:
        piece.texts.append(text)
    else:
        piece.left.append(str(kind))


def plain_text(part: Any) -> str | None:
    """The text of a part under whatever name, or None."""
    return next((part[key] for key in _TEXT_FIELDS if isinstance(part.get(key), str)), None) if isinstance(part, dict) else None


def _summary(part: dict[str, Any]) -> list[str]:
    """Reasoning that is told in a list of texts."""
    listed = [*_listed(part.get("summary")), *_listed(part.get("content"))]
    return [text for item in listed if (text := plain_text(item))]


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _result_text(value: Any) -> Any:
    """A result's text, where it is one or all its parts are; the value itself otherwise."""
    if is_parts(value):
        (piece, *more) = read_parts(value)
        if not more and piece.texts and not piece.left:
            return piece.text
    return value


def _is_part(part: Any) -> bool:
    return isinstance(part, str) or (
        isinstance(part, dict) and (isinstance(part.get("type"), str) or plain_text(part) is not None)
    )
