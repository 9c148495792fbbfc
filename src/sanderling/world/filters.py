"""Filters over any world: what a question must not see, and links to it.

`MaskedWorld` hides the question's own source pages with their near-duplicates, and blocked sites; `GuardedWorld` hides what
gives the question away. A hidden page is in no list of results and is NOT_FOUND when visited; a link to it keeps its words and
loses its address.
"""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from sanderling.core.errors import UserError
from sanderling.core.plugins import load_outside
from sanderling.core.types import ToolStatus
from sanderling.world.addresses import canonical_set, canonical_url, page_address
from sanderling.world.blocked import Blocklist
from sanderling.world.contract import NO_OCCASION, Occasion, SearchHit, SearchReply, VisitReply, World, missing
from sanderling.world.guard import Guard
from sanderling.world.links import Hidden, with_hits, without_hidden

BLOCKLIST_FILE = "blocklist.txt"
_WHOLE_PAGE = 10**9  # words: more than any page has
_LOOKED_AT = 50  # pages that are looked at for a question


class Filter(World):
    """A world around a world, with its name and pages; what is asked goes on to it unless a filter says otherwise."""

    def __init__(self, world: World, fingerprint: str) -> None:
        self._world = world
        self.name = world.name
        self.page_count = world.page_count
        self.offline = world.offline
        self.fingerprint = fingerprint

    async def search_many(
        self, queries: Sequence[str], *, limit: int = 10, snippet_words: int = 30, occasion: Occasion = NO_OCCASION
    ) -> tuple[SearchReply, ...]:
        return await self._world.search_many(queries, limit=limit, snippet_words=snippet_words, occasion=occasion)

    async def visit(self, url: str, goal: str = "", *, max_words: int = 2000, occasion: Occasion = NO_OCCASION) -> VisitReply:
        return await self._world.visit(url, goal, max_words=max_words, occasion=occasion)


class MaskedWorld(Filter):
    """A world in which masks reach near-duplicates (``groups`` by URL), and blocked sites do not exist."""

    def __init__(self, world: World, groups: Sequence[Sequence[str]] = (), blocklist: Blocklist | None = None) -> None:
        self._blocklist = blocklist or Blocklist()
        self._group_of: dict[str, frozenset[str]] = {}
        for group in groups:
            keys = frozenset(canonical_url(url) for url in group)
            self._group_of.update(dict.fromkeys(keys, keys))
        parts = [sorted({tuple(sorted(group)) for group in self._group_of.values()})]
        parts += [sorted(self._blocklist.hosts), sorted(self._blocklist.prefixes)]
        parts += [sorted(self._blocklist.paths)] if self._blocklist.paths else []
        digest = hashlib.sha256(json.dumps([world.fingerprint, *parts]).encode()).hexdigest()
        super().__init__(world, digest if self._group_of or self._blocklist else world.fingerprint)

    async def search_many(
        self, queries: Sequence[str], *, limit: int = 10, snippet_words: int = 30, occasion: Occasion = NO_OCCASION
    ) -> tuple[SearchReply, ...]:
        """Rank pages; see `contract.World`. An offline world is asked for more results until enough are not blocked."""
        occasion, hidden = self._expanded(occasion)
        if hidden is None:
            return await self._world.search_many(queries, limit=limit, snippet_words=snippet_words, occasion=occasion)
        wanted = limit
        found: dict[str, SearchReply] = {}
        while absent := [query for query in dict.fromkeys(queries) if query not in found]:
            replies = await self._world.search_many(absent, limit=wanted, snippet_words=snippet_words, occasion=occasion)
            for query, reply in zip(absent, replies, strict=True):
                kept = [hit for hit in reply.hits if not hidden(canonical_url(hit.url))]
                if len(kept) >= limit or len(reply.hits) < wanted or not self.offline:
                    found[query] = with_hits(reply, kept[:limit], hidden)
            wanted *= 2
        return tuple(found[query] for query in queries)

    async def visit(self, url: str, goal: str = "", *, max_words: int = 2000, occasion: Occasion = NO_OCCASION) -> VisitReply:
        occasion, hidden = self._expanded(occasion)
        if hidden is not None and hidden(canonical_url(url)):
            return missing(url)
        reply = await self._world.visit(url, goal, max_words=max_words, occasion=occasion)
        if hidden is None:
            return reply
        if reply.moved and hidden(canonical_url(reply.moved)):
            return missing(url, reply.latency_s)
        return without_hidden(reply, hidden)

    def _expanded(self, occasion: Occasion) -> tuple[Occasion, Hidden | None]:
        """The occasion with all near-duplicates masked, and what is hidden then; None: nothing."""
        keys = canonical_set(occasion.masked)
        keys = keys.union(*(self._group_of[key] for key in keys if key in self._group_of))
        if not keys and not self._blocklist:
            return occasion, None
        return replace(occasion, masked=keys), lambda key: key in keys or self._blocklist.blocks(key)


