"""Weights of each version on a disk that trainer and samplers share: a directory for each, there whole or not at all.

A directory is a model's as Hugging Face has it where the files of ``like`` were copied beside the weights. The newest few
versions are kept, so that whoever is still reading the one before can finish. Knows no server and no policy.
"""

import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from safetensors.torch import load_file, save_file

from sanderling.core.errors import UserError
from sanderling.policy.model_files import TOKENIZER_FILES
from sanderling.policy.sync.tensors import untied
from sanderling.runs.files import sync

_NAME = re.compile(r"weights-(\d{8})")
_FILE = "model.safetensors"
_BESIDE = ("config.json", "generation_config.json", *TOKENIZER_FILES)


class WeightFiles:
    """One directory of versions; one process writes, many may read."""

    def __init__(self, directory: Path, like: Path | None = None, keep: int = 2) -> None:
        """``like``: a model directory whose configuration and tokenizer stand beside the weights."""
        if keep < 1:
            raise ValueError(f"keep is {keep}, and must be at least 1")
        self.directory = directory
        self._like = like
        self._keep = keep

    def path(self, version: int) -> Path:
        """Where a version's files are, or would be."""
        return self.directory / f"weights-{version:08}"

    def newest(self) -> int | None:
        """The newest version that is there whole."""
        return max(self._versions(), default=None)

    def write(self, weights: Mapping[str, Any], version: int) -> Path:
        """Store a version and return its directory. Later versions go: they are of a past that was undone.

        Raises UserError when it cannot be written.
        """
        path = self.path(version)
        partial = path.with_name(path.name + ".partial")
        try:
            self.directory.mkdir(parents=True, exist_ok=True)
            self._clear(version)
            partial.mkdir()
            for name in _BESIDE if self._like is not None else ():
                if (source := (self._like or Path()) / name).is_file():
                    shutil.copyfile(source, partial / name)
            save_file(untied(weights), partial / _FILE, metadata={"format": "pt"})
            (partial / _FILE).chmod(0o644)  # safetensors lets nobody but the owner read
            sync(partial / _FILE)
            partial.rename(path)
            sync(self.directory)
        except OSError as error:
            raise UserError(f"Cannot store weights in {self.directory} ({error.strerror}): choose another place.") from error
        for old in sorted(self._versions())[: -self._keep]:
            shutil.rmtree(self.path(old), ignore_errors=True)
        return path

    def read(self, version: int) -> dict[str, Any]:
        """A version's tensors by name. Raises FileNotFoundError when it is gone."""
        return load_file(self.path(version) / _FILE)

    def _versions(self) -> list[int]:
        if not self.directory.is_dir():
            return []
        found = [_NAME.fullmatch(entry.name) for entry in self.directory.iterdir()]
        return [int(match[1]) for match in found if match]

    def _clear(self, version: int) -> None:
        """Remove what a kill left half written, and this version and later ones of an earlier life."""
        for partial in self.directory.glob("weights-*.partial"):
            shutil.rmtree(partial)
        for later in self._versions():
            if later >= version:
                gone = self.path(later).with_name(self.path(later).name + ".partial")
                self.path(later).rename(gone)  # at once: nobody shall find half of it
                shutil.rmtree(gone)
