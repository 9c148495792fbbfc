"""Filters over any world: what a question must not see, and links to it.

`MaskedWorld` hides the question's own source pages with their near-duplicates, and blocked sites; `GuardedWorld` hides what
gives the question away. A hidden page is in no list of results and is NOT_FOUND when visited; a link to it keeps its words and
loses its address. A link is Markdown's, a reference, an HTML attribute, or an address that is written out, whose end is
guessed.
"""

import asyncio
import datetime
import hashlib
import json
import re
from calendar import monthrange
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urljoin

from sanderling.core.errors import UserError
from sanderling.core.plugins import load_outside, takes
from sanderling.core.types import ToolStatus
from sanderling.world.addresses import canonical_set, canonical_url, page_address
from sanderling.world.contract import NO_OCCASION, Occasion, SearchHit, SearchReply, VisitReply, World, missing
from sanderling.world.cutting import find_links, only_words

if TYPE_CHECKING:
    from sanderling.world.guard import Blocklist, Guard

BLOCKLIST_FILE = "blocklist.txt"
_WHOLE_PAGE = 10**9  # words: more than any page has
_LOOKED_AT = 50  # pages that are looked at for a question


# -- links to hidden pages -----------------------------------------------------------------------------------------------

_REFERENCE = re.compile(r"^[ ]{0,3}\[[^\]\n]++\]:[ \t]*+<?(\S+?)>?(?:[ \t]+.*)?$\n?", re.MULTILINE)
_ATTRIBUTE = re.compile(r"(?<!\s)\s*+\b(?:href|src)\s*=\s*(?:\"([^\"\n]*)\"|'([^'\n]*)'|([^\s\"'<>]+))", re.IGNORECASE)
_CHAR = r"[^\s()<>\[\]\"]"
_ADDRESS = re.compile(
    r"<?(?:https?://|(?<![\w@./\-])(?://|www\.|(?:[\w\-]+\.)+[a-z]{2,}(?::[0-9]+)?/))"
    rf"(?:{_CHAR}|\((?:{_CHAR}|\((?:{_CHAR}|\({_CHAR}*+\))*+\))*+\))++>?",
    re.IGNORECASE,
)
_WITHIN = re.compile(r"https?://", re.IGNORECASE)  # where an address begins that another one carries
_AFTER = ".,;:!?'*_"  # marks behind an address that belong to the sentence
_ENDS = re.compile(r"[|`\\^{}。，、；：！？（）「」『』《》“”‘’…]|(?<![^\x00-\x7f])[^\x00-\x7f]")
"""Where a bare address may have ended: marks that none holds unescaped, and the first letter outside ASCII."""
_MOST_TRIED = 8  # ends of one address, and addresses within one: what goes on further is no address that anybody wrote
_ESCAPED = re.compile(r"\\([!-/:-@\[-`{-~])")

_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_NAMED = rf"(?:{'|'.join(_MONTHS)})[a-z]*\.?"
_YEAR = r"(?:1[5-9]|20)\d\d"
_DAY = re.compile(
    rf"(?P<year>\b{_YEAR})(?:[-/.年](?P<month>0?[1-9]|1[0-2])(?:[-/.月](?P<day>[0-3]?\d))?)?(?!\d)"
    rf"|\b(?P<one>[0-3]?\d)[-/.](?P<two>[0-3]?\d)[-/.](?P<last>{_YEAR})\b"
    rf"|\b(?:(?P<before>[0-3]?\d)(?:\.|st|nd|rd|th)? (?:of )?)?(?P<name>{_NAMED})(?: (?P<after>[0-3]?\d)(?:st|nd|rd|th)?,?)?"
    rf" (?P<spelt>{_YEAR})\b",
    re.IGNORECASE,
)

Hidden = Callable[[str], bool]  # whether an address, in canonical form, is hidden


