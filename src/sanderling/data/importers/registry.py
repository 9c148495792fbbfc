"""All layouts, in the order in which they are asked whether an entry is theirs: the most particular first."""

from typing import Any

from sanderling.data.importers.agenttoleap import AGENTTOLEAP
from sanderling.data.importers.drvenus import DR_VENUS_RL, DR_VENUS_SFT
from sanderling.data.importers.forms import is_message
from sanderling.data.importers.layouts import LayoutReader
from sanderling.data.importers.literesearcher import LITERESEARCHER_CASES
from sanderling.data.importers.openai import OPENAI_LOG, OPENAI_MESSAGES
from sanderling.data.importers.own import OWN_RECORD
from sanderling.data.importers.questionsets import OWN_QUESTION, QUESTIONS
from sanderling.data.importers.redsearcher import REDSEARCHER
from sanderling.data.importers.responses import RESPONSES
from sanderling.data.importers.rlrows import LITERESEARCHER_RL, VERL
from sanderling.data.importers.sharegpt import SHAREGPT
from sanderling.data.importers.tongyi import TONGYI
from sanderling.data.importers.transcript import TRANSCRIPT
from sanderling.data.importers.webdancer import WEBDANCER

LAYOUTS: tuple[LayoutReader, ...] = (
    OWN_RECORD,
    OWN_QUESTION,
    LITERESEARCHER_CASES,
    AGENTTOLEAP,
    OPENAI_LOG,
    WEBDANCER,
    DR_VENUS_RL,
    TONGYI,
    DR_VENUS_SFT,
    REDSEARCHER,
    SHAREGPT,
    RESPONSES,
    OPENAI_MESSAGES,
    TRANSCRIPT,
    LITERESEARCHER_RL,
    VERL,
    QUESTIONS,
)


def reader_of(entry: Any) -> LayoutReader | None:
    """The layout of one entry; None when it is none of them."""
    if not isinstance(entry, dict):
        return None
    return next((reader for reader in LAYOUTS if reader.recognises(entry)), None)


def entries_in(value: Any) -> list[Any]:
    """The entries that one value of a file holds: those of the list it wraps, or the value itself.

    A wrapper is an object with a field that is a list of entries, or one that holds entries by their ids. A bare list of
    messages is one conversation. Conversations inside another one (its sub-agents') follow it as entries of their own.
    """
    return [one for entry in _wrapped(value) for one in _with_inner(entry)]


def _with_inner(entry: Any) -> list[Any]:
    """An entry with a conversation, and after it those that stand in a list of entries inside it."""
    if not isinstance(entry, dict) or not isinstance(entry.get("messages"), list):
        return [entry]
    inner = {key: value for key, value in entry.items() if _is_list_of_conversations(value)}
    rest = {key: value for key, value in entry.items() if key not in inner} if inner else entry
    return [rest, *(item for value in inner.values() for item in value)]


def _is_list_of_conversations(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(item, dict) and _messages(item) for item in value)


def _messages(item: dict[str, Any]) -> bool:
    found = item.get("messages")
    return isinstance(found, list) and bool(found) and is_message(found[0])


def _wrapped(value: Any) -> list[Any]:
    """The entries of a wrapper, or the value."""
    if isinstance(value, list):
        return [{"messages": value}] if is_conversation(value) else value
    if not isinstance(value, dict) or reader_of(value) is not None:
        return [value]
    if isinstance(value.get("row"), dict):
        return [value["row"]]
    lists = [(key, inner) for key, inner in value.items() if isinstance(inner, list)]
    for key, inner in lists:
        if key == "cases" or any(_known(item) for item in inner[:3]):
            return [item["row"] if _is_wrapped_row(item) else item for item in inner]
    if len(value) > 1 and all(isinstance(item, dict) for item in value.values()):  # entries by their ids
        named = [item if "id" in item else {"id": key, **item} for key, item in value.items()]
        return named if any(_known(item) for item in named[:3]) else [value]
    return [value]


def is_conversation(value: list[Any]) -> bool:
    """Whether a list is the messages of one conversation."""
    first = value[0] if value else None
    return is_message(first) and reader_of(first) is None


def _known(item: Any) -> bool:
    return reader_of(item) is not None or _is_wrapped_row(item)


def _is_wrapped_row(item: Any) -> bool:
    return isinstance(item, dict) and isinstance(item.get("row"), dict) and reader_of(item["row"]) is not None
