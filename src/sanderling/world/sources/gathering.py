"""Several sources as one stream of pages, and the account of what each held: nothing is left out uncounted.

What a source gave and what it left out is counted here and goes into the world's manifest; so does what the world itself leaves
out later (a second page of the same address). The mark of the stream is the accounts and the number of items behind them, so it
goes on from any page. Knows no store.
"""

import json
from collections.abc import Iterator, Sequence

import sanderling
from sanderling.world.building import SourceAccount
from sanderling.world.contract import Page
from sanderling.world.sources.contract import Skipped, Source, stamp_of
from sanderling.world.text import clean

_MOST_EXAMPLES = 5
_LONGEST_EXAMPLE = 500


class Gathering:
    """The pages of several sources, in their order, counted as they pass; a `building.Feed`."""

    def __init__(self, sources: Sequence[Source]) -> None:
        self._sources = sources
        self._accounts: list[SourceAccount] = []
        self._read = 0
        self._totals = [source.total() for source in sources]
        self.stamp = stamp_of(sanderling.__version__, *(f"{source.name!a} {source.stamp()}" for source in sources))

    def pages(self, mark: str = "") -> Iterator[Page]:
        """The pages after a mark, of all sources."""
        self._accounts = list(self.accounts(mark))
        self._read = sum(account.documents for account in self._accounts)
        for number, source in enumerate(self._sources):
            if number < len(self._accounts) - 1:
                continue  # it was read to its end, since the next was begun
            if number == len(self._accounts):
                self._accounts.append(SourceAccount(name=clean(source.name)))
            for item in source.items(self._accounts[number].documents):
                _count(self._accounts[number], item)
                self._read += 1
                if isinstance(item, Page):
                    yield item

    def mark(self) -> str:
        """Where the stream is."""
        return json.dumps([account.model_dump() for account in self._accounts])

    def accounts(self, mark: str) -> tuple[SourceAccount, ...]:
        """What became of the documents up to a mark."""
        return tuple(SourceAccount.model_validate(account) for account in json.loads(mark or "[]"))

    def total(self) -> int | None:
        """Number of documents, where every source knows its own."""
        known = [total for total in self._totals if total is not None]
        return sum(known) if len(known) == len(self._totals) else None

    def read(self) -> int:
        """Number of documents so far."""
        return self._read


def _count(account: SourceAccount, item: Page | Skipped) -> None:
    account.documents += 1
    if isinstance(item, Page):
        account.pages += 1
        return
    reason = item.reason.value
    account.skipped[reason] = account.skipped.get(reason, 0) + 1
    examples = account.examples.setdefault(reason, [])
    if len(examples) < _MOST_EXAMPLES:
        examples.append(clean(item.where[:_LONGEST_EXAMPLE]))
