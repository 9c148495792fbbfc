"""Several sources as one stream of pages, and the account of what each held: nothing is left out uncounted.

What a source gave and what it left out is counted here and written beside the world as ``sources.json``; what the world itself
leaves out later (a second page of the same address) is in its manifest. Knows no store.
"""

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from sanderling.world.contract import Page
from sanderling.world.sources.contract import Reason, Skipped, Source

FILE_NAME = "sources.json"
_MOST_EXAMPLES = 5


@dataclass
class Account:
    """What became of the documents of one source."""

    name: str
    pages: int = 0
    skipped: Counter[Reason] = field(default_factory=Counter)
    examples: dict[Reason, list[str]] = field(default_factory=dict)
    """Where the first few of each reason are."""

    @property
    def documents(self) -> int:
        """All that were seen."""
        return self.pages + self.skipped.total()

    def add(self, item: Page | Skipped) -> None:
        """Count one."""
        if isinstance(item, Page):
            self.pages += 1
            return
        self.skipped[item.reason] += 1
        examples = self.examples.setdefault(item.reason, [])
        if len(examples) < _MOST_EXAMPLES:
            examples.append(item.where[:500])

    def record(self) -> dict[str, object]:
        """For `sources.json`: reasons in the order of their names."""
        skipped = {reason.value: self.skipped[reason] for reason in sorted(self.skipped)}
        examples = {reason.value: self.examples[reason] for reason in sorted(self.examples)}
        return {"name": self.name, "documents": self.documents, "pages": self.pages, "skipped": skipped, "examples": examples}


class Gathering:
    """The pages of several sources, in their order, counted as they pass."""

    def __init__(self, sources: Sequence[Source]) -> None:
        self._sources = sources
        self.accounts: list[Account] = []

    def pages(self) -> Iterator[Page]:
        """Every page; the accounts are whole when it ends."""
        self.accounts.clear()
        for source in self._sources:
            account = Account(source.name)
            self.accounts.append(account)
            for item in source.items():
                account.add(item)
                if isinstance(item, Page):
                    yield item

    def save(self, directory: Path) -> None:
        """Write the accounts into a world's directory."""
        text = json.dumps({"sources": [account.record() for account in self.accounts]}, ensure_ascii=False, indent=2)
        (directory / FILE_NAME).write_text(text + "\n", encoding="utf-8", errors="replace")
