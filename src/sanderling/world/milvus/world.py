"""A world whose pages and indexes lie on Milvus. Implements `contract.World`.

Search and visit are `LocalWorld`'s own, over a store and a ranker that ask the server, so snippets, extracts and masks are
those of a world on this machine. Each batch of queries costs one search for each kind of ranking, and one read of the pages
to be shown. It opens sockets while it answers, and its ties and order are fixed here; the server must not be written to
meanwhile.
"""

from collections.abc import Collection, Sequence
from pathlib import Path

from sanderling.core.errors import UserError
from sanderling.world.dense.index import LEXICAL, HybridRanker, SearchChoice, SearchMode, open_for_queries
from sanderling.world.index import Ranked, Ranker
from sanderling.world.local import LocalWorld
from sanderling.world.milvus.client import MilvusStore
from sanderling.world.milvus.pages import MilvusPages
from sanderling.world.milvus.pointer import WORDS, Pointer, read_pointer
from sanderling.world.milvus.rankers import MilvusDense, MilvusText
from sanderling.world.milvus.words import WordCounts


class MilvusWorld(LocalWorld):
    """A world by the directory that stands for it.

    Args:
        directory: made by `push.push_world`.
        choice: how it is searched.

    """

    def __init__(self, directory: Path, choice: SearchChoice = LEXICAL) -> None:
        """Raises UserError when the server cannot be reached or does not hold what was pushed."""
        pointer = read_pointer(directory)
        store = MilvusStore(pointer.uri, pointer.collection, pointer.passages_collection)
        store.load()
        if store.count() != (pointer.pages, pointer.passages):
            raise UserError(
                f"Milvus at {pointer.uri} does not hold the {pointer.pages:,} pages of {directory}: push the world again."
            )
        self._remote = MilvusPages(store)
        text = MilvusText(store)
        ranker = _ReadAhead(_ranker(directory, store, text, pointer, choice), self._remote)
        index = _Index(pointer.pages, WordCounts(directory / WORDS), text)
        super().__init__(pointer.name, pointer.fingerprint, self._remote, index, ranker, waits=True)

    def _hidden(self, keys: Collection[str]) -> list[int]:
        return self._remote.find_many(keys)


def _ranker(directory: Path, store: MilvusStore, text: MilvusText, pointer: Pointer, choice: SearchChoice) -> Ranker:
    if choice.mode is SearchMode.LEXICAL:
        return text
    info, embedder = open_for_queries(directory, pointer.fingerprint, pointer.pages, choice)
    dense = MilvusDense(store, info.settings, embedder)
    return dense if choice.mode is SearchMode.DENSE else HybridRanker([text, dense])


class _ReadAhead:
    """A ranker whose pages are read, all in one call, before anybody asks for them one by one."""

    def __init__(self, ranker: Ranker, pages: MilvusPages) -> None:
        self._ranker = ranker
        self._pages = pages

    @property
    def identity(self) -> str:
        return self._ranker.identity

    def rank(self, query: str, limit: int, hidden: Collection[int] = ()) -> Ranked:
        return self.rank_many([query], limit, hidden)[0]

    def rank_many(self, queries: Sequence[str], limit: int, hidden: Collection[int] = ()) -> list[Ranked]:
        lists = self._ranker.rank_many(queries, limit, hidden)
        self._pages.fetch([number for ranked in lists for number, _ in ranked])
        return lists


class _Index:
    """What a world asks of its full-text index. Implements `index.FullText`."""

    def __init__(self, pages: int, words: WordCounts, text: MilvusText) -> None:
        self.page_count = pages
        self.frequency = words.frequency
        self.search = text.rank
