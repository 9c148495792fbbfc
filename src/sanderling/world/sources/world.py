"""The pages of a world that was built before, as they are stored. A page that cannot be read is counted as damaged."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from sanderling.world.contract import Page
from sanderling.world.sources.contract import DocumentSource, Reason, Skipped, stamp_of
from sanderling.world.store import open_world, read_manifest


@dataclass(frozen=True)
class WorldSource(DocumentSource[int]):
    """A world's directory."""

    path: Path

    def __post_init__(self) -> None:
        """Raises UserError when there is no world."""
        read_manifest(self.path)

    @property
    def name(self) -> str:
        return read_manifest(self.path).name

    def documents(self, skip: int) -> Iterator[int | Skipped]:
        """The numbers of the pages."""
        return iter(range(skip, self.total()))

    def reader(self) -> Callable[[int], Page | Skipped]:
        world = open_world(self.path)

        def read(number: int) -> Page | Skipped:
            try:
                return next(world.all_pages(number))
            except OSError:
                return Skipped(f"page {number}", Reason.DAMAGED)

        return read

    def stamp(self) -> str:
        return stamp_of("world", read_manifest(self.path).fingerprint)

    def total(self) -> int:
        return read_manifest(self.path).counts.kept
