"""Whom a maker of questions asks. Plain data."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sanderling.core.asking import Asker
from sanderling.runs.settings import all_placed


@dataclass(frozen=True)
class Models:
    """Writers and judges; of each list, one after the other is asked until a reply can be read."""

    writers: Sequence[Asker]
    judges: Sequence[Asker]

    def as_json(self) -> list[list[str | dict[str, Any]]]:
        """Names and places, for logs."""
        return [all_placed(self.writers), all_placed(self.judges)]
