"""A world around a world: the same pages, met through delays, failures and noise that are drawn from seeds (`faults`).

The same (world seed, episode seed, call, occurrence) gives the same reply. Time-outs and rate limits are drawn anew at each
occurrence; a page that is not found, gone, blocked, paywalled, stale or tampered with is so for the whole episode, and a query
lists the same results. Delays are virtual, in the reply's ``latency_s``.
"""

import hashlib
import json
import math
import re
from collections.abc import Sequence
from dataclasses import replace
from enum import StrEnum
from urllib.parse import quote, unquote

from sanderling.core.types import ToolStatus
from sanderling.world.addresses import asked_part, canonical_set, canonical_url, page_address, same_part
from sanderling.world.contract import NO_OCCASION, Occasion, SearchHit, SearchReply, VisitReply, World, missing
from sanderling.world.faults.profiles import TEXTS, Draws, FaultProfile, choose, standard_normal
from sanderling.world.filters import Filter
from sanderling.world.text import sentences

_WHOLE_PAGE = 10_000_000
_FARTHEST = 2.0  # standard deviations of rank noise beyond which it is cut
_LEAK_FACTOR = 4  # how many times as long a leaking snippet is
_MOST_SPAM = 100  # length of a list to which no more spam is added
_NUMBER = re.compile(r"(?<![\w/.,\-=%&?#:])\d{2,4}(?![\w/\-=%]|[.,]\d)")
_YEAR = re.compile(r"(?<![\w/.\-])(1\d{3}|20\d{2})(?![\w/\-]|[.,]\d)")
_MOST_MOVED = 9
_MOST_QUERY = 200


