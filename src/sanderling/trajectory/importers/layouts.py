"""The recorded layouts, and how a file's first entry tells which one it is. Knows nothing of nodes."""

import json
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from sanderling.errors import UserError


class Layout(StrEnum):
    """How recorded trajectories are laid out in a file."""

    DR_VENUS_SFT = "dr-venus-sft"
    """``{"question", "messages", "gt"}``: one trajectory; also the inference script's record, which adds ``termination``."""
    DR_VENUS_RL = "dr-venus-rl"
    """``{"request_id", "sample_idx", "turn", "num_turns", "messages", "finished"}``: one rollout."""
    LITERESEARCHER_CASES = "literesearcher-cases"
    """``{"benchmark", "cases": [{"question", "steps", ...}]}``: the case viewer's file."""
    WEBDANCER_CHATML = "webdancer-chatml"
    """``{"type": "chatml", "messages", "answer", "tag", ...}``: tools and question share the first user message."""
    QUESTIONS = "questions"
    """``{"question", "answer", ...}`` without messages."""


@dataclass(frozen=True)
class Entries:
    """A file's entries: its lines, the items of its list, or the one object it is."""

    layout: Layout
    entries: tuple[tuple[int, Any], ...]
    """Index in the file, and the JSON value."""
    unreadable: tuple[tuple[int, str], ...] = ()
    """Lines that are no JSON: index and text."""


def detect(path: Path | str) -> Layout:
    """The layout of a file. Raises UserError when it is none of them."""
    return read_entries(Path(path)).layout


def read_entries(path: Path) -> Entries:
    """A file's entries and layout. Raises UserError when it cannot be read or is no recorded layout."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise UserError(f"Cannot read {path} ({error.strerror}): check the path.") from error
    except UnicodeDecodeError as error:
        raise UserError(f"{path} is not UTF-8 text: give a JSON or JSONL file of recorded trajectories.") from error
    entries, unreadable = _values(text)
    for _, value in entries:
        layout = _layout_of(value)
        if layout is not None:
            return Entries(layout, tuple(entries), tuple(unreadable))
    known = ", ".join(layout.value for layout in Layout)
    raise UserError(f"{path} holds no recorded trajectory: give a file in one of the layouts {known}.")


def _values(text: str) -> tuple[list[tuple[int, Any]], list[tuple[int, str]]]:
    whole = _json(text)
    if whole is not None:
        value = whole[0]
        return list(enumerate(value)) if isinstance(value, list) else [(0, value)], []
    found: list[tuple[int, Any]] = []
    unreadable: list[tuple[int, str]] = []
    for index, line in enumerate(line for line in text.split("\n") if line.strip()):
        value = _json(line)
        if value is None:
            unreadable.append((index, line))
        else:
            found.append((index, value[0]))
    return found, unreadable


def _json(text: str) -> tuple[Any] | None:
    """The value in a tuple, so that JSON's null is not taken for a failure."""
    try:
        return (json.loads(text),)
    except (ValueError, RecursionError):
        return None


def _layout_of(value: Any) -> Layout | None:
    if not isinstance(value, dict):
        return None
    if isinstance(value.get("cases"), list):
        return Layout.LITERESEARCHER_CASES
    if "schema_version" in value:
        return None
    if isinstance(value.get("messages"), list):
        if value.get("type") == "chatml" or "functions" in value:
            return Layout.WEBDANCER_CHATML
        return Layout.DR_VENUS_RL if "request_id" in value or "sample_idx" in value else Layout.DR_VENUS_SFT
    if isinstance(value.get("question"), str) and "answer" in value:
        return Layout.QUESTIONS
    return None
