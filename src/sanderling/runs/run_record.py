"""What a run in a directory was started with: it goes on with the same or not at all. Importable without torch.

The run's database says it: of training the resolved settings, which stand in a TOML file as well and can be given as a recipe
again, and what stands for the content of all that is read. Which settings may differ when it goes on, and what its inputs are,
is each command's business.
"""

import hashlib
import shutil
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from sanderling.core.config import load_config, to_toml
from sanderling.core.errors import UserError
from sanderling.runs.files import or_cannot, replace_file
from sanderling.runs.locks import LOCK
from sanderling.runs.run import DATABASE, NoRunError, Run, reading


@dataclass(frozen=True)
class RunRecord:
    """A run's directory. Example: ``RunRecord(out, "sft").is_begun``."""

    out: Path
    kind: str
    """Under which its database says what it was started with; ``sft`` writes ``sft.toml``."""
    leftovers: tuple[str, ...] = ()
    """How the names begin of what a run that was killed before it was begun may leave."""

    @property
    def is_begun(self) -> bool:
        """Whether a run of this kind was begun in the directory."""
        return self._about() is not None

    def check_empty(self) -> None:
        """Raises UserError when a directory without a run holds what would be taken for its results, or be written over."""
        strange = self._strange()
        if strange and not self.is_begun:
            raise UserError(f"{self.out} holds other things ({strange[0].name}) and no run: choose another --out.")

    def settings(self) -> str:
        """As TOML, what it was started with."""
        return self._required()["settings"]

    def inputs(self) -> dict[str, Any]:
        """What stands for all that it reads."""
        return self._required()["inputs"]

    def refuse(self, differing: list[str], more: str = "") -> None:
        """Raises UserError, naming the first few, unless nothing differs. ``more``: what else a person may do."""
        if differing:
            rest = f"; and {len(differing) - 4} more" if len(differing) > 4 else ""
            listed = "; ".join(differing[:4]) + rest
            raise UserError(
                f"{self.out} holds another run ({listed}): choose another --out, or add --fresh to begin again{more}."
            )

    def check_same(
        self,
        settings: BaseModel,
        inputs: Mapping[str, Any],
        free: Callable[[str], bool],
        unordered: Collection[str] = (),
        more: str = "",
    ) -> None:
        """Raises UserError where the run was begun with other inputs or settings, but for those that are ``free`` to differ.

        ``unordered``: see :func:`flat`; ``more``: see :meth:`refuse`.
        """
        before = flat(load_config(type(settings), self.settings(), str(self.out)), unordered)
        now, earlier = flat(settings, unordered), self.inputs()
        differing = [f"{key} {before.get(key)}, now {now.get(key)}" for key in unlike(before, now) if not free(key)]
        self.refuse([*differing, *(f"other {name}" for name, value in inputs.items() if earlier.get(name) != value)], more)

    def write(self, settings: BaseModel, inputs: Mapping[str, Any]) -> None:
        """Remember what the run is made with. The caller has the directory's lock."""
        toml = to_toml(settings)
        with Run(self.out, locked=True) as run:
            run.table("about").put(self.kind, {"settings": toml, "inputs": dict(inputs)})
        try:
            replace_file(self.out / f"{self.kind}.toml", toml)
        except OSError as error:
            raise UserError(
                f"Cannot write in {self.out} ({error.strerror}): free some space, or choose another --out."
            ) from error

    def check_fresh(self, reads: Iterable[Path]) -> None:
        """Raises UserError when the directory may not be emptied: it is none of a run, or holds what the new run ``reads``."""
        has_settings = (self.out / f"{self.kind}.toml").is_file()  # of a run whose damaged database somebody removed
        if not has_settings and not self.is_begun and self._strange():
            raise UserError(f"{self.out} is not the directory of a run, so --fresh leaves it alone: choose another --out.")
        place = self.out.resolve()
        inside = next((path for path in reads if path.resolve().is_relative_to(place)), None)
        if inside is not None:
            raise UserError(f"{inside} lies in {self.out}, which --fresh empties: move it elsewhere, or choose another --out.")

    def empty(self) -> None:
        """Delete what a run left in its directory, once all that could be refused was looked at. The caller has its lock.

        Cut short, the directory is still known as one of a run, which has done nothing yet.
        """
        with Run(self.out, locked=True) as run:
            run.reset(self.kind)
        for path in self._held(LOCK, DATABASE):
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink()
        (self.out / DATABASE).unlink(missing_ok=True)

    def _about(self) -> dict[str, Any] | None:
        with suppress(NoRunError), reading(self.out) as tables:
            return tables("about")[0].get(self.kind)

    def _required(self) -> dict[str, Any]:
        about = self._about()
        if about is None:
            raise UserError(f"{self.out} holds no run: begin one there, or name another --out.")
        return about

    def _strange(self) -> list[Path]:
        """What the directory holds that is no beginning of a run."""
        return self._held(LOCK, DATABASE, *self.leftovers)

    def _held(self, *beside: str) -> list[Path]:
        """What the directory holds, but for names that begin with these."""
        held = sorted(self.out.iterdir()) if self.out.is_dir() else []
        return [path for path in held if not path.name.startswith(beside)]


def flat(settings: BaseModel, unordered: Collection[str] = ()) -> dict[str, Any]:
    """Settings by dotted name; lists under the names ``unordered`` as lists with an order."""

    def walk(values: dict[str, Any], path: str) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for key, value in values.items():
            if isinstance(value, dict):
                found |= walk(value, f"{path}{key}.")
            else:
                found[f"{path}{key}"] = sorted(value) if isinstance(value, list) and key in unordered else value
        return found

    return walk(settings.model_dump(mode="json"), "")


def unlike(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """Names of what differs, sorted."""
    return [key for key in sorted({*before, *now}) if before.get(key) != now.get(key)]


def model_files(model: Path) -> list[Path]:
    """What says which model a directory holds."""
    files = [model / "config.json", model / "tokenizer.json", *sorted(model.glob("*.safetensors"))]
    return [path for path in files if path.is_file()]


WHOLE = 64 << 20
_SAMPLES, _SAMPLE = 64, 1 << 16


def content_hash(path: Path) -> str:
    """What stands for a file's content. Raises UserError when it cannot be read.

    A file of more than 64 MiB counts by size, time of its last change and 64 samples of 64 KiB, first and last bytes included:
    hashing a terabyte at every start would take longer than what is left to do.
    """
    with or_cannot(f"read {path}", "check the path"), path.open("rb") as file:
        told = path.stat()
        digest = hashlib.sha256(f"{told.st_size}\n".encode())
        if told.st_size <= WHOLE:
            digest.update(hashlib.file_digest(file, "sha256").digest())
        else:
            digest.update(f"{told.st_mtime_ns}\n".encode())
            for number in range(_SAMPLES):
                file.seek((told.st_size - _SAMPLE) * number // (_SAMPLES - 1))
                digest.update(file.read(_SAMPLE))
    return digest.hexdigest()