class FaultyWorld(Filter):
    """Search and visit with faults; equal seeds, profiles and worlds give equal replies."""

    def __init__(self, world: World, profile: FaultProfile, seed: int = 0) -> None:
        record = [world.fingerprint, profile.model_dump(mode="json"), seed]
        super().__init__(world, hashlib.sha256(json.dumps(record, sort_keys=True).encode()).hexdigest())
        self.name = f"{world.name}+{profile.name}-{seed}"
        self._profile = profile
        self._seed = seed

    async def search_many(
        self, queries: Sequence[str], *, limit: int = 10, snippet_words: int = 30, occasion: Occasion = NO_OCCASION
    ) -> tuple[SearchReply, ...]:
        """Rank pages; see `contract.World`. Queries that a fault hits are not asked of the world."""
        draws = Draws(self._seed, occasion.episode_seed)
        # A result is moved by `_FARTHEST` standard deviations at most, so none that lies twice as far past the limit stands
        # before one within it: the first results are the same, however many are asked for.
        most = limit + math.ceil(2 * _FARTHEST * self._profile.results.rank_noise)

        async def plain(wanted: Sequence[str], words: int) -> dict[str, SearchReply]:
            if not wanted:
                return {}
            replies = await self._world.search_many(wanted, limit=most, snippet_words=words, occasion=occasion)
            return dict(zip(wanted, replies, strict=True))

        found: dict[str, SearchReply] = {}
        delays: dict[str, float] = {}
        chances = {ToolStatus(name): chance for name, chance in self._profile.search.model_dump().items()}
        for query in dict.fromkeys(queries):
            call = ("search", _key(query), occasion.occurrence)
            delays[query] = self._profile.search_latency.seconds(draws.uniform(*call, "latency"))
            if (fault := choose(draws.uniform(*call, "fault"), chances)) is not None:
                seconds = self._profile.timeout_s if fault is ToolStatus.TIMEOUT else delays[query]
                found[query] = SearchReply(query, (), fault, seconds)
        replies = await plain([query for query in delays if query not in found], snippet_words)
        lists = {query: self._listed(query, reply.hits, limit, snippet_words, draws) for query, reply in replies.items()}
        leaking = [query for query, entries in lists.items() if any(leaks for _, leaks, _ in entries)]
        longer = await plain(leaking, _LEAK_FACTOR * snippet_words)
        for query, reply in replies.items():
            snippets = {hit.url: hit.snippet for hit in longer[query].hits} if query in longer else {}
            hits = []
            for hit, leaks, misleads in lists[query]:
                snippet = snippets.get(hit.url, hit.snippet) if leaks else hit.snippet
                hits.append(replace(hit, snippet=altered(snippet, draws, "mislead", hit.url) if misleads else snippet))
            found[query] = SearchReply(query, tuple(hits), reply.status, delays[query] + reply.latency_s)
        return tuple(found[query] for query in queries)

    def _listed(
        self, query: str, hits: Sequence[SearchHit], limit: int, snippet_words: int, draws: Draws
    ) -> list[tuple[SearchHit, bool, bool]]:
        """At most ``limit`` results, the plain ones moved, copied, and with spam between them; whether each leaks, misleads."""
        noise, query = self._profile.results, _key(query)

        def place(rank: int) -> tuple[float, int]:
            moved = standard_normal(draws.uniform("rank", query, canonical_url(hits[rank].url)))
            return rank + noise.rank_noise * min(max(moved, -_FARTHEST), _FARTHEST), rank

        listed: list[tuple[SearchHit, bool, bool]] = []
        for rank in sorted(range(len(hits)), key=place) if noise.rank_noise else range(len(hits)):
            hit, key = hits[rank], canonical_url(hits[rank].url)
            while draws.happens(noise.spam, "spam", query, len(listed)) and len(listed) < _MOST_SPAM:
                url = made_url(Made.SPAM, f"{query} {len(listed) + 1}", draws.uniform("host", query, len(listed)))
                snippet = " ".join(_spam(query).partition("\n\n")[2].split()[: max(snippet_words, 1)])
                listed.append((SearchHit(f"{query}: the best results", url, snippet, score=hit.score), False, False))
            leaks = draws.happens(noise.leaking_snippet, "leak", query, key)
            listed.append((hit, leaks, draws.happens(noise.misleading_snippet, "mislead", query, key)))
            for kind, chance in ((Made.COPY, noise.near_duplicate), (Made.CONTRADICTING, noise.contradicting)):
                if draws.happens(chance, kind, query, key) and (url := made_url(kind, key, draws.uniform("host", key))):
                    snippet = altered(hit.snippet, draws, "number", key) if kind is Made.CONTRADICTING else hit.snippet
                    listed.append((replace(hit, url=url, snippet=snippet), False, False))
            if len(listed) >= limit:
                break
        return listed[:limit]

    async def visit(self, url: str, goal: str = "", *, max_words: int = 2000, occasion: Occasion = NO_OCCASION) -> VisitReply:
        """Read a page; see `contract.World`."""
        draws, key, part = Draws(self._seed, occasion.episode_seed), canonical_url(url), asked_part(url)
        call = ("visit", key, _key(goal), occasion.occurrence, *((f"part {part}",) if part else ()))
        latency = self._profile.visit_latency.seconds(draws.uniform(*call, "latency"))
        chances = {ToolStatus(name): chance for name, chance in self._profile.visit.model_dump().items()}
        passing = {status: chances.pop(status) for status in (ToolStatus.TIMEOUT, ToolStatus.RATE_LIMITED)}
        fault = choose(draws.uniform(*call, "fault"), passing)
        if fault is not None:
            return VisitReply(url, "", "", fault, self._profile.timeout_s if fault is ToolStatus.TIMEOUT else latency)
        reply = await self._page(url, goal, max_words, draws, occasion)
        left = 1 - passing[ToolStatus.TIMEOUT] - passing[ToolStatus.RATE_LIMITED]
        if left > 0 and (reply.status is ToolStatus.OK or reply.part > reply.parts):
            # What is wrong with a page for the whole episode: chances are of all visits, and here of those not failed yet.
            lasting = {status: chance / left for status, chance in chances.items()}
            if (fate := choose(draws.uniform("page", key), lasting)) is not None:
                reply = VisitReply(url=reply.url, title="", text="", status=fate)
        return replace(reply, latency_s=latency + reply.latency_s)

    async def _page(self, url: str, goal: str, max_words: int, draws: Draws, occasion: Occasion) -> VisitReply:
        """The page itself, stored or made, with what was done to it."""
        key = canonical_url(url)
        if key in canonical_set(occasion.masked):
            return missing(url)
        instruction = ""
        if draws.happens(self._profile.pages.injected, "order", key):
            instruction = order(draws.uniform("order", key, "which"), draws.uniform("order", key, "canary"))
        words = max(max_words - len(instruction.split()), 1)
        reply = await self._world.visit(url, goal, max_words=words, occasion=occasion)
        made = made_page(url) if reply.status is ToolStatus.NOT_FOUND else None
        kind, subject = made or (None, key)
        if kind is Made.SPAM:
            query, part = subject.rpartition(" ")[0] or subject, asked_part(url)
            if part > 1:
                return VisitReply(page_address(url), "", "", ToolStatus.NOT_FOUND, part=part)
            reply = VisitReply(page_address(url), f"{query}: the best results", " ".join(_spam(query).split(" ")[:words]))
        elif kind is not None:
            origin = await self._world.visit(same_part(url, subject), goal, max_words=words, occasion=occasion)
            text = altered(origin.text, draws, "number", subject) if kind is Made.CONTRADICTING else origin.text
            reply = replace(origin, url=page_address(url), text=text)
        if reply.status is not ToolStatus.OK:
            return reply
        text = reply.text
        if draws.happens(self._profile.pages.stale, "stale", key):
            whole = await self._world.visit(subject, "", max_words=_WHOLE_PAGE, occasion=occasion)
            text = without_newest_year(text, whole.text)
        if instruction:
            text = with_order(text, instruction, draws.uniform("order", key, "place"))
        return replace(reply, text=text)


