"""All layouts, in the order in which they are asked whether an entry is theirs: the most particular first."""

from typing import Any

from sanderling.trajectory.importers.agenttoleap import AGENTTOLEAP
from sanderling.trajectory.importers.drvenus import DR_VENUS_RL, DR_VENUS_SFT
from sanderling.trajectory.importers.layouts import LayoutReader
from sanderling.trajectory.importers.literesearcher import LITERESEARCHER_CASES
from sanderling.trajectory.importers.openai import OPENAI_LOG, OPENAI_MESSAGES
from sanderling.trajectory.importers.own import OWN_RECORD
from sanderling.trajectory.importers.questionsets import OWN_QUESTION, QUESTIONS
from sanderling.trajectory.importers.redsearcher import REDSEARCHER
from sanderling.trajectory.importers.rlrows import LITERESEARCHER_RL, VERL
from sanderling.trajectory.importers.sharegpt import SHAREGPT
from sanderling.trajectory.importers.tongyi import TONGYI
from sanderling.trajectory.importers.webdancer import WEBDANCER

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
    OPENAI_MESSAGES,
    LITERESEARCHER_RL,
    VERL,
    QUESTIONS,
)
_AROUND = ("cases", "data", "rows", "train", "items", "examples", "questions", "trajectories", "records", "samples")
"""Fields of an object that is nothing but a wrapper around a list of entries."""


def reader_of(entry: Any) -> LayoutReader | None:
    """The layout of one entry; None when it is none of them."""
    if not isinstance(entry, dict):
        return None
    return next((reader for reader in LAYOUTS if reader.recognises(entry)), None)


def entries_in(value: Any) -> list[Any]:
    """The entries that one value of a file holds: those of the list it wraps, or the value itself.

    A bare list of messages is one conversation.
    """
    if isinstance(value, list):
        return [{"messages": value}] if is_conversation(value) else value
    if not isinstance(value, dict) or reader_of(value) is not None:
        return [value]
    if isinstance(value.get("row"), dict):
        return [value["row"]]
    for key in _AROUND:
        inner = value.get(key)
        if isinstance(inner, list) and (key == "cases" or any(_known(item) for item in inner[:3])):
            return [item["row"] if _is_wrapped_row(item) else item for item in inner]
    return [value]


def is_conversation(value: list[Any]) -> bool:
    """Whether a list is the messages of one conversation."""
    first = value[0] if value else None
    return isinstance(first, dict) and isinstance(first.get("role", first.get("from")), str) and reader_of(first) is None


def _known(item: Any) -> bool:
    return reader_of(item) is not None or _is_wrapped_row(item)


def _is_wrapped_row(item: Any) -> bool:
    return isinstance(item, dict) and isinstance(item.get("row"), dict) and reader_of(item["row"]) is not None
