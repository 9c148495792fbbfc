"""A world around a world: the same pages, met through delays, failures and noise.

How a world misbehaves is data, a profile: one of `PROFILES` or a TOML file; all chances are 0 by default. What is drawn is a
pure function of (world seed, episode seed, what is asked, occurrence), so the same call gives the same reply, whatever else is
asked. Time-outs and rate limits are drawn anew at each occurrence; a page that is not found, gone, blocked, paywalled, stale or
tampered with is so for the whole episode, and a query lists the same results. Delays are virtual, in the reply's ``latency_s``.

    FaultyWorld(world, get_faults("web"), seed=7)
"""

import hashlib
import json
import math
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from statistics import NormalDist
from typing import Annotated, Any, Self, TypeVar
from urllib.parse import quote, unquote

from pydantic import Field, model_validator

from sanderling.core.config import Frozen, read_config
from sanderling.core.errors import UserError
from sanderling.core.types import ToolStatus
from sanderling.world.addresses import asked_part, canonical_set, canonical_url, page_address, same_part
from sanderling.world.contract import NO_OCCASION, Occasion, SearchHit, SearchReply, VisitReply, World, missing
from sanderling.world.filters import Filter
from sanderling.world.text import sentences

Chance = Annotated[float, Field(ge=0, le=1)]
_NORMAL = NormalDist()
_Z95 = _NORMAL.inv_cdf(0.95)
_ENCODER = json.JSONEncoder(separators=(",", ":"))
Choice = TypeVar("Choice")


class Latency(Frozen):
    """A log-normal delay in seconds, by its median and its 95th percentile."""

    median_s: float = Field(default=0.0, ge=0)
    p95_s: float = Field(default=0.0, ge=0)

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if self.p95_s < self.median_s:
            raise ValueError(f"p95_s ({self.p95_s:g}) lies below median_s ({self.median_s:g})")
        return self

    def seconds(self, u: float) -> float:
        """The delay of quantile ``u``, to the millisecond: exp(ln m + z(u) ln(p95 / m) / z(0.95))."""
        if self.median_s == 0:
            return 0.0
        return round(self.median_s * math.exp(standard_normal(u) * math.log(self.p95_s / self.median_s) / _Z95), 3)


class _Failures(Frozen):
    """Chances of things of which one at most happens to a call. These two pass when it is tried again."""

    timeout: Chance = 0.0
    rate_limited: Chance = 0.0

    @model_validator(mode="after")
    def _together(self) -> Self:
        total = sum(self.model_dump().values())
        if total > 1 + 1e-9:
            raise ValueError(f"the chances add up to {total:g}, and only one of these can happen to a call")
        return self


class SearchFaults(_Failures):
    """What a query meets instead of its results."""

    empty: Chance = 0.0


class VisitFaults(_Failures):
    """What a visit meets instead of its page; these stay for the episode."""

    not_found: Chance = 0.0
    gone: Chance = 0.0
    blocked: Chance = 0.0
    paywalled: Chance = 0.0


class ResultNoise(Frozen):
    """What is odd about a list of results: chances for each of its ranks or results."""

    rank_noise: float = Field(default=0.0, ge=0, le=20)
    """Standard deviation, in ranks, of what is added to each result's rank before they are put in order; cut at twice that."""
    near_duplicate: Chance = 0.0  # a copy on another site follows it
    contradicting: Chance = 0.0  # a copy with other numbers follows it
    spam: Chance = 0.0  # a page that only repeats the query stands there
    leaking_snippet: Chance = 0.0  # it is four times as long, and may hold the answer
    misleading_snippet: Chance = 0.0  # its numbers are not the page's


class PageNoise(Frozen):
    """What is odd about a page that can be read."""

    stale: Chance = 0.0  # an earlier state: without the sentences that name the page's newest year
    injected: Chance = 0.0  # it holds an instruction to whoever reads it by machine (`order`)


class FaultProfile(Frozen):
    """How a world misbehaves: ``FaultProfile(name="dead", visit=VisitFaults(not_found=0.5))``."""

    name: str = "custom"
    search_latency: Latency = Latency()
    visit_latency: Latency = Latency()
    timeout_s: float = Field(default=30.0, ge=0)  # how long a call takes that times out
    search: SearchFaults = SearchFaults()
    visit: VisitFaults = VisitFaults()
    results: ResultNoise = ResultNoise()
    pages: PageNoise = PageNoise()


_TABLES: dict[str, Any] = tomllib.loads(Path(__file__).with_name("faults.toml").read_text(encoding="utf-8"))
TEXTS: Mapping[str, Any] = _TABLES["texts"]
PROFILES = {name: FaultProfile(name=name, **fields) for name, fields in _TABLES["profiles"].items()}


def get_faults(name: str) -> FaultProfile:
    """A named profile, or that of a TOML file. Raises UserError when there is neither, or the file does not hold one."""
    if name in PROFILES:
        return PROFILES[name]
    if Path(name).is_file():
        return read_config(FaultProfile, Path(name))
    raise UserError(f"There are no faults {name!r}: choose {', '.join(PROFILES)}, or give a TOML file.")


def with_injections(profile: FaultProfile, share: float) -> FaultProfile:
    """The profile with another share of pages that hold instructions; its name says so. Raises ValueError outside [0, 1]."""
    pages = PageNoise(stale=profile.pages.stale, injected=share)
    return profile.model_copy(update={"pages": pages, "name": f"{profile.name}-injected-{share:g}"})


def standard_normal(u: float) -> float:
    """The standard normal value below which a share ``u`` in [0, 1) of all values lies; the ends are cut at 2^-54."""
    return _NORMAL.inv_cdf(min(max(u, 2**-54), 1 - 2**-53))


def choose(u: float, chances: Mapping[Choice, float]) -> Choice | None:
    """The choice whose stretch of [0, 1) holds ``u``, the stretches laid end to end in order; None past the last."""
    reached = 0.0
    for choice, chance in chances.items():
        reached += chance
        if u < reached:
            return choice
    return None


@dataclass(frozen=True)
class Draws:
    """The draws of one episode in one world: ``Draws(7, 3).uniform("visit", "https://a.example", 0)``."""

    world_seed: int
    episode_seed: int

    def uniform(self, *key: str | int) -> float:
        """A number in [0, 1) for a key: the first 53 bits of the SHA-256 of its JSON, after that of the seeds."""
        text = _ENCODER.encode((self.world_seed, self.episode_seed, *key))
        return (int.from_bytes(hashlib.sha256(text.encode("ascii")).digest()[:8], "big") >> 11) / 2**53

    def happens(self, chance: float, *key: str | int) -> bool:
        """Whether something of this chance happens; never for 0, always for 1."""
        return chance > 0 and self.uniform(*key) < chance


# -- the world -----------------------------------------------------------------------------------------------------------

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