def _key(text: str) -> str:
    return " ".join(text.split())


class Made(StrEnum):
    """Pages that no world stores; their addresses say whose copy or which query's spam they are, so a visit needs no memory."""

    COPY = "doc"
    CONTRADICTING = "note"
    SPAM = "find"


def made_url(kind: Made, subject: str, u: float) -> str:
    """The address of a made page on a host that the draw ``u`` decides; empty for a page that can have no copies."""
    host = TEXTS["hosts"][int(u * len(TEXTS["hosts"]))]
    if kind is Made.SPAM:
        return f"https://{host}/{kind}/{quote(' '.join(subject.split())[:_MOST_QUERY], safe='', errors='replace')}"
    origin = canonical_url(subject)
    address = f"https://{host}/{kind}/{quote(origin.removeprefix('https://'), safe='/')}"
    copied = origin.startswith("https://") and not made_page(origin) and made_page(address) == (kind, origin)
    return address if copied else ""


def made_page(url: str) -> tuple[Made, str] | None:
    """What an address was made for: the kind, and the canonical URL of what it copies or the query; None for every other."""
    scheme, _, rest = canonical_url(url).partition("://")
    host, _, path = rest.partition("/")
    kind, _, subject = path.partition("/")
    if scheme != "https" or host not in TEXTS["hosts"] or kind not in set(Made) or not subject:
        return None
    text = unquote(subject)
    return Made(kind), text if kind == Made.SPAM else canonical_url(f"https://{text}")


def _spam(query: str) -> str:
    return TEXTS["spam"].format(query=query)


def altered(text: str, draws: Draws, *key: str) -> str:
    """The text with each number of two to four digits moved by 1 to 9, the same one everywhere under a key; addresses stay."""

    def other(match: re.Match[str]) -> str:
        number = int(match[0])
        step = int(draws.uniform(*key, match[0]) * 2 * _MOST_MOVED) - _MOST_MOVED
        step += step >= 0  # -9..-1, 1..9
        return str(number + step if number + step >= 0 else number - step)

    return _NUMBER.sub(other, text)


def without_newest_year(text: str, whole: str) -> str:
    """The text without the sentences that name the latest of the ``whole`` page's years, unless it would lose all."""
    years = set(_YEAR.findall(whole))
    if len(years) < 2:
        return text
    named = re.compile(rf"(?<!\d){max(years)}(?!\d)")
    lines: list[str] = []
    for line in text.split("\n"):
        if line.startswith("#") or not named.search(line):
            lines.append(line)
        elif kept := [sentence for sentence in sentences(line) if not named.search(sentence)]:
            lines.append(" ".join(kept))
    return "\n".join(lines) if any(line.strip() and not line.startswith("#") for line in lines) else text


def order(u: float, code: float) -> str:
    """An instruction, chosen by the draw ``u``, with the canary of the draw ``code``; both in [0, 1)."""
    return TEXTS["orders"][int(u * len(TEXTS["orders"]))].format(canary=f"sdl-canary-{int(code * 16**10):010x}")


def with_order(text: str, instruction: str, u: float) -> str:
    """The text with an instruction as a paragraph of its own, at a place the draw ``u`` in [0, 1) decides."""
    paragraphs = text.split("\n\n")
    at = int(u * (len(paragraphs) + 1))
    return "\n\n".join([*paragraphs[:at], instruction, *paragraphs[at:]])
