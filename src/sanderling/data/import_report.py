"""What an import saw: counts, and odd things by code with one example each."""

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from sanderling.core.text import visible

_EXAMPLE_CHARS = 160
_OF_LAYOUT = ("trajectories", "questions", "messages", "kept", "raw")
_COUNTS = ("files", "entries", *_OF_LAYOUT, "unread")


@dataclass
class ImportReport:
    """Counts that grow while files are read; prints itself as rich tables.

    Two sums always hold, so nothing is lost in silence: ``messages == kept + raw``, and
    ``entries == trajectories + questions + unread``.
    """

    files: int = 0
    """Files that held at least one entry in a known layout."""
    entries: int = 0
    """Lines, rows or list items met in these files."""
    unread: int = 0
    """Entries that could not be read or are in no known layout."""
    odd: Counter[str] = field(default_factory=Counter)
    """Odd things by code; codes ``turn:...`` come from the parser of turns."""
    examples: dict[str, str] = field(default_factory=dict)
    """Of each code, where it was first met, and how it looked."""
    layouts: dict[str, Counter[str]] = field(default_factory=dict)
    """By layout: ``trajectories``, ``questions``, ``messages``, of these ``kept`` (in a node of a known kind) and ``raw``."""
    layout: str = ""
    """Whose entry is being read: what the message counts go to."""

    def add(self, code: str, where: str, what: object = "", count: int = 1) -> None:
        """Count an odd thing."""
        self.odd[code] += count
        if code not in self.examples:
            shown = " ".join(str(what)[: 8 * _EXAMPLE_CHARS].split())
            shown = shown if len(shown) <= _EXAMPLE_CHARS else shown[: _EXAMPLE_CHARS - 1] + "…"
            self.examples[code] = f"{where}: {shown}" if shown else where

    def tally(self, what: str, count: int = 1) -> None:
        """Count something of the layout being read."""
        self.layouts.setdefault(self.layout, Counter())[what] += count

    def absorb(self, other: "ImportReport") -> None:
        """Add what was noted elsewhere; of an example the first stays."""
        self.files += other.files
        self.entries += other.entries
        self.unread += other.unread
        self.odd.update(other.odd)
        self.examples = other.examples | self.examples
        for name, counts in other.layouts.items():
            self.layouts.setdefault(name, Counter()).update(counts)

    def total(self, what: str) -> int:
        """A count over all layouts."""
        return sum(counts[what] for counts in self.layouts.values())

    trajectories = property(lambda self: self.total("trajectories"))
    questions = property(lambda self: self.total("questions"))
    messages = property(lambda self: self.total("messages"))
    kept = property(lambda self: self.total("kept"))
    raw = property(lambda self: self.total("raw"))

    def as_json(self) -> dict[str, Any]:
        """The report as JSON values."""
        odd = [{"code": code, "count": self.odd[code], "example": self.examples[code]} for code in sorted(self.odd)]
        layouts = [
            {"layout": name} | {what: counts[what] for what in _OF_LAYOUT}
            for name, counts in sorted(self.layouts.items())
            if counts.total()
        ]
        return {what: getattr(self, what) for what in _COUNTS} | {"odd": odd, "layouts": layouts}

    def __rich__(self) -> RenderableType:
        told = self.as_json()
        tables = [Table("what", "count", title="Import")]
        for name in _COUNTS:
            tables[0].add_row(name, f"{told[name]:,}")
        if told["layouts"]:
            tables.append(Table("layout", *_OF_LAYOUT))
        for one in told["layouts"]:
            tables[-1].add_row(one["layout"], *(f"{one[what]:,}" for what in _OF_LAYOUT))
        if told["odd"]:
            tables.append(Table("odd", "count", "first seen"))
        for one in told["odd"]:
            tables[-1].add_row(visible(one["code"]), f"{one['count']:,}", Text(visible(one["example"])))
        return Group(*tables)
