"""Metrics as JSON lines: one object a step, appended; on resuming, lines past the checkpoint are cut off. Knows no training."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sanderling.core.errors import UserError
from sanderling.core.record import encode_record
from sanderling.runs.files import replace_file
from sanderling.runs.jsonl import JsonlLog


class MetricsLog:
    """An append-only ``metrics.jsonl``, every line with its ``step``."""

    def __init__(self, path: Path, resume_step: int = 0) -> None:
        """Open for appending; lines of steps after ``resume_step``, and a torn last line, are dropped."""
        kept = [line for line in read_metrics(path) if line["step"] <= resume_step]
        replace_file(path, b"".join(encode_record(line) + b"\n" for line in kept))
        self._log = JsonlLog(path)

    def append(self, values: Mapping[str, float | int | str]) -> None:
        """Add one step's figures durably. Raises UserError when the file cannot be written."""
        self._log.append(dict(values))


def read_metrics(path: Path) -> list[dict[str, Any]]:
    """All lines of a metrics file, but for a torn last one; none when it does not exist.

    Raises UserError for any other line that is not the metrics of a step.
    """
    lines = JsonlLog(path).read_all()
    if any(not isinstance(line.get("step"), int) for line in lines):
        raise UserError(f"{path} holds lines without a step: remove it, or begin the run again.")
    return lines
