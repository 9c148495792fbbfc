"""ShareGPT, as LLaMA-Factory trains on it: turns as ``{"from", "value"}``, ``system`` and ``tools`` beside them.

``function_call`` messages are turns that call, ``observation`` messages what the tools returned. ``tools`` stays in ``meta``.
"""

from typing import Any

from sanderling.core.record import Trajectory
from sanderling.data.importers.conversation import Told, conversation, messages_in, with_system
from sanderling.data.importers.fields import SURE_QUESTION_KEYS, accepted, asked
from sanderling.data.importers.layouts import Layout, LayoutReader
from sanderling.data.importers.report import Notes

_KEYS = ("conversations", "conversation")


def _key(entry: dict[str, Any]) -> str | None:
    return next((key for key in _KEYS if messages_in(entry, key) is not None), None)


def _read(entry: dict[str, Any], id: str, notes: Notes) -> Trajectory:
    key = _key(entry) or _KEYS[0]
    messages = messages_in(entry, key) or []
    whole = with_system(entry, messages, "system")
    held = {key, *(["system"] if whole is not messages else [])}
    told = Told(asked(entry, SURE_QUESTION_KEYS), accepted(entry))
    return conversation(entry, whole, id, notes, told=told, held=held)


SHAREGPT = LayoutReader(Layout.SHAREGPT, lambda entry: _key(entry) is not None, _read)
