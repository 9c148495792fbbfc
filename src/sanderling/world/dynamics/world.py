"""A world around a world: the same pages, met through delays, failures and noise that are drawn from seeds.

Implements `contract.World`.

The same (world seed, episode seed, call, occurrence) gives the same reply, whatever was asked before it or at the same time.
A call is its query, or its URL and goal, with runs of white space as one space. Time-outs and rate limits are drawn anew at
each occurrence; a page that is not found, gone, blocked, paywalled, stale or tampered with is so for the whole episode,
whatever the goal; a query lists the same results whenever it is answered. Results may list pages whose visit fails,
as the web's do. Delays are virtual, in the reply's ``latency_s`` (`tools.paced` sleeps them). Opens no socket, reads no clock.
"""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import replace

from sanderling.core.types import ToolStatus
from sanderling.world.canonical import canonical_set, canonical_url
from sanderling.world.contract import NO_OCCASION, Occasion, SearchesTogether, SearchReply, VisitReply, World
from sanderling.world.dynamics.addresses import Made, MadePage, made_page
from sanderling.world.dynamics.faults import Draws, choose, log_normal
from sanderling.world.dynamics.injection import order, with_order
from sanderling.world.dynamics.listing import LEAK_FACTOR, Listing, altered_as, spare_results
from sanderling.world.dynamics.profile import DynamicsProfile, Latency
from sanderling.world.dynamics.tamper import newest_year, spam_text, without_year
from sanderling.world.parts import asked_part, page_address, same_part

_WHOLE_PAGE = 10_000_000