class GuardedWorld(Filter):
    """A world in which a question's leaks do not exist: no result, and NOT_FOUND when visited, as a missing page is.

    A page is judged by its whole text. For lists of an offline world, the pages of a question are looked up once, by its own
    words; every hit is judged besides by what the list shows of it. Stands beneath a world's faults.
    """

    def __init__(self, world: World, guard: Guard) -> None:
        self._guard = guard
        self._leaking: dict[str, frozenset[str]] = {}
        guarded = f"{world.fingerprint} guarded {guard.fingerprint}"
        super().__init__(world, hashlib.sha256(guarded.encode()).hexdigest() if world.offline else guarded)

    async def search_many(
        self, queries: Sequence[str], *, limit: int = 10, snippet_words: int = 30, occasion: Occasion = NO_OCCASION
    ) -> tuple[SearchReply, ...]:
        replies = await self._world.search_many(queries, limit=limit, snippet_words=snippet_words, occasion=occasion)
        leaking = await self._leaks(occasion.question)
        found: list[SearchReply] = []
        for reply in replies:
            hits: list[SearchHit] = []
            for hit in reply.hits:
                if self._guard.hides_address(occasion, "search", hit.url):
                    continue
                leaks = canonical_url(hit.url) in leaking
                page = await self._whole(hit.url, NO_OCCASION) if leaks else VisitReply(hit.url, hit.title, hit.snippet)
                if page is None or not self._guard.hides(occasion, "search", page):
                    hits.append(hit)
            found.append(with_hits(reply, hits, self._guard.blocklist.blocks))
        return tuple(found)

    async def visit(self, url: str, goal: str = "", *, max_words: int = 2000, occasion: Occasion = NO_OCCASION) -> VisitReply:
        if self._guard.hides_address(occasion, "visit", url):
            return missing(url)
        reply = await self._world.visit(url, goal, max_words=max_words, occasion=occasion)
        where = reply.moved or reply.url
        if canonical_url(where) != canonical_url(url) and self._guard.hides_address(occasion, "visit", where):
            return missing(url, reply.latency_s)
        if reply.status is ToolStatus.OK or reply.part > reply.parts:  # past the end of a page its title is told
            shown = replace(reply, url=where)
            page = shown if (reply.part, reply.parts) == (1, 1) else await self._whole(url, occasion) or shown
            if self._guard.hides(occasion, "visit", page):
                return missing(url, reply.latency_s)
        return without_hidden(reply, self._guard.blocklist.blocks)

    async def _whole(self, url: str, occasion: Occasion) -> VisitReply | None:
        """A page from its first word to its last, masked or not; None where it cannot be read."""
        unmasked = Occasion(fetched=occasion.fetched)
        page = await self._world.visit(page_address(url), max_words=_WHOLE_PAGE, occasion=unmasked)
        return replace(page, url=page.moved or page.url) if page.status is ToolStatus.OK else None

    async def _leaks(self, question: str) -> frozenset[str]:
        """Keys of pages that hold the question, found by a search for it."""
        if question not in self._leaking:
            text = self._guard.texts.get(question, "") if self.offline else ""
            hits = (await self._world.search(text, limit=_LOOKED_AT, snippet_words=1)).hits if text else ()
            pages = [page for hit in hits if (page := await self._whole(hit.url, NO_OCCASION)) is not None]
            asked = Occasion(question=question)
            leaking = (page.url for page in pages if self._guard.hides(asked, "", page, noted=False))
            self._leaking[question] = frozenset(map(canonical_url, leaking))
        return self._leaking[question]


def filtered(
    world: World,
    blocklist: Blocklist | None = None,
    guard: Guard | None = None,
    *,
    groups: Sequence[Sequence[str]] = (),
    filters: Sequence[str] = (),
) -> World:
    """Any world, or the live web, in which an episode's masks hold, then what a guard and further filters hide.

    ``filters``: by ``file.py:name``, each called with the world so far. Raises UserError.
    """
    world = MaskedWorld(world, groups, blocklist)
    if guard is not None:
        world = GuardedWorld(world, guard)
    for name in filters:
        make = load_outside(name)
        found = make(world) if callable(make) else None
        if not isinstance(found, World):
            raise UserError(
                f"{name} is no filter: give a function, or a class after world/filters.py, that makes a world of one."
            )
        world = found
    return world


def read_blocklist(path: Path) -> Blocklist:
    """The blocklist of a file; an empty one when there is no file. Raises UserError when it cannot be read."""
    try:
        return Blocklist.parse(path.read_text(encoding="utf-8")) if path.exists() else Blocklist()
    except (OSError, ValueError) as error:
        raise UserError(
            f"The blocklist {path} cannot be read ({error}): write one host, URL or */path a line, in UTF-8."
        ) from error
