"""Metrics as JSON lines: one object a step, appended; on resuming, lines past the checkpoint are cut off. Knows no training."""

import json
from collections.abc import Mapping
from pathlib import Path

from sanderling.errors import UserError


class MetricsLog:
    """An append-only ``metrics.jsonl``, every line with its ``step``."""

    def __init__(self, path: Path, resume_step: int = 0) -> None:
        """Open for appending; lines of steps after ``resume_step``, and a torn last line, are dropped."""
        self.path = path
        path.parent.mkdir(parents=True, exist_ok=True)
        kept = [line for line in read_metrics(path) if int(line["step"]) <= resume_step]
        partial = path.with_suffix(".partial")
        partial.write_text("".join(json.dumps(line) + "\n" for line in kept), encoding="utf-8")
        partial.replace(path)

    def append(self, values: Mapping[str, float | int | str]) -> None:
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(values) + "\n")


def read_metrics(path: Path) -> list[dict[str, float]]:
    """All whole lines of a metrics file; none when it does not exist.

    What follows the last line break is a write cut off by a kill, or under way: the step it tells of is not done yet.
    Raises UserError for any other line that cannot be read.
    """
    if not path.is_file():
        return []
    whole = path.read_text(encoding="utf-8").split("\n")[:-1]
    try:
        return [json.loads(line) for line in whole]
    except json.JSONDecodeError as error:
        raise UserError(f"{path} is damaged ({error}): restore it, or begin the run again.") from error
