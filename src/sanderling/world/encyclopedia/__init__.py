"""The generated encyclopedia: an invented world whose every fact is known.

Any size, one seed, the same bytes. Names of training worlds and of held-out worlds share no word.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from sanderling.world.contract import Page
from sanderling.world.encyclopedia.graph import Entity, Facts, generate_facts
from sanderling.world.encyclopedia.names import Names
from sanderling.world.encyclopedia.pages import EncyclopediaPage, Site, render_pages

__all__ = ["Encyclopedia", "EncyclopediaPage", "Entity", "Facts", "Names", "Site", "generate_encyclopedia", "generate_pages"]


@dataclass(frozen=True)
class Encyclopedia:
    """A world and the truth about it."""

    size: int
    seed: int
    names: Names
    facts: Facts
    pages: tuple[EncyclopediaPage, ...]

    @property
    def name(self) -> str:
        """Short name for records."""
        return f"encyclopedia-{self.names}-{self.size}-{self.seed}"


def generate_encyclopedia(size: int, seed: int, names: Names = Names.TRAIN) -> Encyclopedia:
    """A whole world. Raises UserError for a size that cannot be made."""
    facts = generate_facts(size, seed, names)
    return Encyclopedia(size=size, seed=seed, names=names, facts=facts, pages=tuple(render_pages(facts, seed)))


def generate_pages(size: int, seed: int, names: Names = Names.TRAIN) -> Iterator[Page]:
    """The pages alone. Raises UserError for a size that cannot be made."""
    return (item.page for item in render_pages(generate_facts(size, seed, names), seed))
