"""What the places of a session said: kept while it is researched, and a world again afterwards.

Of each place every page that was read is kept whole; of all places together, every reply to a search or a visit with the call
that asked for it. Run again, the same calls get the same replies (`Again`); another model searches and reads what there is, and
it is noted where it asked for something else (`Other`).
"""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pydantic import TypeAdapter

from sanderling.core.types import ToolStatus
from sanderling.runs.run import Run
from sanderling.world.addresses import canonical_url, page_address
from sanderling.world.contract import NO_OCCASION, Occasion, Page, SearchReply, VisitReply, World, missing
from sanderling.world.filters import Filter
from sanderling.world.local import LocalWorld
from sanderling.world.together import Together

PAGES, REPLIES = "pages", "replies"  # tables of a session's run
_WHOLE_PAGE = 10**9  # words: more than any page has
_SEARCH, _VISIT = TypeAdapter(SearchReply), TypeAdapter(VisitReply)


class Evidence:
    """What takes down replies, from the moment when there is a run to keep them in."""

    def __init__(self) -> None:
        self._run: Run | None = None
        self._places: World | None = None
        self.offline = True  # whether the places it was asked about were

    def keep_in(self, run: Run) -> None:
        self._run = run
        if isinstance(self._places, Together):  # what was read before a kill, or for an earlier question, is still private
            for key, page in run.table(PAGES).items():
                if page["private"]:
                    text = (run.table(PAGES).blob(key) or b"").decode("utf-8", "surrogatepass")
                    self._places.keep_private(page["title"], page["url"], text)
            for hit in (hit for _, kept in run.table(REPLIES).items() for hit in kept["reply"].get("hits", ())):
                if hit["source"] in self._places.private:
                    self._places.keep_private(hit["title"], hit["url"], hit["snippet"])

    def pages_of(self, place: World) -> World:
        """A place whose pages are kept."""
        return _KeptPages(place, self)

    def replies_of(self, places: World) -> World:
        """What an agent asks, which may be several places together, with its replies kept."""
        self._places, self.offline = places, places.offline
        return _KeptReplies(places, self)

    def add_page(self, url: str, title: str, text: str, *, private: bool) -> None:
        if self._run is not None:
            data = text.encode("utf-8", "surrogatepass")
            digest = hashlib.sha256(data).hexdigest()
            about = {"url": url, "title": title, "sha256": digest, "private": private}
            self._run.table(PAGES).put(f"{digest} {url}", about, blob=data, durable=False)

    def add_reply(self, tool: str, asked: str, ordinal: int, reply: Any) -> None:
        """Keep the reply of one query or address of a call."""
        if self._run is not None:
            kept = {"tool": tool, "asked": asked, "ordinal": ordinal, "reply": reply}
            self._run.table(REPLIES).put(f"{ordinal} {tool} {asked}", kept, durable=False)


class _KeptPages(Filter):
    def __init__(self, world: World, evidence: Evidence) -> None:
        super().__init__(world, world.fingerprint)
        self._evidence = evidence

    async def visit(self, url: str, goal: str = "", *, max_words: int = 2000, occasion: Occasion = NO_OCCASION) -> VisitReply:
        reply = await self._world.visit(url, goal, max_words=max_words, occasion=occasion)
        if reply.status is ToolStatus.OK:
            whole = reply  # of the live web, the call that is under way has the page already: nothing is fetched twice
            if (reply.part, reply.parts) != (1, 1):
                whole = await self._world.visit(page_address(url), max_words=_WHOLE_PAGE, occasion=occasion)
                if whole.status is not ToolStatus.OK:  # what was read of it is there
                    whole = reply
            self._evidence.add_page(page_address(reply.url), whole.title, whole.text, private=self.offline and not self.away)
        return reply


