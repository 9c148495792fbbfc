"""Stages of a recipe: each runs once, says what it made, and is skipped when it is done already.

A stage is done when its marker stands in ``stages/`` and every stage before it is done too: take an early marker away, and the
later ones are run again as well (each goes on from its own files, so whoever wants those made anew deletes them or begins with
--fresh). The marker is written last, atomically and through to the disk, so a run that is killed redoes only the stage it was
in. A marker made with other settings stops the run with one sentence instead of mixing two runs; so does a second process in
the same directory. Knows no stage's content.
"""

import hashlib
import json
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from sanderling.core.errors import UserError
from sanderling.core.lenient import without_surrogates
from sanderling.evaluate.provenance import peak_memory_mb
from sanderling.runs.files import replace_file, sync
from sanderling.runs.locks import LOCK, locked


class StageRecord(BaseModel):
    """What a finished stage leaves behind."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    settings: str
    """Hash of the settings it was made with."""
    seconds: float
    """Wall time, over all the runs it took."""
    resumed: int = 0
    """How often it was interrupted, or run again after an earlier stage, and taken up again."""
    peak_memory_mb: float
    """Upper bound of what the process that finished it and its workers used up to then; see `provenance.peak_memory_mb`."""
    figures: dict[str, Any] = Field(default_factory=dict)


class Begun(BaseModel):
    """What stands in place of a marker until a stage is done."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    settings: str
    runs: int
    """How often the stage was run."""
    seconds: float
    """Wall time of the runs before the last one."""
    interrupted: bool = True
    """Whether the last run was cut short; its time is then estimated. Otherwise it is in ``seconds``."""


Marker = TypeVar("Marker", StageRecord, Begun)


@dataclass(frozen=True)
class Stage:
    """A named piece of work. ``run`` returns figures for the report (JSON); it must be able to resume after a kill."""

    name: str
    title: str
    run: Callable[[], dict[str, Any]]
    workers: int = 1
    """Most child processes at once."""


def fingerprint(settings: BaseModel) -> str:
    """Hash of resolved settings."""
    return hashlib.sha256(settings.model_dump_json().encode()).hexdigest()[:16]


def run_stages(
    stages: Sequence[Stage], directory: Path, settings: str, announce: Callable[[Stage, StageRecord | None], None]
) -> list[StageRecord]:
    """Run the stages that are not done, in order; ``announce`` hears of each, with its record when it had been done before.

    Records are as they stand in the markers, whether just made or found. Raises UserError when the directory holds a run with
    other settings, is in use by another process, has a damaged marker or cannot be written.
    """
    with _sentences(directory):
        (directory / "stages").mkdir(parents=True, exist_ok=True)
    with locked(directory):
        done = _done(stages, directory, settings)
        records: list[StageRecord] = []
        for stage in stages:
            record = done.get(stage.name)
            announce(stage, record)
            records.append(record or _run(stage, directory, settings))
        return records


def is_done(directory: Path, name: str) -> bool:
    """Whether a stage of a run is finished; its marker is not read."""
    return _marker(directory, name).is_file()


def read_record(directory: Path, name: str) -> StageRecord:
    """What a finished stage of a run left behind. Raises UserError when it is not done, or its marker damaged."""
    record = _read(StageRecord, _marker(directory, name))
    if record is None:
        raise UserError(f"{directory} has no finished stage {name!r}: run the recipe first.")
    return record


def check_run_directory(directory: Path) -> None:
    """Raises UserError where a directory that is to be a run's holds other things: a later --fresh would delete them."""
    if not directory.is_dir() or (directory / "stages").is_dir():
        return
    strange = sorted(path.name for path in directory.iterdir() if path.name != LOCK)
    if strange:
        raise UserError(f"{directory} holds other things ({strange[0]}) and no run: choose another --out.")


def clear_run(directory: Path) -> None:
    """Empty a run's directory, if there is one, markers first: cut short, it leaves no stage that seems done.

    Raises UserError when the directory is not one of a run, or in use by another process.
    """
    if not directory.exists():
        return
    if not (directory / "stages").is_dir():
        raise UserError(f"{directory} is not the directory of a run, so --fresh leaves it alone: name another with --out.")
    with locked(directory), _sentences(directory):
        for path in (*(directory / "stages").iterdir(), *directory.iterdir()):
            if path.is_dir() and not path.is_symlink() and path.name != "stages":
                shutil.rmtree(path)
            elif path.name not in ("stages", LOCK):
                path.unlink()