class DynamicWorld(SearchesTogether):
    """Search and visit with faults.

    Args:
        world: whose pages these are.
        profile: how it misbehaves.
        seed: the world seed; equal seeds, profiles and worlds give equal replies.

    """

    def __init__(self, world: World, profile: DynamicsProfile, seed: int = 0) -> None:
        self._world = world
        self._profile = profile
        self._seed = seed
        record = [world.fingerprint, profile.model_dump(mode="json"), seed]
        self._fingerprint = hashlib.sha256(json.dumps(record, sort_keys=True).encode()).hexdigest()

    @property
    def name(self) -> str:
        return f"{self._world.name}+{self._profile.name}-{self._seed}"

    @property
    def fingerprint(self) -> str:
        """SHA-256 over the world's own fingerprint, the profile and the seed."""
        return self._fingerprint

    @property
    def page_count(self) -> int:
        return self._world.page_count

    @property
    def waits(self) -> bool:
        return self._world.waits

    def search_many(
        self,
        queries: Sequence[str],
        *,
        limit: int = 10,
        snippet_words: int = 30,
        occasion: Occasion = NO_OCCASION,
    ) -> tuple[SearchReply, ...]:
        """Rank pages; see `contract.World`. Queries that a fault hits are not asked of the world."""
        draws = Draws(self._seed, occasion.episode_seed)
        failed = {query: reply for query in queries if (reply := self._failed(query, draws, occasion)) is not None}
        asked = [query for query in dict.fromkeys(queries) if query not in failed]
        noise = self._profile.results

        def plain(wanted: Sequence[str], words: int) -> dict[str, SearchReply]:
            together = limit + spare_results(noise)
            replies = self._world.search_many(wanted, limit=together, snippet_words=words, occasion=occasion) if wanted else ()
            return dict(zip(wanted, replies, strict=True))

        replies = plain(asked, snippet_words)
        listings = {query: Listing(noise, draws, _key(query), max(snippet_words, 1)) for query in asked}
        entries = {query: listings[query].ranked(reply.hits, limit) for query, reply in replies.items()}
        leaking = [query for query in asked if any(entry.leaks for entry in entries[query])]
        longer = plain(leaking, LEAK_FACTOR * snippet_words)
        listed: dict[str, SearchReply] = {}
        for query, reply in replies.items():
            snippets = {hit.url: hit.snippet for hit in longer[query].hits} if query in longer else {}
            hits = listings[query].shown(entries[query], snippets)
            listed[query] = SearchReply(query, hits, reply.status, self._search_delay(query, draws, occasion) + reply.latency_s)
        return tuple(failed[query] if query in failed else listed[query] for query in queries)

    def _failed(self, query: str, draws: Draws, occasion: Occasion) -> SearchReply | None:
        """The reply of a query that a fault hits."""
        faults = self._profile.search
        chances = {
            ToolStatus.TIMEOUT: faults.timeout,
            ToolStatus.RATE_LIMITED: faults.rate_limited,
            ToolStatus.EMPTY: faults.empty,
        }
        fault = choose(draws.uniform("search", _key(query), occasion.occurrence, "fault"), chances)
        if fault is None:
            return None
        delay = self._profile.timeout_s if fault is ToolStatus.TIMEOUT else self._search_delay(query, draws, occasion)
        return SearchReply(query=query, hits=(), status=fault, latency_s=delay)

    def _search_delay(self, query: str, draws: Draws, occasion: Occasion) -> float:
        return _delay(self._profile.search_latency, draws.uniform("search", _key(query), occasion.occurrence, "latency"))

    def visit(
        self,
        url: str,
        goal: str = "",
        *,
        max_words: int = 2000,
        occasion: Occasion = NO_OCCASION,
    ) -> VisitReply:
        """Read a page; see `contract.World`."""
        draws = Draws(self._seed, occasion.episode_seed)
        key = canonical_url(url)
        part = asked_part(url)
        call = ("visit", key, _key(goal), occasion.occurrence, *((f"part {part}",) if part else ()))
        latency = _delay(self._profile.visit_latency, draws.uniform(*call, "latency"))
        faults = self._profile.visit
        passing = {ToolStatus.TIMEOUT: faults.timeout, ToolStatus.RATE_LIMITED: faults.rate_limited}
        fault = choose(draws.uniform(*call, "fault"), passing)
        if fault is not None:
            seconds = self._profile.timeout_s if fault is ToolStatus.TIMEOUT else latency
            return VisitReply(url=url, title="", text="", status=fault, latency_s=seconds)
        reply = self._page(url, goal, max_words, draws, occasion)
        if (reply.status is ToolStatus.OK or reply.part > reply.parts) and (fate := self._fate(draws, key)) is not None:
            reply = VisitReply(url=reply.url, title="", text="", status=fate)
        return replace(reply, latency_s=latency + reply.latency_s)

    def _fate(self, draws: Draws, key: str) -> ToolStatus | None:
        """What is wrong with a page for the whole episode; chances are of all visits, and here of those not failed yet."""
        faults = self._profile.visit
        left = 1 - faults.timeout - faults.rate_limited
        if left <= 0:
            return None
        lasting = {
            ToolStatus.NOT_FOUND: faults.not_found / left,
            ToolStatus.GONE: faults.gone / left,
            ToolStatus.BLOCKED: faults.blocked / left,
            ToolStatus.PAYWALLED: faults.paywalled / left,
        }
        return choose(draws.uniform("page", key), lasting)

    def _page(self, url: str, goal: str, max_words: int, draws: Draws, occasion: Occasion) -> VisitReply:
        """The page itself, stored or made, with what was done to it."""
        key = canonical_url(url)
        if key in canonical_set(occasion.masked):
            return VisitReply(url=url, title="", text="", status=ToolStatus.NOT_FOUND)
        instruction = ""
        if draws.happens(self._profile.pages.injected, "order", key):
            instruction = order(draws.uniform("order", key, "which"), draws.uniform("order", key, "canary"))
        words = max(max_words - len(instruction.split()), 1)

        def read(address: str, aim: str, most: int) -> VisitReply:
            return self._world.visit(address, aim, max_words=most, occasion=occasion)

        reply = read(url, goal, words)
        made = made_page(url) if reply.status is ToolStatus.NOT_FOUND else None
        if made is not None:
            reply = (
                _spam(url, made, words)
                if made.kind is Made.SPAM
                else _copy(url, made, read(same_part(url, made.subject), goal, words), draws)
            )
        if reply.status is not ToolStatus.OK:
            return reply
        text = reply.text
        if draws.happens(self._profile.pages.stale, "stale", key):
            text = without_year(text, newest_year(read(made.subject if made else key, "", _WHOLE_PAGE).text))
        if instruction:
            text = with_order(text, instruction, draws.uniform("order", key, "place"))
        return replace(reply, text=text)


def _key(text: str) -> str:
    return " ".join(text.split())


def _delay(latency: Latency, u: float) -> float:
    """Seconds, to the millisecond."""
    return round(log_normal(u, latency.median_s, latency.p95_s), 3)


def _spam(url: str, made: MadePage, words: int) -> VisitReply:
    query = made.subject.rpartition(" ")[0] or made.subject
    if (part := asked_part(url)) > 1:
        return VisitReply(page_address(url), "", "", ToolStatus.NOT_FOUND, part=part)
    return VisitReply(page_address(url), f"{query}: the best results", " ".join(spam_text(query).split(" ")[:words]))


def _copy(url: str, made: MadePage, origin: VisitReply, draws: Draws) -> VisitReply:
    """What a copy shows of the page it was made from; NOT_FOUND and the like when that cannot be read."""
    change = altered_as(draws, made.subject) if made.kind is Made.CONTRADICTING else str
    return replace(origin, url=page_address(url), text=change(origin.text))
