"""REDSearcher's supervised Parquet: question and answer in ``meta``, the system prompt in a column of its own.

The files do not say how an episode ended.
"""

from typing import Any

from sanderling.core.record import Trajectory
from sanderling.data.importers.conversation import Told, conversation, messages_in, with_system
from sanderling.data.importers.fields import accepted, asked, record_of
from sanderling.data.importers.layouts import Layout, LayoutReader
from sanderling.data.importers.report import Notes

_PROMPT = "system_prompt"


def _is_redsearcher(entry: dict[str, Any]) -> bool:
    if messages_in(entry) is None:
        return False
    return asked(record_of(entry, "meta")) is not None or isinstance(entry.get(_PROMPT), str)


def _read(entry: dict[str, Any], id: str, notes: Notes) -> Trajectory:
    messages = messages_in(entry) or []
    whole = with_system(entry, messages, _PROMPT)
    meta = record_of(entry, "meta")
    told = Told(asked(meta) or asked(entry), accepted(meta) or accepted(entry))
    held = {"messages", *([_PROMPT] if whole is not messages else [])}
    return conversation(entry, whole, id, notes, told=told, held=held)


REDSEARCHER = LayoutReader(Layout.REDSEARCHER_SFT, _is_redsearcher, _read)
