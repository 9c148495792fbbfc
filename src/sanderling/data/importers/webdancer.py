r"""WebDancer's ChatML: the first user message holds the tools' description and, after ``User: ``, the question.

Answers are nested lists of accepted texts. The files do not say how an episode ended.
"""

from typing import Any

from sanderling.core.record import Trajectory
from sanderling.data.importers.conversation import Told, conversation, messages_in
from sanderling.data.importers.fields import texts
from sanderling.data.importers.layouts import Layout, LayoutReader
from sanderling.data.importers.report import Notes

_MARK = "\nUser: "
_HELD = frozenset({"messages", "answer"})


def _is_chatml(entry: dict[str, Any]) -> bool:
    return messages_in(entry) is not None and (entry.get("type") == "chatml" or "functions" in entry)


def read_trajectory(entry: dict[str, Any], id: str, notes: Notes) -> Trajectory:
    """One line as a trajectory."""
    messages = messages_in(entry) or []
    first = next((m.get("content") for m in messages if isinstance(m, dict) and m.get("role") == "user"), None)
    shown = first if isinstance(first, str) else ""
    _, mark, asked = shown.rpartition(_MARK)
    if not mark:
        notes.add("no_question_mark", id, shown[-200:])
    told = Told(asked.strip(), texts(entry.get("answer")))
    return conversation(entry, messages, id, notes, told=told, held=_HELD)


WEBDANCER = LayoutReader(Layout.WEBDANCER_CHATML, _is_chatml, read_trajectory)
