"""The directory of a run that trains or has stages: what it was started with, ``--fresh``, and what each stage left behind.

    stages = [Stage("worlds", "Worlds and questions", build), Stage("sft", "SFT", train)]
    worlds, sft = run_stages(stages, Path("runs/tiny"), config.model_dump(mode="json"), Report(Console()))

A run goes on with the settings and files it was started with, or not at all. A stage is done when the run's database has its
record and every stage before it is done too; when an earlier one has to run, the later ones run again.
"""

import hashlib
import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel
from pydantic_core import to_jsonable_python
from rich.console import Console

from sanderling.core.config import Frozen, load_config, to_toml
from sanderling.core.errors import UserError
from sanderling.runs.files import LOCK, locked, or_cannot, replace_file
from sanderling.runs.progress import Report
from sanderling.runs.run import DATABASE, NoRunError, Run, differences, reading, refuse_other

STAGES = "stages"  # the table of stages, and the name that the run's settings stand under
_WAY_OUT = "choose another directory with --out, or add --fresh to begin again"
WHOLE = 64 << 20


@dataclass(frozen=True)
class RunRecord:
    """What a run in a directory was started with, in its database. Example: ``RunRecord(out, "sft").is_begun``."""

    out: Path
    kind: str  # the name that this stands under; ``sft`` has its settings in ``sft.toml`` as well, a recipe for another run
    leftovers: tuple[str, ...] = ()  # how the names begin of what a run that was killed before it was begun may leave

    @property
    def is_begun(self) -> bool:
        """Whether a run of this kind was begun in the directory."""
        return self._about() is not None

    def settings(self) -> str:
        """As TOML, what it was started with."""
        return (self._about() or {})["settings"]

    def check_same(self, settings: BaseModel, inputs: Mapping[str, Any], free: Callable[[str], bool]) -> None:
        """Raises UserError where the run was begun with other inputs or settings, but for those that are ``free`` to differ."""
        before, earlier = load_config(type(settings), self.settings(), str(self.out)), (self._about() or {})["inputs"]
        differing = {key: pair for key, pair in unlike(before, settings).items() if not free(key)}
        told = (line for key, (was, now) in differing.items() for line in differences(was, now, key))
        told_as = {name: f"{name} was {earlier.get(name)} and is {now}" for name, now in inputs.items() if isinstance(now, int)}
        others = [told_as.get(name, f"other {name}") for name in inputs if earlier.get(name) != inputs[name]]
        refuse_other(self.out, [*told, *others], _WAY_OUT)

    def write(self, settings: BaseModel, inputs: Mapping[str, Any]) -> None:
        """Remember what the run is made with. The caller has the directory's lock."""
        toml = to_toml(settings)
        with Run(self.out, locked=True) as run:
            run.table("about").put(self.kind, {"settings": toml, "inputs": dict(inputs)})
        with or_cannot(f"write in {self.out}"):
            replace_file(self.out / f"{self.kind}.toml", toml)

    def check_empty(self) -> None:
        """Raises UserError when a directory without a run holds what would be taken for its results, or be written over."""
        strange = self._held(LOCK, DATABASE, *self.leftovers)
        if strange and not self.is_begun:
            raise UserError(f"{self.out} holds other things ({strange[0].name}) and no run: choose another --out.")

    def check_fresh(self, reads: Iterable[Path]) -> None:
        """Raises UserError when the directory may not be emptied: it is none of a run, or holds what the new run ``reads``."""
        if not self.is_begun and self._held(LOCK, DATABASE, *self.leftovers):
            raise UserError(f"{self.out} is not the directory of a run, so --fresh leaves it alone: choose another --out.")
        place = self.out.resolve()
        inside = next((path for path in reads if path.resolve().is_relative_to(place)), None)
        if inside is not None:
            raise UserError(f"{inside} lies in {self.out}, which --fresh empties: move it elsewhere, or choose another --out.")

    def empty(self) -> None:
        """Delete what a run left in its directory, whose lock the caller has. Cut short, it is a run that has done nothing."""
        with Run(self.out, locked=True) as run:
            run.reset(self.kind)
        for path in self._held(LOCK, DATABASE):
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink()
        (self.out / DATABASE).unlink(missing_ok=True)

    def clear(self, reads: Iterable[Path]) -> None:
        """:meth:`check_fresh` and :meth:`empty`, unless another process is at work there. Raises UserError."""
        self.check_fresh(reads)
        if self.out.exists():
            with locked(self.out):
                self.empty()

    def _about(self) -> dict[str, Any] | None:
        with suppress(NoRunError), reading(self.out) as tables:
            return tables("about")[0].get(self.kind)

    def _held(self, *beside: str) -> list[Path]:
        """What the directory holds, but for names that begin with these."""
        held = sorted(self.out.iterdir()) if self.out.is_dir() else []
        return [path for path in held if not path.name.startswith(beside)]


