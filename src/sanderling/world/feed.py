"""What a build reads: a stream of pages that can be taken up where it was left.

Contract: `Feed.pages(mark)` goes on after the page at which `Feed.mark()` gave that mark. The stamp says what is read: a build
that was interrupted goes on only with a feed of the same stamp. An empty stamp: it cannot be taken up. Knows no store.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol

from sanderling.world.contract import Page
from sanderling.world.manifest import SourceAccount


class Feed(Protocol):
    """A stream of pages."""

    @property
    def stamp(self) -> str:
        """Changes when what is read changes; empty: each reading may differ."""
        ...

    def pages(self, mark: str = "") -> Iterator[Page]:
        """The pages after a mark; of the empty mark, all."""
        ...

    def mark(self) -> str:
        """Where the stream is: after the page that `pages` gave last."""
        ...

    def total(self) -> int | None:
        """How many documents there are, where that is known."""
        ...

    def read(self) -> int:
        """How many documents were read so far, pages or not."""
        ...

    def accounts(self, mark: str) -> tuple[SourceAccount, ...]:
        """What became of the documents of each source, up to a mark."""
        ...


@dataclass
class PlainFeed:
    """Pages that are read once, from their beginning."""

    given: Iterable[Page]
    stamp: str = ""
    _read: int = 0

    def pages(self, mark: str = "") -> Iterator[Page]:
        """All pages. Raises ValueError for a mark: it has none."""
        if mark:
            raise ValueError("these pages cannot be taken up in the middle")
        for page in self.given:
            self._read += 1
            yield page

    def mark(self) -> str:
        return ""

    def total(self) -> int | None:
        return len(self.given) if isinstance(self.given, list | tuple) else None

    def read(self) -> int:
        return self._read

    def accounts(self, mark: str) -> tuple[SourceAccount, ...]:
        """None: pages are given, not documents."""
        return ()
