"""What stands in MCP's ``_meta`` beside its own words, so that a tool behind a server is the tool itself.

With a call goes its context, with a result its status and where its text is from; servers and clients that know nothing of it
lose nothing but that. A world's search and visit carry their replies whole, and are laid out by whoever asked.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import mcp_types as types
from pydantic import TypeAdapter, ValidationError

from sanderling.core.types import ToolStatus
from sanderling.tools.contract import ToolContext, ToolOutageError, ToolResult
from sanderling.world.contract import NO_OCCASION, Occasion, SearchReply, VisitReply

CONTEXT, RESULT = "sanderling/context", "sanderling/result"
LEAVE = "sanderling/leave"  # the session that is over, in a call that runs nothing
KEPT = "sanderling/kept"  # with a result: since when something is kept for its session; another word: it was lost meanwhile
ABOUT = "sanderling/about"  # of a tool, in a server's list
DOWN = "sanderling/down"  # with a list of tools: why others that belong there are not in it
WORLD = "sanderling/world"  # with a call: the occasion, and what is not the model's to choose; with a result: the replies
MOST_CHARACTERS = 400_000  # of a result: a hundred thousand tokens
_HALF = re.compile(rb"\\u[dD][89a-fA-F]")
_FAILED = (ToolStatus.FAILED, ToolStatus.BAD_ARGUMENTS, ToolStatus.UNKNOWN_TOOL, ToolStatus.OUTAGE)
_CONTEXT, _RESULT = TypeAdapter(ToolContext), TypeAdapter(ToolResult)
_OCCASION = TypeAdapter(Occasion)
SEARCHED, VISITED = TypeAdapter(tuple[SearchReply, ...]), TypeAdapter(tuple[VisitReply, ...])


@dataclass(frozen=True)
class About:
    """What a server's list says of a tool: whether it keeps something for a session, or which world it asks, and how."""

    keeps: bool = False
    world: str = ""  # its name; empty: it asks none
    fingerprint: str = ""
    page_count: int = 0
    offline: bool = True
    part: str = ""  # "search" or "visit"

    @classmethod
    def of(cls, tool: types.Tool) -> "About":
        try:
            return _ABOUT.validate_python((tool.meta or {}).get(ABOUT) or {})
        except ValidationError:
            return cls()

    def as_meta(self) -> dict[str, Any]:
        return {ABOUT: _ABOUT.dump_python(self, exclude_defaults=True)}


_ABOUT = TypeAdapter(About)


def is_harmless(tool: types.Tool) -> bool:
    """Whether its server says that it may be called again."""
    hints = tool.annotations
    return bool(hints and (hints.idempotent_hint or hints.read_only_hint))


def sendable(values: Mapping[str, Any]) -> dict[str, Any]:
    """JSON that every reader takes: halves of surrogate pairs become question marks. Raises ValueError for what is no JSON."""
    try:
        text = json.dumps(values, ensure_ascii=False, allow_nan=False)
        try:
            text.encode()
            return dict(values)  # which takes a third of the time
        except UnicodeEncodeError:
            return json.loads(text.encode("utf-8", "replace"))
    except (TypeError, RecursionError) as error:
        raise ValueError(str(error)) from error


def mended(message: bytes) -> bytes:
    """A message as strict readers take it, where other writers wrote half a surrogate pair; anything else as it is."""
    if _HALF.search(message) is None:
        return message
    try:
        return json.dumps(json.loads(message), ensure_ascii=False).encode("utf-8", "replace")
    except (ValueError, RecursionError):
        return message


def sent_context(context: ToolContext) -> dict[str, Any]:
    """What goes with the call of a tool."""
    return {CONTEXT: _CONTEXT.dump_python(context, mode="json", exclude={"tell"}, exclude_defaults=True)}


def read_context(meta: Mapping[str, Any]) -> ToolContext:
    """The context of a call; of one without, or with something else in its place, that of nobody."""
    try:
        return _CONTEXT.validate_python(meta.get(CONTEXT) or {})
    except ValidationError:
        return ToolContext()


def sent_occasion(occasion: Occasion, **more: Any) -> dict[str, Any]:
    """What goes with a world's search or visit."""
    kept = _OCCASION.dump_python(occasion, mode="json", exclude={"fetched"}, exclude_defaults=True)
    return {WORLD: {"occasion": kept, **more}}


def read_occasion(meta: Mapping[str, Any]) -> Occasion:
    """The occasion of a search or visit, as `read_context`."""
    try:
        return _OCCASION.validate_python((meta.get(WORLD) or {}).get("occasion") or {})
    except (ValidationError, AttributeError):
        return NO_OCCASION


def sent_result(result: ToolResult, **meta: str) -> types.CallToolResult:
    """A tool's result for any client, whole for one of ours."""
    kept = _RESULT.dump_python(result, mode="json", exclude={"text"}, exclude_defaults=True)
    content: list[types.ContentBlock] = [types.TextContent(text=result.text.encode("utf-8", "replace").decode())]
    return types.CallToolResult(content=content, is_error=result.status in _FAILED, _meta={RESULT: kept, **meta})


def read_result(result: types.CallToolResult, seconds: float) -> ToolResult:
    """What a server returned; of one that is not ours its text, in ``seconds``. Raises ToolOutageError."""
    text = "\n\n".join(filter(None, map(_shown, result.content)))
    if not text and result.structured_content is not None:
        text = TypeAdapter(Any).dump_json(result.structured_content, indent=1).decode()
    if len(text) > MOST_CHARACTERS:
        text = f"{text[:MOST_CHARACTERS]}\n\n(Of {len(text):,} characters only the first {MOST_CHARACTERS:,} are shown.)"
    kept = (result.meta or {}).get(RESULT)
    if kept is None:
        return ToolResult(text or "(no text)", ToolStatus.FAILED if result.is_error else ToolStatus.OK, seconds)
    try:
        found = _RESULT.validate_python({**kept, "text": text})
    except (ValidationError, TypeError) as error:
        raise ToolOutageError("The server's result is none of this version of sanderling's: let both be of one.") from error
    if found.status is ToolStatus.OUTAGE:
        raise ToolOutageError(text)
    return found


def _shown(block: types.ContentBlock) -> str:
    """A block of a result as a model of text can read it."""
    if isinstance(block, types.TextContent):
        return block.text
    if isinstance(block, types.ResourceLink):
        return f"{block.title or block.name}: {block.uri}"
    if isinstance(block, types.EmbeddedResource):
        resource = block.resource
        return resource.text if isinstance(resource, types.TextResourceContents) else f"({resource.uri}: no text)"
    return f"({block.mime_type}: not shown)"
