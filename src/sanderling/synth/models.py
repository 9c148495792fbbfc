"""Whom a maker of questions asks. Plain data."""

from collections.abc import Sequence
from dataclasses import dataclass

from sanderling.protocol.asking import Asker


@dataclass(frozen=True)
class Models:
    """Writers and judges; of each list, one after the other is asked until a reply can be read."""

    writers: Sequence[Asker]
    judges: Sequence[Asker]

    def names(self) -> list[list[str]]:
        """For provenance and logs."""
        return [[asker.name for asker in askers] for askers in (self.writers, self.judges)]
