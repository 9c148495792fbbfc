"""What a training run in a directory was started with: it goes on with the same or not at all. Importable without torch.

Two files: the resolved settings, which can be given as a recipe again, and ``inputs.json``, what stands for the content of all
that is read. The settings are written last: they say that a run was begun. Which of them may differ when it goes on, and what
its inputs are, is each command's business.
"""

import json
import shutil
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from sanderling.core.config import to_toml
from sanderling.core.errors import UserError
from sanderling.runs.files import replace_file
from sanderling.runs.locks import LOCK

INPUTS = "inputs.json"


@dataclass(frozen=True)
class RunRecord:
    """A run's directory. Example: ``RunRecord(out, "sft.toml").is_begun``."""

    out: Path
    settings: str
    """Name of the settings' file."""
    leftovers: tuple[str, ...] = ()
    """How the names begin of what a run that was killed before it was begun may leave, besides its inputs."""

    @property
    def settings_file(self) -> Path:
        return self.out / self.settings

    @property
    def is_begun(self) -> bool:
        """Whether a run was begun in the directory."""
        return self.settings_file.is_file()

    def check_empty(self) -> None:
        """Raises UserError when a directory without a run holds what would be taken for its results, or be written over."""
        strange = self._strange()
        if strange:
            raise UserError(f"{self.out} holds other things ({strange[0]}) and no run: choose another --out.")

    def inputs(self) -> dict[str, Any]:
        """What it was started with. Raises UserError when that cannot be read."""
        try:
            return json.loads((self.out / INPUTS).read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise UserError(f"{self.out / INPUTS} is damaged: add --fresh to begin again, or choose another --out.") from error

    def refuse(self, differing: list[str], more: str = "") -> None:
        """Raises UserError, naming the first few, unless nothing differs. ``more``: what else a person may do."""
        if differing:
            rest = f"; and {len(differing) - 4} more" if len(differing) > 4 else ""
            listed = "; ".join(differing[:4]) + rest
            raise UserError(
                f"{self.out} holds another run ({listed}): choose another --out, or add --fresh to begin again{more}."
            )

    def write(self, settings: BaseModel, inputs: Mapping[str, Any]) -> None:
        """Remember what the run is made with."""
        try:
            replace_file(self.out / INPUTS, json.dumps(dict(inputs), indent=1) + "\n", durable=True)
            replace_file(self.settings_file, to_toml(settings), durable=True)
        except OSError as error:
            raise UserError(
                f"Cannot write in {self.out} ({error.strerror}): free some space, or choose another --out."
            ) from error

    def check_fresh(self, reads: Iterable[Path]) -> None:
        """Raises UserError when the directory may not be emptied: it is none of a run, or holds what the new run ``reads``."""
        if not self.is_begun and self._strange():
            raise UserError(f"{self.out} is not the directory of a run, so --fresh leaves it alone: choose another --out.")
        check_outside(self.out, reads)

    def empty(self) -> None:
        """Delete what a run left in its directory, once all that could be refused was looked at. The caller has its lock."""
        # The settings go last: cut short, the directory is still known as one of a run.
        for path in sorted(self.out.iterdir(), key=lambda path: path.name == self.settings):
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            elif path.name != LOCK:
                path.unlink()

    def _strange(self) -> list[str]:
        """What the directory holds that is no beginning of a run."""
        before = (LOCK, INPUTS, f"{self.settings}.partial", *self.leftovers)
        return sorted(path.name for path in self.out.iterdir() if not path.name.startswith(before)) if self.out.is_dir() else []


def check_outside(directory: Path, reads: Iterable[Path]) -> None:
    """Raises UserError where a directory that is to be emptied holds something that is read."""
    place = directory.resolve()
    inside = next((path for path in reads if path.resolve().is_relative_to(place)), None)
    if inside is not None:
        raise UserError(f"{inside} lies in {directory}, which --fresh empties: move it elsewhere, or choose another --out.")


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
