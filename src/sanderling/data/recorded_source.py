"""Recorded trajectories: as a source of a world's pages (``recorded`` in `world.sources.kinds`), and as calls to replay."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import NamedTuple

from sanderling.core.errors import UserError
from sanderling.core.record import Trajectory
from sanderling.data.conversation import ImportReport
from sanderling.data.importing import Import, find_places, import_all
from sanderling.tools.recording import is_recording, read_recording, replay_table, trajectories_of
from sanderling.world.contract import Page
from sanderling.world.recorded import ReplayTable, pages_from_trajectories
from sanderling.world.sources.base import Reason, Skipped, Source, file_facts, stamp_of


@dataclass(frozen=True)
class RecordedSource(Source):
    """The pages that recorded trajectories listed or read; all that is known of each address is held in memory."""

    path: Path

    def __post_init__(self) -> None:
        """Raises UserError for a place that is not there, or holds no file that could be a recording."""
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

    def trajectories(self, refused: list[Skipped]) -> Iterator[Trajectory]:
        """Every trajectory; files that are no recording are left out, and appended to ``refused``."""
        for file in self._files():
            try:
                yield from (found for found in Import(file) if isinstance(found, Trajectory))
            except UserError:
                refused.append(Skipped(str(file), Reason.NOT_A_RECORDING))

    def stamp(self) -> str:
        return stamp_of("recorded", *(f"{file!a} {file_facts(file)}" for file in self._files()))

    def _files(self) -> list[Path]:
        return [place.path for place in find_places([self.path])]


class RecordedCalls(NamedTuple):
    """Recorded trajectories: of files, with the import's report, or of a recording, with the texts as agents read them."""

    trajectories: tuple[Trajectory, ...]
    report: ImportReport | None
    table: ReplayTable | None

    def replays(self, built: Sequence[Trajectory]) -> ReplayTable:
        """The replays of some of the trajectories."""
        if self.table is None:
            return ReplayTable.from_trajectories(built)
        return self.table.of({trajectory.id for trajectory in built})


def read_recorded(place: Path) -> RecordedCalls:
    """Trajectories of a directory in any known layout, or of a recording. Raises UserError when there are none."""
    if not place.exists():
        raise UserError(f"There is no directory {place}: give the directory of the recorded trajectories.")
    if not place.is_file():
        imported = import_all(place)
        return RecordedCalls(imported.trajectories, imported.report, None)
    if not is_recording(place):
        raise UserError(f"{place} is no recording: give a file of sanderling ask --record, or a directory of trajectories.")
    calls = list(read_recording(place))
    if not any(not call.outage for call in calls):
        raise UserError(f"{place} holds no call that returned: record some with sanderling ask --record.")
    return RecordedCalls(trajectories_of(calls), None, replay_table(calls))
