"""What an import saw: counts, and odd things by code with one example each."""

from collections import Counter
from dataclasses import asdict, dataclass, field
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from sanderling.core.text import visible

_EXAMPLE_CHARS = 160
_LAYOUT_COUNTS = ("trajectories", "questions", "messages", "kept", "raw")
_COUNTS = ("files", "entries", *_LAYOUT_COUNTS, "unread")


@dataclass
class Notes:
    """Counts and odd things, collected while files are read."""

    counts: Counter[str] = field(default_factory=Counter)
    """Odd things by code."""
    examples: dict[str, str] = field(default_factory=dict)
    """Of each code, where it was first met, and how it looked."""
    entries: int = 0
    unread: int = 0
    layouts: dict[str, Counter[str]] = field(default_factory=dict)
    """Layout -> trajectories, questions, messages, kept and raw ones."""
    layout: str = ""
    """Whose entry is being read: what the message counts go to."""

    def add(self, code: str, where: str, what: object = "", count: int = 1) -> None:
        """Count an odd thing."""
        self.counts[code] += count
        if code not in self.examples:
            shown = " ".join(str(what)[: 8 * _EXAMPLE_CHARS].split())
            shown = shown if len(shown) <= _EXAMPLE_CHARS else shown[: _EXAMPLE_CHARS - 1] + "…"
            self.examples[code] = f"{where}: {shown}" if shown else where

    def tally(self, what: str, count: int = 1) -> None:
        """Count ``messages``, ``kept``, ``raw``, ``trajectories`` or ``questions`` of the layout being read."""
        self.layouts.setdefault(self.layout, Counter())[what] += count

    def absorb(self, other: "Notes") -> None:
        """Add what was noted elsewhere; of an example the first stays."""
        self.counts.update(other.counts)
        self.examples = other.examples | self.examples
        self.entries += other.entries
        self.unread += other.unread
        for name, counts in other.layouts.items():
            self.layouts.setdefault(name, Counter()).update(counts)


@dataclass(frozen=True)
class Oddity:
    """One kind of odd thing."""

    code: str
    count: int
    example: str
    """Where it was first met, and how it looked."""


@dataclass(frozen=True)
class LayoutCount:
    """What came in of one layout."""

    layout: str
    trajectories: int = 0
    questions: int = 0
    messages: int = 0
    kept: int = 0
    raw: int = 0


@dataclass(frozen=True)
class ImportReport:
    """What came in; prints itself as rich tables.

    Two sums always hold, so nothing is lost in silence: ``messages == kept + raw``, and
    ``entries == trajectories + questions + unread``.
    """

    files: int = 0
    """Files that held at least one entry in a known layout."""
    entries: int = 0
    """Lines, rows or list items met in these files."""
    trajectories: int = 0
    questions: int = 0
    messages: int = 0
    kept: int = 0
    """Messages that became (a part of) a node of a known kind."""
    raw: int = 0
    """Messages that nobody could classify, kept as RAW nodes."""
    unread: int = 0
    """Entries that could not be read or are in no known layout."""
    odd: tuple[Oddity, ...] = ()
    """Sorted by code. Codes ``turn:...`` come from the parser of turns."""
    layouts: tuple[LayoutCount, ...] = ()
    """Sorted by layout."""

    @classmethod
    def of(cls, notes: Notes, files: int) -> "ImportReport":
        """What was collected."""
        odd = tuple(Oddity(code, notes.counts[code], notes.examples[code]) for code in sorted(notes.counts))
        counted = {name: counts for name, counts in sorted(notes.layouts.items()) if counts.total()}
        layouts = tuple(LayoutCount(name, **{what: c[what] for what in _LAYOUT_COUNTS}) for name, c in counted.items())
        totals = {what: sum(counts[what] for counts in counted.values()) for what in _LAYOUT_COUNTS}
        return cls(files=files, entries=notes.entries, unread=notes.unread, odd=odd, layouts=layouts, **totals)

    def as_json(self) -> dict[str, Any]:
        """The report as JSON values."""
        return asdict(self) | {"odd": [asdict(one) for one in self.odd], "layouts": [asdict(one) for one in self.layouts]}

    def __rich__(self) -> RenderableType:
        counts = Table("what", "count", title="Import")
        for name in _COUNTS:
            counts.add_row(name, f"{getattr(self, name):,}")
        layouts = Table("layout", *_LAYOUT_COUNTS)
        for one in self.layouts:
            layouts.add_row(one.layout, *(f"{getattr(one, name):,}" for name in _LAYOUT_COUNTS))
        odd = Table("odd", "count", "first seen")
        for oddity in self.odd:
            odd.add_row(visible(oddity.code), f"{oddity.count:,}", Text(visible(oddity.example)))
        return Group(counts, *([layouts] if self.layouts else []), *([odd] if self.odd else []))
