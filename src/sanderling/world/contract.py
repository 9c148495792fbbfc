"""What a world is: pages, a search over them, a visit to one of them. Deterministic, and without sockets.

The same world, seed and call give the same bytes. Search hits are structured; how they are laid out as text is the profile's
business (``tools/``). A world knows nothing of agents or models.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from pydantic import BaseModel, ConfigDict

from sanderling.core.types import ToolStatus


class Page(BaseModel):
    """One page as it is stored: clean text in Markdown, headings as ``#`` lines."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    url: str
    title: str
    text: str
    links: tuple[str, ...] = ()
    date: str = ""
    """As the page gives it; empty: undated."""
    source: str = ""
    """Which builder or site it came from."""


@dataclass(frozen=True)
class SearchHit:
    """One ranked result."""

    title: str
    url: str
    snippet: str
    date: str = ""
    score: float = 0.0


@dataclass(frozen=True)
class SearchReply:
    """The ranked results of one query."""

    query: str
    hits: tuple[SearchHit, ...]
    status: ToolStatus = ToolStatus.OK
    latency_s: float = 0.0


@dataclass(frozen=True)
class VisitReply:
    """The passages of one page that serve a goal, or a part of the page in page order."""

    url: str
    title: str
    text: str
    status: ToolStatus = ToolStatus.OK
    latency_s: float = 0.0
    part: int = 1
    """Which part of the page this is, from 1; 0: passages chosen for the goal. Past ``parts``: there is no such part."""
    parts: int = 1
    """In how many parts of the same budget the whole page can be read (`addresses.part_address`)."""
    summary: str = ""
    """What the text comes to, from a model that read it (`tools.page_reader`); worlds leave it empty."""


@dataclass(frozen=True)
class Occasion:
    """What a reply may depend on beside the call itself: who asks, for the how-manieth time, and what must not be seen."""

    masked: frozenset[str] = frozenset()
    """URLs that do not exist for this question, in any spelling."""
    episode_seed: int = 0
    """Shared by a group of rollouts; with ``occurrence`` it keys the faults of worlds that have any."""
    occurrence: int = 0
    """How often the episode made the very same call before."""
    question: str = ""
    """Id of what the episode researches: a guard hides what gives that question away."""
    attempt: int = 0
    """Which attempt at the question asks; told to logs, and no reply depends on it."""


NO_OCCASION = Occasion()


class World(Protocol):
    """An offline web."""

    @property
    def name(self) -> str:
        """Short name for records: builder, seed, size."""
        ...

    @property
    def fingerprint(self) -> str:
        """SHA-256 over the pages in order: equal fingerprints, equal worlds."""
        ...

    @property
    def page_count(self) -> int: ...

    @property
    def waits(self) -> bool:
        """Whether an answer may wait for a server, so that whoever has other work asks from a thread."""
        ...

    def search(
        self,
        query: str,
        *,
        limit: int = 10,
        snippet_words: int = 30,
        occasion: Occasion = NO_OCCASION,
    ) -> SearchReply:
        """Rank pages for a query, each with a snippet of at most ``snippet_words`` words, and no wider than live ones.

        Of a page in a script without spaces, whose words are single characters, the width alone counts.
        Never raises for any text; an empty query has status EMPTY.
        """
        ...

    def search_many(
        self,
        queries: Sequence[str],
        *,
        limit: int = 10,
        snippet_words: int = 30,
        occasion: Occasion = NO_OCCASION,
    ) -> tuple[SearchReply, ...]:
        """As `search` for each query, to the byte; worlds that can do it cheaper together do so."""
        ...

    def visit(
        self,
        url: str,
        goal: str = "",
        *,
        max_words: int = 2000,
        occasion: Occasion = NO_OCCASION,
    ) -> VisitReply:
        """The passages of a page that serve the goal, in page order. A masked or missing page has status NOT_FOUND.

        An address with ``#page=N`` asks for part N of the page as it stands, whatever the goal; a part that there is not has
        status NOT_FOUND too, and the number of ``parts``.
        """
        ...


class _AnswersAlone:
    """A world that asks nobody else."""

    @property
    def waits(self) -> bool:
        """See `World.waits`."""
        return False


class SearchesOneByOne(_AnswersAlone):
    """`World.search_many` for worlds that gain nothing from a batch: to inherit from."""

    def search_many(
        self: "_Searches",
        queries: Sequence[str],
        *,
        limit: int = 10,
        snippet_words: int = 30,
        occasion: Occasion = NO_OCCASION,
    ) -> tuple[SearchReply, ...]:
        """See `World.search_many`."""
        return tuple(self.search(q, limit=limit, snippet_words=snippet_words, occasion=occasion) for q in queries)


class SearchesTogether(_AnswersAlone):
    """`World.search` for worlds whose work is done in ``search_many``: to inherit from."""

    def search(
        self: "_SearchesMany",
        query: str,
        *,
        limit: int = 10,
        snippet_words: int = 30,
        occasion: Occasion = NO_OCCASION,
    ) -> SearchReply:
        """See `World.search`."""
        return self.search_many([query], limit=limit, snippet_words=snippet_words, occasion=occasion)[0]


class _Searches(Protocol):
    def search(self, query: str, *, limit: int, snippet_words: int, occasion: Occasion) -> SearchReply: ...


class _SearchesMany(Protocol):
    def search_many(
        self, queries: Sequence[str], *, limit: int, snippet_words: int, occasion: Occasion
    ) -> tuple[SearchReply, ...]: ...
