"""The words of a conversation: roles, messages, tool calls and tool specifications.

Plain data without behaviour. Knows nothing of tokens, of how tools work, or of any one model's template.
"""

from enum import StrEnum
from typing import Any

from pydantic import BaseModel, ConfigDict


class Role(StrEnum):
    """Who speaks. Observations are user messages: the three systems' models were trained that way."""

    SYSTEM = "system"
    USER = "user"
    ASSISTANT = "assistant"


class Message(BaseModel):
    """One message as a chat endpoint would take it."""

    model_config = ConfigDict(frozen=True)

    role: Role
    content: str


class ToolCall(BaseModel):
    """One call as the model wrote it, after tolerant parsing.

    Example: ``ToolCall(name="search", arguments={"query": ["tidal flats"]}, raw='{"name": "search", ...}')``
    """

    model_config = ConfigDict(frozen=True)

    name: str
    arguments: dict[str, Any]
    raw: str = ""
    """The text between the call's tags, exactly as written."""


class ToolSpec(BaseModel):
    """What the model is told about a tool: name, purpose, and a JSON schema of its arguments."""

    model_config = ConfigDict(frozen=True)

    name: str
    description: str
    parameters: dict[str, Any]
