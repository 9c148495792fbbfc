"""The generated encyclopedia as a source, from ``SIZE`` or ``SIZE/SEED``. Equal size and seed give equal pages."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

import sanderling
from sanderling.core.errors import UserError
from sanderling.world.contract import Page
from sanderling.world.encyclopedia import generate_pages
from sanderling.world.sources.contract import Skipped, stamp_of


@dataclass(frozen=True)
class EncyclopediaSource:
    """Pages of invented people, places, organisations, works and events."""

    size: int
    seed: int = 0

    @classmethod
    def parse(cls, words: str) -> "EncyclopediaSource":
        """From ``2000`` or ``2000/7``. Raises UserError for anything else, and for a size that cannot be made."""
        size, _, seed = words.partition("/")
        try:
            source = cls(int(size), int(seed or "0"))
        except ValueError:
            raise UserError(f"encyclopedia:{words} is no size and seed: write encyclopedia:2000/7.") from None
        generate_pages(source.size, source.seed)
        return source

    @property
    def name(self) -> str:
        return f"encyclopedia-{self.size}-{self.seed}"

    def items(self, skip: int = 0) -> Iterator[Page | Skipped]:
        return islice(generate_pages(self.size, self.seed), skip, None)

    def stamp(self) -> str:
        return stamp_of("encyclopedia", self.size, self.seed, sanderling.__version__)

    def total(self) -> int | None:
        return None
