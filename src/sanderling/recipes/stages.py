"""Stages of a recipe: each runs once, says what it made, and is skipped when it is done already.

A stage is done when its marker stands in ``stages/``; the marker is written last and atomically, so a run that is killed
redoes only the stage it was in, and that stage resumes from its own files. A marker made with other settings stops the run
with one sentence instead of mixing two runs. Knows no stage's content.
"""

import hashlib
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from sanderling.errors import UserError


class StageRecord(BaseModel):
    """What a finished stage leaves behind."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    settings: str
    """Hash of the settings it was made with."""
    seconds: float
    """Wall time, over all the runs it took."""
    resumed: int = 0
    """How often it was interrupted and taken up again."""
    figures: dict[str, Any] = Field(default_factory=dict)


@dataclass(frozen=True)
class Stage:
    """A named piece of work. ``run`` returns figures for the report; it must be able to resume after a kill."""

    name: str
    title: str
    run: Callable[[], dict[str, Any]]


def fingerprint(settings: BaseModel) -> str:
    """Hash of resolved settings."""
    return hashlib.sha256(settings.model_dump_json().encode()).hexdigest()[:16]


def run_stages(
    stages: Sequence[Stage], directory: Path, settings: str, announce: Callable[[Stage, StageRecord | None], None]
) -> list[StageRecord]:
    """Run the stages that are not done, in order; ``announce`` hears of each, with its record when it had been done before.

    Raises UserError when the directory holds a run with other settings.
    """
    markers = directory / "stages"
    markers.mkdir(parents=True, exist_ok=True)
    records: list[StageRecord] = []
    for stage in stages:
        record = _read(markers / f"{stage.name}.json", settings, directory)
        announce(stage, record)
        records.append(record or _run(stage, markers, settings, directory))
    return records


def read_record(directory: Path, name: str) -> StageRecord:
    """What a finished stage of a run left behind."""
    return StageRecord.model_validate_json((directory / "stages" / f"{name}.json").read_text(encoding="utf-8"))


def _run(stage: Stage, markers: Path, settings: str, directory: Path) -> StageRecord:
    started = markers / f"{stage.name}.started.json"
    runs, seconds = _earlier(started, settings, directory)
    _write(started, json.dumps({"settings": settings, "runs": runs + 1, "seconds": seconds}))
    begin = time.monotonic()
    figures = stage.run()
    worked = seconds + time.monotonic() - begin
    record = StageRecord(name=stage.name, settings=settings, seconds=worked, resumed=runs, figures=figures)
    _write(markers / f"{stage.name}.json", record.model_dump_json(indent=1))
    started.unlink()
    return record


def _earlier(started: Path, settings: str, directory: Path) -> tuple[int, float]:
    """How often the stage was interrupted, and the seconds it had worked by then."""
    if not started.is_file():
        return 0, 0.0
    value = json.loads(started.read_text(encoding="utf-8"))
    _same(value["settings"], settings, directory)
    return value["runs"], value["seconds"] + _worked(started, directory)


def _worked(path: Path, directory: Path) -> float:
    """Seconds between the marker and the newest file of the run."""
    begun = path.stat().st_mtime
    return max(0.0, max((file.stat().st_mtime for file in directory.rglob("*") if file.is_file()), default=begun) - begun)


def _read(path: Path, settings: str, directory: Path) -> StageRecord | None:
    if not path.is_file():
        return None
    record = StageRecord.model_validate_json(path.read_text(encoding="utf-8"))
    _same(record.settings, settings, directory)
    return record


def _same(found: str, settings: str, directory: Path) -> None:
    if found != settings:
        raise UserError(
            f"{directory} holds a run with other settings: choose another directory with --out, or add --fresh to begin again."
        )


def _write(path: Path, text: str) -> None:
    partial = path.with_suffix(".partial")
    partial.write_text(text + "\n", encoding="utf-8")
    partial.replace(path)
