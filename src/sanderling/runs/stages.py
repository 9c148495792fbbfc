"""Stages of a long command: each runs once, leaves its figures in the run's database, and is skipped when it is done already.

    stages = [Stage("worlds", "Worlds and questions", build), Stage("sft", "SFT", train, workers=2)]
    worlds, sft = run_stages(stages, Path("runs/tiny"), config.model_dump(mode="json"), Report(Console()))

A stage is done when the run's database has its record and every stage before it is done too; when an earlier one has to run,
the later ones run again as well (each goes on from its own files). The record is written last and through to the disk, so a run
that is killed redoes only the stage it was in. Other settings stop the run with one sentence instead of mixing two runs.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic_core import to_jsonable_python
from rich.console import Console

from sanderling.core.config import Frozen
from sanderling.core.errors import UserError
from sanderling.runs.locks import locked
from sanderling.runs.progress import Report
from sanderling.runs.provenance import peak_memory_mb
from sanderling.runs.run import NoRunError, Run, Table, reading
from sanderling.runs.run_record import RunRecord

STAGES = "stages"
"""The table of stages, and the name that the run's settings stand under."""
_OTHER_PLACE = "choose another directory with --out, or add --fresh to begin again"


class StageRecord(Frozen):
    """What a finished stage leaves behind."""

    name: str
    seconds: float
    """Wall time of the process that finished it."""
    resumed: int = 0
    """How often it was interrupted, or run again after an earlier stage, and taken up again."""
    peak_memory_mb: float
    """Upper bound of what the process that finished it and its workers used up to then; see `provenance.peak_memory_mb`."""
    figures: dict[str, Any]


@dataclass(frozen=True)
class Stage:
    """A named piece of work. ``run`` returns figures for the report (JSON); it must be able to resume after a kill."""

    name: str
    title: str
    run: Callable[[], dict[str, Any]]
    workers: int = 1
    """Most child processes at once."""


def run_stages(stages: Sequence[Stage], directory: Path, settings: Mapping[str, Any], report: Report) -> list[StageRecord]:
    """Run the stages that are not done, in order, each under its title.

    ``settings``: JSON, all that results depend on. Raises UserError when the directory holds a run with others, naming what
    differs, is in use by another process or cannot be written.
    """

    def announce(title: str, done: str = "") -> None:
        report.console.print(f"[bold]{title}[/bold][dim]{done}[/dim]", highlight=False)

    with Run(directory) as run:
        run.claim(settings, STAGES, _OTHER_PLACE)
        table = run.table(STAGES)
        found = [_record(table, stage.name) for stage in stages]
        done = [record for record in found[: found.index(None) if None in found else None] if record]
        for record in filter(None, found[len(done) :]):
            table.put(record.name, {"runs": record.resumed + 1})
        for stage, record in zip(stages, done, strict=False):
            announce(stage.title, f" (done before, {record.seconds:.0f} s)")
        for stage in stages[len(done) :]:
            announce(stage.title)
            done.append(_work(stage, table))
        return done


def is_done(directory: Path, name: str) -> bool:
    """Whether a stage of a run is finished."""
    with suppress(NoRunError), reading(directory) as tables:
        return _record(tables(STAGES)[0], name) is not None
    return False


def read_record(directory: Path, name: str) -> StageRecord:
    """What a finished stage of a run left behind. Raises UserError when it is not done."""
    with reading(directory) as tables:
        record = _record(tables(STAGES)[0], name)
    if record is None:
        raise UserError(f"{directory} has no finished stage {name!r}: run the recipe first.")
    return record


def clear_run(directory: Path, reads: Iterable[Path]) -> None:
    """Empty a run's directory, if there is one.

    Raises UserError when it is not one of a run, holds what the new run ``reads``, or is in use by another process.
    """
    record = RunRecord(directory, STAGES)
    record.check_fresh(reads)
    if directory.exists():
        with locked(directory):
            record.empty()


@contextmanager
def after_interrupt(same: str = "the same command") -> Iterator[None]:
    """After Ctrl-C one sentence says how to go on; raises SystemExit with status 130."""
    try:
        yield
    except KeyboardInterrupt:
        Console(stderr=True).print(f"Interrupted: {same} goes on where it stopped.", soft_wrap=True)
        raise SystemExit(130) from None


@contextmanager
def command_in(directory: Path, *, fresh: bool = False, reads: Iterable[Path] = ()) -> Iterator[None]:
    """What a command does around its stages: ``--fresh``, no directory of other things, :func:`after_interrupt`.

    Raises UserError as :func:`clear_run` does.
    """
    with after_interrupt("the same command without --fresh" if fresh else "the same command"):
        if fresh:
            clear_run(directory, reads)
        RunRecord(directory, STAGES).check_empty()
        yield


def _record(table: Table, name: str) -> StageRecord | None:
    """The record of a finished stage; of one that was only begun, the table knows how often."""
    entry = table.get(name, {})
    return StageRecord(name=name, **entry) if "peak_memory_mb" in entry else None


def _work(stage: Stage, table: Table) -> StageRecord:
    runs = table.get(stage.name, {"runs": 0})["runs"]
    table.put(stage.name, {"runs": runs + 1})
    begin = time.monotonic()
    figures = stage.run()
    seconds, memory = time.monotonic() - begin, round(peak_memory_mb(stage.workers), 1)
    record = {"seconds": seconds, "resumed": runs, "peak_memory_mb": memory, "figures": figures}
    table.put(stage.name, to_jsonable_python(record, inf_nan_mode="null"))
    return StageRecord(name=stage.name, **table.get(stage.name))
