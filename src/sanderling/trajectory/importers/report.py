"""What an import saw: counts, and odd things by code with one example each. Pure data; prints itself as a rich table."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from rich.table import Table

_EXAMPLE_CHARS = 160


@dataclass(frozen=True)
class Oddity:
    """One kind of odd thing."""

    code: str
    count: int
    example: str
    """Where it was first met, and how it looked."""


@dataclass(frozen=True)
class ImportReport:
    """What came in. ``messages == kept + raw``: no message is ever lost."""

    files: int = 0
    trajectories: int = 0
    questions: int = 0
    messages: int = 0
    kept: int = 0
    """Messages that became a node of a known kind."""
    raw: int = 0
    """Messages that nobody could classify, kept as RAW nodes."""
    odd: tuple[Oddity, ...] = ()
    """Sorted by code. Codes ``turn:...`` come from the parser of turns."""

    def __rich__(self) -> Table:
        table = Table("what", "count", "first seen", title="Import")
        for name in ("files", "trajectories", "questions", "messages", "kept", "raw"):
            table.add_row(name, str(getattr(self, name)), "")
        table.add_section()
        for oddity in self.odd:
            table.add_row(oddity.code, str(oddity.count), oddity.example)
        return table


def merge_reports(reports: Iterable[ImportReport]) -> ImportReport:
    """One report for several files; examples are those of the first file that has one."""
    totals: Counter[str] = Counter()
    notes = Notes()
    for report in reports:
        for name in ("files", "trajectories", "questions", "messages", "kept", "raw"):
            totals[name] += getattr(report, name)
        for oddity in report.odd:
            notes.counts[oddity.code] += oddity.count
            notes.examples.setdefault(oddity.code, oddity.example)
    return ImportReport(**totals, odd=notes.oddities())


@dataclass
class Notes:
    """Collects odd things while a file is read."""

    counts: Counter[str] = field(default_factory=Counter)
    examples: dict[str, str] = field(default_factory=dict)

    def add(self, code: str, where: str, what: object = "") -> None:
        """Count one odd thing."""
        self.counts[code] += 1
        shown = " ".join(str(what).split())
        shown = shown if len(shown) <= _EXAMPLE_CHARS else shown[: _EXAMPLE_CHARS - 1] + "…"
        self.examples.setdefault(code, f"{where}: {shown}" if shown else where)

    def oddities(self) -> tuple[Oddity, ...]:
        """What was collected, sorted by code."""
        return tuple(Oddity(code, self.counts[code], self.examples[code]) for code in sorted(self.counts))
