"""Several sources as one stream of pages, read by one process or by several, with the account of what each held.

These accounts go into the world's manifest; they are the mark of the stream, too, so it goes on from any page.
"""

import json
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import islice
from typing import Any

import sanderling
from sanderling.runs.locks import in_processes
from sanderling.world.contract import Page
from sanderling.world.disk.building import Feed, SourceAccount
from sanderling.world.sources.base import DocumentSource, Skipped, Source, stamp_of
from sanderling.world.text import clean

_BATCH = 16  # documents that a process is handed together
_MOST_EXAMPLES = 5
_LONGEST_EXAMPLE = 500


class Gathering(Feed):
    """The pages of several sources, in their order, counted as they pass."""

    def __init__(self, sources: Sequence[Source], workers: int = 1) -> None:
        """``workers``: processes that read the documents of one source, where it has any to read."""
        super().__init__()
        self._sources = sources
        self._workers = workers
        self._accounts: list[SourceAccount] = []
        self.stamp = stamp_of(sanderling.__version__, *(f"{source.name!a} {source.stamp()}" for source in sources))

    def pages(self, mark: str = "") -> Iterator[Page]:
        self._accounts = list(self.accounts(mark))
        self.read = sum(account.documents for account in self._accounts)
        for number, source in enumerate(self._sources):
            if number < len(self._accounts) - 1:
                continue  # it was read to its end, since the next was begun
            if number == len(self._accounts):
                self._accounts.append(SourceAccount(name=clean(source.name)))
            account = self._accounts[number]
            if self._workers > 1 and isinstance(source, DocumentSource):
                items = parallel_items(source, self._workers, account.documents)
            else:
                items = source.items(account.documents)
            for item in items:
                account.documents += 1
                self.read += 1
                if isinstance(item, Page):
                    account.pages += 1
                    yield item
                    continue
                reason = item.reason.value
                account.skipped[reason] = account.skipped.get(reason, 0) + 1
                examples = account.examples.setdefault(reason, [])
                if len(examples) < _MOST_EXAMPLES:
                    examples.append(clean(item.where[:_LONGEST_EXAMPLE]))

    def mark(self) -> str:
        return json.dumps([account.model_dump() for account in self._accounts])

    def accounts(self, mark: str) -> tuple[SourceAccount, ...]:
        return tuple(SourceAccount.model_validate(account) for account in json.loads(mark or "[]"))


def parallel_items(source: DocumentSource[Any], workers: int, skip: int = 0) -> Iterator[Page | Skipped]:
    """The items of a source in their order, read by ``workers`` processes. Raises UserError when a process was killed."""
    documents = islice(source.documents(), skip, None)
    batches = iter(lambda: list(islice(documents, _BATCH)), [])
    killed = (
        "A process that reads documents was killed (often for want of memory): "
        "run the same command again, with fewer --workers; it goes on from here."
    )
    for items in in_processes(_read, batches, workers, prepare=partial(_prepare, source), killed=killed):
        yield from items


_readers: list[DocumentSource[Any]] = []  # in a process that reads: its source


def _prepare(source: DocumentSource[Any]) -> None:
    _readers[:] = [source]


def _read(batch: list[Any]) -> list[Page | Skipped]:
    return [document if isinstance(document, Skipped) else _readers[0].read(document) for document in batch]
