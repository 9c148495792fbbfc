"""What a world is: pages, a search over them, a visit to one of them.

An offline world is deterministic: the same world, seed and call give the same bytes, and no socket is opened. The live web
(`live`), filters (`filters`) and faults (`faults.world`) are worlds, too.
"""

from abc import ABC, abstractmethod
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, TypeVar

from sanderling.core.config import Frozen
from sanderling.core.types import ToolStatus

Reply = TypeVar("Reply")


class Page(Frozen):
    """One page as it is stored: clean text in Markdown, the date as the page gives it, the builder or site it came from."""

    url: str
    title: str
    text: str
    links: tuple[str, ...] = ()
    date: str = ""
    source: str = ""


@dataclass(frozen=True)
class SearchHit:
    """One ranked result."""

    title: str
    url: str
    snippet: str
    date: str = ""
    score: float = 0.0
    source: str = ""  # of several places, the one it is from


@dataclass(frozen=True)
class SearchReply:
    """The ranked results of one query."""

    query: str
    hits: tuple[SearchHit, ...]
    status: ToolStatus = ToolStatus.OK
    latency_s: float = 0.0


@dataclass(frozen=True)
class VisitReply:
    """The passages of one page that serve a goal, or a part of the page in page order.

    ``part``: from 1; 0: passages chosen for the goal; past ``parts``: there is no such part. ``summary``: from a model that
    read it (`tools.page_reader`). ``moved``: where redirections led in the end; empty: a stored page. ``date``: as the page
    gives it.
    """

    url: str
    title: str
    text: str
    status: ToolStatus = ToolStatus.OK
    latency_s: float = 0.0
    part: int = 1
    parts: int = 1
    summary: str = ""
    moved: str = field(default="", compare=False)
    date: str = field(default="", compare=False)


def missing(url: str, latency_s: float = 0.0) -> VisitReply:
    """The reply for a page that does not exist."""
    return VisitReply(url=url, title="", text="", status=ToolStatus.NOT_FOUND, latency_s=latency_s)


@dataclass(frozen=True)
class Occasion:
    """What a reply may depend on beside the call itself.

    ``masked``: URLs that do not exist for this question. ``episode_seed`` and ``occurrence`` (how often the episode made the
    very same call before) key the faults. ``question``: id of what the episode researches, which a guard protects;
    ``attempt``, ``ordinal`` (which call of the episode asks): for logs. ``fetched``: live pages that one call has fetched;
    None: nothing is kept.
    """

    masked: frozenset[str] = frozenset()
    episode_seed: int = 0
    occurrence: int = 0
    question: str = ""
    attempt: int = 0
    ordinal: int = field(default=0, compare=False)
    fetched: dict[str, VisitReply] | None = field(default=None, compare=False, repr=False)


NO_OCCASION = Occasion()


class OutageError(OSError):
    """A service behind a world is broken, refuses its key or cannot be reached."""


class Leaks(StrEnum):
    """What happens to a query or address for the web that repeats a private page."""

    HOLD = "hold"  # it is not sent, and the agent reads why
    ASK = "ask"  # whoever sits at the terminal decides; nobody there: it is not sent
    ALLOW = "allow"


class World(ABC):
    """Pages with search and visit; one of `search` and `search_many` is enough for a world to define.

    Raises OSError where the pages, or a service behind them, cannot be read. Equal fingerprints, equal worlds: a SHA-256 over
    the pages in order and all else that answers depend on. ``offline``: whether the same call always has the same answer.
    ``waits``: whether answers come from elsewhere, and have to be awaited (see :func:`answered`).
    ``away``: whether what it is asked leaves this machine for another's.
    """

    name: str
    fingerprint: str
    page_count: int
    offline: bool = True
    waits: bool = False
    away: bool = False

    async def search(
        self, query: str, *, limit: int = 10, snippet_words: int = 30, occasion: Occasion = NO_OCCASION
    ) -> SearchReply:
        """Rank pages, each with a snippet of at most ``snippet_words``. Never raises for any text; an empty query is EMPTY."""
        return (await self.search_many([query], limit=limit, snippet_words=snippet_words, occasion=occasion))[0]

    async def search_many(
        self, queries: Sequence[str], *, limit: int = 10, snippet_words: int = 30, occasion: Occasion = NO_OCCASION
    ) -> tuple[SearchReply, ...]:
        """As `search` for each query, to the byte; worlds that can do it cheaper together do so."""
        options: dict[str, Any] = {"limit": limit, "snippet_words": snippet_words, "occasion": occasion}
        return tuple([await self.search(query, **options) for query in queries])

    @abstractmethod
    async def visit(self, url: str, goal: str = "", *, max_words: int = 2000, occasion: Occasion = NO_OCCASION) -> VisitReply:
        """The passages of a page that serve the goal, in page order; NOT_FOUND for a masked or missing page.

        An address with ``#page=N`` asks for part N of the page as it stands; NOT_FOUND past the last.
        """


def answered(reply: Coroutine[Any, Any, Reply]) -> Reply:
    """A world's answer without an event loop, for callers that are no coroutines: ``answered(world.search("flats"))``."""
    try:
        reply.send(None)
    except StopIteration as done:
        return done.value
    reply.close()
    raise RuntimeError("this world answers only within an event loop: await it")
