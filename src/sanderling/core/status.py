"""What became of a tool call: the vocabulary that worlds, tools and records share."""

from enum import StrEnum


class ToolStatus(StrEnum):
    """What became of one call (or of one query or URL within it)."""

    OK = "ok"
    EMPTY = "empty"
    """The search found nothing."""
    NOT_FOUND = "not_found"
    GONE = "gone"
    TIMEOUT = "timeout"
    BLOCKED = "blocked"
    PAYWALLED = "paywalled"
    NOT_TEXT = "not_text"
    RATE_LIMITED = "rate_limited"
    BAD_ARGUMENTS = "bad_arguments"
    UNKNOWN_TOOL = "unknown_tool"
    OUTAGE = "outage"