def unlike(before: BaseModel, now: BaseModel) -> dict[str, tuple[Any, Any]]:
    """By dotted name the settings that differ, as JSON."""

    def flat(values: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, Any]]:
        for key, value in values.items():
            if isinstance(value, dict):
                yield from flat(value, f"{path}{key}.")
            else:
                yield f"{path}{key}", to_jsonable_python(sorted(value) if isinstance(value, frozenset) else value)

    one, other = (dict(flat(settings.model_dump())) for settings in (before, now))
    return {key: (one.get(key), other.get(key)) for key in sorted({*one, *other}) if one.get(key) != other.get(key)}


def model_files(model: Path) -> list[Path]:
    """What says which model a directory holds."""
    files = [model / "config.json", model / "tokenizer.json", *sorted(model.glob("*.safetensors"))]
    return [path for path in files if path.is_file()]


def content_hash(path: Path) -> str:
    """What stands for a file's content: of more than 64 MiB its size, time of its last change and last 64 MiB."""
    with or_cannot(f"read {path}", "check the path"), path.open("rb") as file:
        found = path.stat()
        digest = hashlib.sha256(f"{found.st_size}\n".encode())
        if found.st_size > WHOLE:
            digest.update(f"{found.st_mtime_ns}\n".encode())
            file.seek(-WHOLE, 2)
        digest.update(hashlib.file_digest(file, "sha256").digest())
    return digest.hexdigest()


# -- stages --------------------------------------------------------------------------------------------------------------


class StageRecord(Frozen, extra="ignore"):  # a run outlives versions
    """What a finished stage leaves behind."""

    name: str
    seconds: float  # wall time of the process that finished it
    figures: dict[str, Any]


@dataclass(frozen=True)
class Stage:
    """A named piece of work. ``run`` returns figures for the report (JSON); it must be able to resume after a kill."""

    name: str
    title: str
    run: Callable[[], dict[str, Any]]


def run_stages(stages: Sequence[Stage], directory: Path, settings: Mapping[str, Any], report: Report) -> list[StageRecord]:
    """Run the stages that are not done, in order, each under its title; ``settings``: JSON, all that results depend on.

    Raises UserError when the directory holds a run with others, is in use by another process or cannot be written.
    """
    done: list[StageRecord] = []
    with Run(directory) as run:
        run.claim(settings, STAGES, _WAY_OUT)
        table = run.table(STAGES)
        for number, stage in enumerate(stages):
            entry = table.get(stage.name)
            before = f" (done before, {entry['seconds']:.0f} s)" if entry else ""
            report.console.print(f"[bold]{stage.title}[/bold][dim]{before}[/dim]", highlight=False)
            if entry is None:
                table.remove(*(later.name for later in stages[number + 1 :]))
                begin = time.monotonic()
                figures = stage.run()
                entry = {"seconds": time.monotonic() - begin, "figures": figures}
                table.put(stage.name, to_jsonable_python(entry, inf_nan_mode="null"))
            done.append(StageRecord(name=stage.name, **table.get(stage.name)))
    return done


def read_record(directory: Path, name: str) -> StageRecord:
    """What a finished stage of a run left behind. Raises UserError when it is not done."""
    with reading(directory) as tables:
        entry = tables(STAGES)[0].get(name)
    if entry is None:
        raise UserError(f"{directory} has no finished stage {name!r}: run the recipe first.")
    return StageRecord(name=name, **entry)


@contextmanager
def after_interrupt(same: str = "the same command again") -> Iterator[None]:
    """After Ctrl-C one sentence says how to go on; raises SystemExit with status 130."""
    try:
        yield
    except KeyboardInterrupt:
        Console(stderr=True).print(f"Interrupted: run {same} to resume.", soft_wrap=True)
        raise SystemExit(130) from None


@contextmanager
def command_in(directory: Path, *, fresh: bool = False, reads: Iterable[Path] = ()) -> Iterator[None]:
    """What a command does around its stages: ``--fresh``, no directory of other things, :func:`after_interrupt`."""
    record = RunRecord(directory, STAGES)
    with after_interrupt("the same command without --fresh" if fresh else "the same command again"):
        if fresh:
            record.clear(reads)
        record.check_empty()
        yield
