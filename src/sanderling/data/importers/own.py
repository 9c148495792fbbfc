"""Our own records of trajectories, which come back exactly as they are, ids included."""

from typing import Any

from sanderling.core.record import NodeKind, Trajectory, decode_trajectory
from sanderling.data.importers.layouts import Layout, LayoutReader
from sanderling.data.importers.report import Notes


def _read(entry: dict[str, Any], id: str, notes: Notes) -> Trajectory | None:
    try:
        found = decode_trajectory(entry)
    except ValueError as error:
        notes.add("odd_record", id, error)
        return None
    count_own(found, notes)
    return found


def count_own(trajectory: Trajectory, notes: Notes) -> None:
    """Count the nodes of a record as its messages."""
    raw = sum(node.kind is NodeKind.RAW for node in trajectory.nodes)
    notes.tally("messages", len(trajectory.nodes))
    notes.tally("raw", raw)
    notes.tally("kept", len(trajectory.nodes) - raw)


OWN_RECORD = LayoutReader(Layout.SANDERLING, lambda entry: "schema_version" in entry and "nodes" in entry, _read)
