"""AgentToLeaP, AgentCPM-Explore's evaluation: ``result.json`` of each attempt, and the file of right dialogues.

``result.json`` holds the whole history; ``dialog.json`` beside it repeats it, or its first part where the context was reset
(later parts stand in folders ``TASK-context-N``, without a result, and are bare lists of messages). The task itself, with its
accepted answer, is ``gaia_sample``. A run that failed has no ending, as the file does not say whose failure it was.
"""

from typing import Any

from sanderling.trajectory.importers.conversation import Told, conversation, messages_in
from sanderling.trajectory.importers.fields import accepted, asked, record_of
from sanderling.trajectory.importers.layouts import Layout, LayoutReader
from sanderling.trajectory.importers.report import Notes
from sanderling.trajectory.record import Trajectory

_KEYS = ("conversation_history", "dialog")
REPEATED = frozenset(
    {"dialog.json", "trace.json", "tool_calls.json", "meta_config.json", "llm_interactions.json", "logprobs.json"}
)
"""Files that repeat a part of the ``result.json`` beside them."""


def _key(entry: dict[str, Any]) -> str | None:
    return next((key for key in _KEYS if messages_in(entry, key) is not None), None)


def _read(entry: dict[str, Any], id: str, notes: Notes) -> Trajectory:
    key = _key(entry) or _KEYS[0]
    sample = record_of(entry, "gaia_sample")
    told = Told(asked(sample) or asked(entry, ("query", "question")), accepted(sample) or accepted(entry))
    if entry.get("success") is False:
        notes.add("failed_run", id, entry.get("error", ""))
    return conversation(entry, messages_in(entry, key) or [], id, notes, told=told, held={key})


AGENTTOLEAP = LayoutReader(Layout.AGENTTOLEAP, lambda entry: _key(entry) is not None, _read)
