"""What a world remembers of the recorded trajectories among its sources, so that none of them is later taken for held out.

Counts recordings, and worlds that remember some of their own; of any other source nothing is known, and a world to which only
such were added remembers what it did before.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path

from sanderling.world.fidelity.split import BuiltFrom, Unit, built_from, joined, read_built_from, write_built_from
from sanderling.world.sources.contract import Source
from sanderling.world.sources.parallel import ParallelSource
from sanderling.world.sources.recorded import RecordedSource
from sanderling.world.sources.world import WorldSource


def remember_sources(directory: Path, sources: Sequence[Source]) -> None:
    """Add what the sources bring to the memory of a world. Raises UserError when that is damaged; OSError."""
    brought = list(_memories(sources))
    if brought:
        write_built_from(directory, joined([*_known(directory), *brought]))


def _memories(sources: Iterable[Source]) -> Iterable[BuiltFrom]:
    for source in sources:
        inner = source.source if isinstance(source, ParallelSource) else source
        if isinstance(inner, RecordedSource):
            yield built_from(tuple(inner.trajectories()), (), 0.0, 0, Unit.QUESTION)
        elif isinstance(inner, WorldSource):
            yield from _known(inner.path)


def _known(directory: Path) -> list[BuiltFrom]:
    known = read_built_from(directory)
    return [] if known is None else [known]
