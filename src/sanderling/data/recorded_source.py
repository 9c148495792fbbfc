"""Recorded trajectories as a source of a world's pages, by the name ``recorded`` in `world.sources.kinds`."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path

from sanderling.core.errors import UserError
from sanderling.core.record import Trajectory
from sanderling.data.importing import Import, importable
from sanderling.world.contract import Page
from sanderling.world.recorded import pages_from_trajectories
from sanderling.world.sources.base import Reason, Skipped, Source, file_facts, stamp_of
from sanderling.world.sources.folder import files_below


@dataclass(frozen=True)
class RecordedSource(Source):
    """The pages that recorded trajectories listed or read; all that is known of each address is held in memory."""

    path: Path

    def __post_init__(self) -> None:
        """Raises UserError when there is no such place, or no file in it that could be a recording."""
        if not self.path.exists():
            raise UserError(f"There is no file or directory {self.path}: give recorded trajectories.")
        if not self._files():
            raise UserError(f"{self.path} holds no .json, .jsonl or .parquet file: give a directory of recorded trajectories.")

    @property
    def name(self) -> str:
        return f"recorded {self.path.resolve().name}"

    def items(self, skip: int = 0) -> Iterator[Page | Skipped]:
        """Pages, then addresses without words, then files that are no recording."""
        refused: list[Skipped] = []
        pages, report = pages_from_trajectories(self.trajectories(refused))
        textless = (Skipped(url, Reason.EMPTY) for url in report.textless_urls)
        return islice(chain(pages, textless, refused), skip, None)

    def trajectories(self, refused: list[Skipped] | None = None) -> Iterator[Trajectory]:
        """Every trajectory; files that are no recording are left out, and appended to ``refused``."""
        for file in self._files():
            try:
                yield from (found for found in Import(file) if isinstance(found, Trajectory))
            except UserError:
                if refused is not None:
                    refused.append(Skipped(str(file), Reason.NOT_A_RECORDING))

    def stamp(self) -> str:
        return stamp_of("recorded", *(f"{file!a} {file_facts(file)}" for file in self._files()))

    def _files(self) -> list[Path]:
        if not self.path.is_dir():
            return [self.path]
        below = [file for file in files_below(self.path) if isinstance(file, Path)]
        return sorted(file for file in below if importable(file) and file.is_file())
