"""Made-up files to import, and the messages that most of them hold."""

from pathlib import Path
from typing import Any

from made_files import save

from sanderling.core.record import Trajectory
from sanderling.data.conversation import ImportReport
from sanderling.data.importing import Import

SEARCH = '<think>\nhm\n</think>\n\n<tool_call>\n{"name": "search", "arguments": {"query": ["a"]}}\n</tool_call>'
SEEN = "<tool_response>\n[]\n</tool_response>"
DONE = "<think>\nok\n</think>\n\n<answer>\n42\n</answer>"
TALK = [
    {"role": "user", "content": "why?"}, {"role": "assistant", "content": SEARCH}, {"role": "user", "content": SEEN},
    {"role": "assistant", "content": DONE},
]  # fmt: skip


def call(id: Any, name: Any, arguments: Any) -> dict[str, Any]:
    """A call as OpenAI's messages hold one."""
    return {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}


def read(tmp_path: Path, value: Any, name: str = "a.json") -> tuple[tuple[Trajectory, ...], ImportReport]:
    """The trajectories of a file, and what the import noted."""
    found = list(reading := Import(save(tmp_path / name, value)))
    return tuple(one for one in found if isinstance(one, Trajectory)), reading.report


def codes(report: ImportReport) -> dict[str, int]:
    """Odd things and how often they were met."""
    return dict(report.odd)


def kinds(trajectory: Trajectory) -> list[str]:
    """What each node is."""
    return [node.kind.value for node in trajectory.nodes]


def called(trajectory: Trajectory) -> list[tuple[str, dict[str, Any]]]:
    """All calls, in order."""
    return [(call.name, call.arguments) for node in trajectory.nodes for call in node.calls]