class _KeptReplies(Filter):
    def __init__(self, world: World, evidence: Evidence) -> None:
        super().__init__(world, world.fingerprint)
        self._evidence = evidence

    async def search_many(
        self, queries: Sequence[str], *, limit: int = 10, snippet_words: int = 30, occasion: Occasion = NO_OCCASION
    ) -> tuple[SearchReply, ...]:
        replies = await self._world.search_many(queries, limit=limit, snippet_words=snippet_words, occasion=occasion)
        for query, reply in zip(queries, replies, strict=True):
            self._evidence.add_reply("search", query, occasion.ordinal, _SEARCH.dump_python(reply, mode="json"))
        return replies

    async def visit(self, url: str, goal: str = "", *, max_words: int = 2000, occasion: Occasion = NO_OCCASION) -> VisitReply:
        reply = await self._world.visit(url, goal, max_words=max_words, occasion=occasion)
        self._evidence.add_reply("visit", url, occasion.ordinal, _VISIT.dump_python(reply, mode="json"))
        return reply


class Again(World):
    """The replies that were kept, to the calls that got them; a reply that came too late to be kept is late again."""

    page_count = 0

    def __init__(self, name: str, offline: bool, replies: Iterable[Mapping[str, Any]]) -> None:
        self.name = self.fingerprint = name
        self.offline = offline
        self._replies = {(kept["ordinal"], kept["tool"], kept["asked"]): kept["reply"] for kept in replies}

    async def search_many(
        self, queries: Sequence[str], *, limit: int = 10, snippet_words: int = 30, occasion: Occasion = NO_OCCASION
    ) -> tuple[SearchReply, ...]:
        found = ((query, self._replies.get((occasion.ordinal, "search", query))) for query in queries)
        return tuple(
            SearchReply(query, (), ToolStatus.TIMEOUT) if reply is None else _SEARCH.validate_python(reply)
            for query, reply in found
        )

    async def visit(self, url: str, goal: str = "", *, max_words: int = 2000, occasion: Occasion = NO_OCCASION) -> VisitReply:
        reply = self._replies.get((occasion.ordinal, "visit", url))
        return VisitReply(url, "", "", ToolStatus.TIMEOUT) if reply is None else _VISIT.validate_python(reply)


class Other(World):
    """The same evidence for other calls: searches that were made, else one over the pages; ``absent`` has what is not there."""

    def __init__(self, name: str, replies: Iterable[Mapping[str, Any]], pages: Sequence[Page]) -> None:
        self.name = self.fingerprint = name
        self.page_count = len(pages)
        self.absent: list[tuple[str, str]] = []  # tool, and what it was asked for
        newest = {page.url: page for page in pages}.values()  # a page may have changed amid a session
        self._pages = LocalWorld.in_memory(newest, name=name) if pages else None
        self._searches: dict[str, Any] = {}
        self._visits: dict[str, Any] = {}  # those that failed
        for kept in replies:
            if kept["tool"] == "search":
                self._searches[_plain(kept["asked"])] = kept["reply"]
            elif kept["reply"]["status"] != ToolStatus.OK:
                self._visits.setdefault(canonical_url(kept["asked"]), kept["reply"])

    async def search(
        self, query: str, *, limit: int = 10, snippet_words: int = 30, occasion: Occasion = NO_OCCASION
    ) -> SearchReply:
        if (kept := self._searches.get(_plain(query))) is not None:
            reply = _SEARCH.validate_python(kept)
            return SearchReply(query, reply.hits[:limit], reply.status)
        self.absent.append(("search", query))
        if self._pages is None:
            return SearchReply(query, (), ToolStatus.EMPTY)
        return await self._pages.search(query, limit=limit, snippet_words=snippet_words)

    async def visit(self, url: str, goal: str = "", *, max_words: int = 2000, occasion: Occasion = NO_OCCASION) -> VisitReply:
        if self._pages is not None and self._pages.page(url) is not None:
            return await self._pages.visit(url, goal, max_words=max_words)
        if (kept := self._visits.get(canonical_url(url))) is not None:
            return VisitReply(url, "", "", ToolStatus(kept["status"]))
        self.absent.append(("visit", url))
        return missing(url)


def _plain(query: str) -> str:
    return " ".join(query.casefold().split())