def without_links(text: str, base: str, hidden: Hidden) -> str:
    """A page's Markdown without the addresses of hidden pages; the words of its links stay. ``base``: the page's own URL."""
    if not any(sign in text for sign in ("/", "](", "]:", "=")) and "www." not in text.lower():
        return text

    def is_hidden(address: str) -> bool:
        written = _ESCAPED.sub(r"\1", address)
        try:
            return hidden(canonical_url(written)) or hidden(canonical_url(urljoin(base, written)))
        except ValueError:  # brackets that are no IPv6 host: it is no address
            return False

    def readings(bare: str) -> Iterator[str]:
        """What a bare address may be, the longest first."""
        yield bare.rstrip(_AFTER)
        for end in reversed(list(islice(_ENDS.finditer(bare), _MOST_TRIED))):
            yield bare[: end.start()].rstrip(_AFTER)

    def erase(match: re.Match[str]) -> str:
        """What stays of a bare address: what is behind a hidden one, nothing where it carries a hidden one, else all of it."""
        bare = match[0].strip("<>")
        shown = next((part for part in readings(bare) if is_hidden(part)), None)
        if shown is not None:
            return bare[len(shown) :]
        within = islice(_WITHIN.finditer(bare, 1), _MOST_TRIED)
        return "" if any(is_hidden(part) for start in within for part in readings(bare[start.start() :])) else match[0]

    if "](" in text:
        marked = (link for link in find_links(text) if text[link.start] in "![")
        text = only_words(text, (link for link in marked if any(map(is_hidden, link.addresses))))
    text = _REFERENCE.sub(lambda match: "" if is_hidden(match[1]) else match[0], text)
    text = _ATTRIBUTE.sub(lambda match: "" if is_hidden(match[1] or match[2] or match[3] or "") else match[0], text)
    return _ADDRESS.sub(erase, text)


def with_hits(reply: SearchReply, hits: Sequence[SearchHit], hidden: Hidden) -> SearchReply:
    """A reply with some of its hits, and no link to a hidden page in them: EMPTY where none is left."""
    clean = tuple(
        replace(hit, snippet=without_links(hit.snippet, hit.url, hidden), title=without_links(hit.title, hit.url, hidden))
        for hit in hits
    )
    status = ToolStatus.EMPTY if reply.status is ToolStatus.OK and not clean else reply.status
    return SearchReply(reply.query, clean, status, reply.latency_s)


def without_hidden(reply: VisitReply, hidden: Hidden) -> VisitReply:
    """A reply without links to hidden pages."""
    base = reply.moved or reply.url
    return replace(reply, text=without_links(reply.text, base, hidden), title=without_links(reply.title, base, hidden))


# -- worlds around worlds ------------------------------------------------------------------------------------------------


class Filter(World):
    """A world around a world, with its name and pages; what is asked goes on to it unless a filter says otherwise.

    Of `search` and `search_many` one is enough. ``fingerprint``: by default of the world's and the filter's name.
    """

    def __init__(self, world: World, fingerprint: str = "") -> None:
        self._world = world
        self.name = world.name
        self.page_count = world.page_count
        self.offline, self.waits, self.away = world.offline, world.waits, world.away
        self.fingerprint = fingerprint or hashlib.sha256(f"{world.fingerprint} {type(self).__qualname__}".encode()).hexdigest()

    def __init_subclass__(cls) -> None:
        own: dict[str, Any] = dict(vars(cls))

        async def by_one(self: Filter, queries: Sequence[str], **how: Any) -> tuple[SearchReply, ...]:
            return tuple([await own["search"](self, query, **how) for query in queries])

        async def by_many(self: Filter, query: str, **how: Any) -> SearchReply:
            return (await own["search_many"](self, [query], **how))[0]

        if ("search" in own) is not ("search_many" in own):
            setattr(cls, *(("search_many", by_one) if "search" in own else ("search", by_many)))

    async def search(self, query: str, **how: Any) -> SearchReply:
        return await self._world.search(query, **how)

    async def search_many(
        self, queries: Sequence[str], *, limit: int = 10, snippet_words: int = 30, occasion: Occasion = NO_OCCASION
    ) -> tuple[SearchReply, ...]:
        return await self._world.search_many(queries, limit=limit, snippet_words=snippet_words, occasion=occasion)

    async def visit(self, url: str, goal: str = "", *, max_words: int = 2000, occasion: Occasion = NO_OCCASION) -> VisitReply:
        return await self._world.visit(url, goal, max_words=max_words, occasion=occasion)