def _done(stages: Sequence[Stage], directory: Path, settings: str) -> dict[str, StageRecord]:
    """Records of the stages that are done. Whatever else has a marker is opened again, last stage first."""
    found: dict[str, StageRecord] = {}
    for stage in stages:
        record = _read(StageRecord, _marker(directory, stage.name))
        begun = _read(Begun, _begun(directory, stage.name))
        for marker in (record, begun):
            if marker is not None and marker.settings != settings:
                raise UserError(
                    f"{directory} holds a run with other settings, or of other input: choose another directory with "
                    "--out, or add --fresh to begin again."
                )
        if record is not None:
            found[stage.name] = record
    count = next((place for place, stage in enumerate(stages) if stage.name not in found), len(stages))
    for stage in stages[:count]:  # a kill between the marker and the end of this one
        if _begun(directory, stage.name).exists():
            _remove(_begun(directory, stage.name), directory)
    for stage in reversed(stages[count:]):
        record = found.pop(stage.name, None)
        if record is not None:
            again = Begun(settings=settings, runs=record.resumed + 1, seconds=record.seconds, interrupted=False)
            _write(_begun(directory, stage.name), again, directory)
            _remove(_marker(directory, stage.name), directory)
    return found


def _run(stage: Stage, directory: Path, settings: str) -> StageRecord:
    marker, begun = _marker(directory, stage.name), _begun(directory, stage.name)
    runs, seconds = _earlier(begun, directory)
    _write(begun, Begun(settings=settings, runs=runs + 1, seconds=seconds), directory)
    begin = time.monotonic()
    figures = stage.run()
    worked = seconds + time.monotonic() - begin
    record = StageRecord(
        name=stage.name,
        settings=settings,
        seconds=worked,
        resumed=runs,
        peak_memory_mb=round(peak_memory_mb(stage.workers), 1),
        figures=figures,
    )
    _write(marker, record, directory)
    _remove(begun, directory)
    return read_record(directory, stage.name)


def _earlier(begun: Path, directory: Path) -> tuple[int, float]:
    """How often the stage was run before, and the seconds it had worked by then."""
    last = _read(Begun, begun)
    if last is None:
        return 0, 0.0
    return last.runs, last.seconds + (_worked(begun, directory) if last.interrupted else 0.0)


def _worked(path: Path, directory: Path) -> float:
    """Seconds between the marker and the newest file of the run."""
    begun = path.stat().st_mtime
    files = (file for file in directory.rglob("*") if file.is_file() and file.name != LOCK)
    return max(0.0, max((file.stat().st_mtime for file in files), default=begun) - begun)


def _marker(directory: Path, name: str) -> Path:
    return directory / "stages" / f"{name}.json"


def _begun(directory: Path, name: str) -> Path:
    return directory / "stages" / f"{name}.started.json"


def _read(kind: type[Marker], path: Path) -> Marker | None:
    """A marker; None when there is none."""
    with _sentences(path):
        if not path.exists():
            return None
        data = path.read_bytes()
    try:
        return kind.model_validate_json(data)
    except ValidationError as error:
        raise UserError(f"{path} is damaged: delete it, and its stage and the later ones are run again.") from error


def _write(path: Path, marker: StageRecord | Begun, directory: Path) -> None:
    """Whole or not at all, even if the machine stops."""
    with _sentences(directory):
        text = json.dumps(marker.model_dump(mode="json"), indent=1, ensure_ascii=False)
        replace_file(path, without_surrogates(text) + "\n", durable=True)  # markers are read by pydantic, which takes none


def _remove(path: Path, directory: Path) -> None:
    with _sentences(directory):
        path.unlink()
        sync(path.parent)


@contextmanager
def _sentences(path: Path) -> Iterator[None]:
    """Say what the file system refused in one sentence."""
    try:
        yield
    except OSError as error:
        raise UserError(f"Cannot use {path} ({error.strerror}): make room or mend it, or choose another with --out.") from error
