"""DR-Venus: supervised trajectories, RL rollouts and the inference script's records.

The supervised files say what would be right (``gt``) and not how the episode ended; the rollouts say that they finished; only
the inference records name their termination.
"""

from typing import Any

from sanderling.core.record import Trajectory
from sanderling.data.importers.conversation import Told, conversation, messages_in
from sanderling.data.importers.fields import texts
from sanderling.data.importers.layouts import Layout, LayoutReader
from sanderling.data.importers.report import Notes

_HELD = frozenset({"question", "messages", "gt"})


def _is_sft(entry: dict[str, Any]) -> bool:
    named = isinstance(entry.get("question"), str) and "answer" not in entry
    return messages_in(entry) is not None and ("gt" in entry or (named and "prediction" in entry) or "termination" in entry)


def _is_rl(entry: dict[str, Any]) -> bool:
    return messages_in(entry) is not None and ("request_id" in entry or "sample_idx" in entry)


def read_trajectory(entry: dict[str, Any], id: str, notes: Notes) -> Trajectory:
    """One file's object as a trajectory."""
    asked = entry.get("question")
    told = Told(asked if isinstance(asked, str) else None, texts(entry.get("gt")))
    held = _HELD if told.question is not None else _HELD - {"question"}
    return conversation(entry, messages_in(entry) or [], id, notes, told=told, held=held)


DR_VENUS_SFT = LayoutReader(Layout.DR_VENUS_SFT, _is_sft, read_trajectory)
DR_VENUS_RL = LayoutReader(Layout.DR_VENUS_RL, _is_rl, read_trajectory)