class MaskedWorld(Filter):
    """A world in which masks reach near-duplicates (``groups`` by URL), and blocked sites do not exist."""

    def __init__(self, world: World, groups: Sequence[Sequence[str]] = (), blocklist: "Blocklist | None" = None) -> None:
        self._blocklist = blocklist
        self._group_of: dict[str, frozenset[str]] = {}
        for group in groups:
            keys = frozenset(canonical_url(url) for url in group)
            self._group_of.update(dict.fromkeys(keys, keys))
        parts = [sorted({tuple(sorted(group)) for group in self._group_of.values()})]
        parts += [sorted(blocklist.hosts), sorted(blocklist.prefixes)] if blocklist else [[], []]
        parts += [sorted(blocklist.paths)] if blocklist and blocklist.paths else []
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
        blocklist = self._blocklist
        if not keys and not blocklist:
            return occasion, None
        return replace(occasion, masked=keys), lambda key: key in keys or bool(blocklist and blocklist.blocks(key))


class GuardedWorld(Filter):
    """A world in which a question's leaks do not exist: no result, and NOT_FOUND when visited, as a missing page is.

    A page is judged by its whole text. For lists of an offline world, the pages of a question are looked up once, by its own
    words; every hit is judged besides by what the list shows of it. Stands beneath a world's faults.
    """

    def __init__(self, world: World, guard: "Guard") -> None:
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
                # A page that is known to leak is judged again as a whole, so that it is written down; others by what is shown.
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
            if not self.offline:  # such a page may be long, and others wait for the event loop
                await asyncio.to_thread(self._guard.read, page)
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


class AsOfWorld(Filter):
    """A world on a past day: pages that give a later date do not exist. Of those without one nobody knows, and they stay."""

    def __init__(self, world: World, day: datetime.date) -> None:
        super().__init__(world, f"{world.fingerprint} as of {day}")
        self._day = day
        self._later: set[str] = set()  # addresses that were listed with a later date

    async def search_many(
        self, queries: Sequence[str], *, limit: int = 10, snippet_words: int = 30, occasion: Occasion = NO_OCCASION
    ) -> tuple[SearchReply, ...]:
        replies = await self._world.search_many(queries, limit=limit, snippet_words=snippet_words, occasion=occasion)
        found: list[SearchReply] = []
        for reply in replies:
            later = {hit.url for hit in reply.hits if (on := day_of(hit.date)) is not None and on > self._day}
            self._later |= set(map(canonical_url, later))
            hits = tuple(hit for hit in reply.hits if hit.url not in later)
            status = ToolStatus.EMPTY if later and not hits else reply.status
            found.append(replace(reply, hits=hits, status=status))
        return tuple(found)

    async def visit(self, url: str, goal: str = "", *, max_words: int = 2000, occasion: Occasion = NO_OCCASION) -> VisitReply:
        if canonical_url(page_address(url)) in self._later:
            return missing(url)
        reply = await self._world.visit(url, goal, max_words=max_words, occasion=occasion)
        later = (on := day_of(reply.date)) is not None and on > self._day
        return missing(url) if later or canonical_url(page_address(reply.moved or url)) in self._later else reply


def day_of(text: str) -> datetime.date | None:
    """The first day that a date as pages give it may mean: ``2024-03-05``, ``Mar 5, 2024``, ``5.3.2024``, ``2024``."""
    found = _DAY.search(text)
    if found is None:
        return None
    year, name = int(found["year"] or found["last"] or found["spelt"]), (found["name"] or "")[:3].casefold()
    named = _MONTHS.index(name) + 1 if name else 1
    month, day = int(found["month"] or named), int(found["day"] or found["before"] or found["after"] or 1)
    if found["last"]:  # which of the two is the month differs by country
        one, two = int(found["one"]), int(found["two"])
        month, day = min(((m, d) for m, d in ((one, two), (two, one)) if 1 <= m <= 12), default=(1, 1))
    return datetime.date(year, month, min(day or 1, monthrange(year, month)[1]))


def filtered(
    world: World,
    blocklist: "Blocklist | None" = None,
    guard: "Guard | None" = None,
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
        takes(name, make, world)
        found = make(world)
        if not isinstance(found, World):
            raise UserError(
                f"{name} is no filter: give a function, or a class after world/filters.py, that makes a world of one."
            )
        world = found
    return world


def read_blocklist(path: Path) -> "Blocklist | None":
    """The blocklist of a file; None when there is no file. Raises UserError when it cannot be read."""
    if not path.exists():
        return None
    from sanderling.world.guard import Blocklist

    try:
        return Blocklist.parse(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UserError(
            f"The blocklist {path} cannot be read ({error}): write one host, URL or */path a line, in UTF-8."
        ) from error
