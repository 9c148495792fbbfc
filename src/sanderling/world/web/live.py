"""The live web as a world: search engines and page readers, each in an order, with a cache before them and a limit on spending.

A failure of a page or a query is a status; an `OutageError` is that of all services, each in its own words. Whoever fails is
left alone for a while if there is another. Only public addresses are read, after redirections too.
"""

import asyncio
import datetime
import json
import os
import re
import time
import warnings
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any
from urllib.parse import urlsplit

import httpx

from sanderling.core.errors import UserError
from sanderling.core.plugins import is_outside, resolve
from sanderling.core.text import visible, without_surrogates
from sanderling.core.types import ToolStatus
from sanderling.world.addresses import asked_part, canonical_url, page_address
from sanderling.world.contract import NO_OCCASION, Occasion, OutageError, SearchReply, VisitReply, World, missing
from sanderling.world.passages import Extract, read_page
from sanderling.world.web import public
from sanderling.world.web.cache import Reply, WebCache
from sanderling.world.web.config import LiveConfig
from sanderling.world.web.engines import ENGINES, Asking, Engine, Request, text_of
from sanderling.world.web.fetch import Direct
from sanderling.world.web.reading import Workers
from sanderling.world.web.rendered import Rendered
from sanderling.world.web.service import STATUS, Service, status_of
from sanderling.world.web.walls import LONGEST_PAGE, clipped, wall

LIVE_WEB = "live web"  # what a record says instead of a world's name
READERS = ("direct", "rendered", "jina")
JINA_URL, JINA_KEY = "https://r.jina.ai", "JINA_API_KEY"
_SHORT = 2_000  # characters of a page that are read here and now
_LONGEST_QUERY = 2_000  # characters; nobody searches for more, and it has to fit into an address
_REST_S = 60.0  # for which a service is left alone after an outage, where another one is there
_WARNED = re.compile(r"returned error (\d{3})")
_ANOTHER = frozenset(
    {
        ToolStatus.BLOCKED, ToolStatus.PAYWALLED, ToolStatus.TIMEOUT, ToolStatus.NOT_TEXT, ToolStatus.RATE_LIMITED,
        ToolStatus.OUTAGE, ToolStatus.SPENT,
    }
)  # fmt: skip
"""What makes it worthwhile to ask the next one."""
ReadPage = Callable[[str], Awaitable[VisitReply]]
"""A page reader: the page of an address, whole; ``url`` is where redirections led. Raises OutageError."""
Charge = Callable[[float, float | None], bool]
"""Take so much money from the account of a run, which may pay at most so much for the web; False: it cannot."""


@dataclass
class _Asked:
    """An engine or reader that is asked, by its name."""

    name: str
    place: str
    ask: Callable[[Any], Awaitable[Any]]
    away_until: float = 0.0


class LiveWeb(World):
    """The live web: ``async with LiveWeb(LiveConfig(engines=("searxng",), urls={"searxng": HERE})) as web: ...``."""

    name = LIVE_WEB
    page_count = 0
    offline, waits = False, True

    def __init__(
        self,
        config: LiveConfig,
        env: Mapping[str, str] = os.environ,
        *,
        as_of: datetime.date | None = None,
        charge: Charge | None = None,
        transport: httpx.AsyncBaseTransport | None = None,
        look_up: public.Resolve = public.resolve,
    ) -> None:
        """Raises UserError for a service that is not there, has no address or no key.

        ``as_of``: nothing that an engine dates later is listed; ``charge``: the account of a run; None: what
        is spent is counted here. ``transport``: instead of the network to services; ``look_up``: gives the addresses of names.
        """
        self._config, self._as_of, self._charge, self._look_up = config, as_of, charge or self._counted, look_up
        self._allowed = {public.host_of(f"//{host}") for host in config.allowed_hosts}
        self._transport, self._cost = transport, 0.0
        self._warned = set[str]()  # of what is not read, by the setting
        self._workers = Workers()
        self._direct: Direct | None = None
        self._closing: list[Callable[[], Awaitable[None]]] = [self._workers.aclose]
        unknown = {*config.urls, *config.prices, *config.per_minute} - {*ENGINES, *READERS, *config.engines, *config.readers}
        if unknown:
            raise UserError(f"There is no service {min(unknown)!r} on the web: choose of {', '.join((*ENGINES, *READERS))}.")
        self._engines = [self._engine(name, env) for name in config.engines or [_first_engine(config, env)]]
        jina = "jina" if config.urls.get("jina") or env.get(JINA_KEY, "").strip() else ""
        self._readers = [self._reader(name, env) for name in config.readers or [jina or "direct"]]
        self._cache = WebCache(config.cache, config.cache_mb)
        self.fingerprint = " ".join(one.place for one in (*self._engines, *self._readers))

    async def search(
        self, query: str, *, limit: int = 10, snippet_words: int = 30, occasion: Occasion = NO_OCCASION
    ) -> SearchReply:
        """Ask the engines; see `contract.World`. Snippets are as they give them. Raises OutageError."""
        if not (words := without_surrogates(query).strip()[:_LONGEST_QUERY]):
            return SearchReply(query, (), ToolStatus.EMPTY)

        async def ask(engine: _Asked) -> SearchReply:
            asked = json.dumps([engine.place, words, limit, str(self._as_of or "")])
            if (kept := await self._kept(SearchReply, asked)) is not None:
                return kept
            spent = SearchReply(query, (), ToolStatus.SPENT)
            reply = await self._paid(engine, Asking(words, limit, self._as_of), spent)
            if reply.status in (ToolStatus.OK, ToolStatus.EMPTY):
                await asyncio.to_thread(self._cache.put, asked, reply)
            return reply

        return replace(await self._first_of(self._engines, ask), query=query)

    async def visit(self, url: str, goal: str = "", *, max_words: int = 2000, occasion: Occasion = NO_OCCASION) -> VisitReply:
        """Read a page; see `contract.World`. Its ``url`` is the one that was asked for. Raises OutageError."""
        asked = page_address(url)
        page = occasion.fetched.get(asked) if occasion.fetched is not None else None
        if page is None:
            page = await self.page(asked)
            if occasion.fetched is not None:
                occasion.fetched[asked] = page
        if page.status is not ToolStatus.OK:
            return replace(page, url=asked)
        part = asked_part(url)
        if len(page.text) <= _SHORT:
            found = read_page(page.text, goal, part, max_words)
        else:
            told = await self._workers.ask("shown", goal, part, max_words, raw=page.text.encode())
            if told is None:
                return VisitReply(asked, "", "", ToolStatus.NOT_TEXT)
            found = Extract(**told)
        status = ToolStatus.OK if found.part <= found.parts else ToolStatus.NOT_FOUND
        return replace(page, url=asked, text=found.text, status=status, part=found.part, parts=found.parts, moved=page.url)

    async def page(self, url: str) -> VisitReply:
        """One page, of at most `LONGEST_PAGE` characters; its ``url`` is the one after redirections. Raises OutageError."""
        if not url.lower().startswith(("http://", "https://")) or without_surrogates(url) != url:
            return missing(url)
        if refusal := await self._refusal(url):
            return VisitReply(url, "", "", refusal)

        async def ask(reader: _Asked) -> VisitReply:
            asked = f"{reader.place} {canonical_url(url)}"
            if (kept := await self._kept(VisitReply, asked)) is None:
                reply = await self._paid(reader, url, VisitReply(url, "", "", ToolStatus.SPENT))
                if reply.status is not ToolStatus.OK:
                    return reply
                if found := wall(reply.title, reply.text):
                    return VisitReply(url, "", "", found)
                kept = replace(reply, text=clipped(reply.text), title=reply.title[:LONGEST_PAGE])
                await asyncio.to_thread(self._cache.put, asked, kept)
            if kept.url != url and (refusal := await self._refusal(kept.url)):
                return VisitReply(url, "", "", ToolStatus.BLOCKED if refusal is ToolStatus.FORBIDDEN else refusal)
            return kept

        try:
            return await self._first_of(self._readers, ask)
        except public.NotAllowedError as error:  # a matter of ours, which no other reader is asked to go around
            if isinstance(error, public.RobotsError):
                page = f"A page of {public.host_of(str(error))}"
                self._warn(page, "since robots.txt of its site forbids it", "robots says whether that counts")
            return VisitReply(url, "", "", ToolStatus.BLOCKED)

    async def _first_of(self, services: Sequence[_Asked], ask: Callable[[_Asked], Awaitable[Any]]) -> Any:
        """The first reply that needs no other; else the first that was one, or the outage of all that could be asked."""
        found: list[Any] = []
        outage: OutageError | None = None
        now = time.monotonic()
        for service in sorted(services, key=lambda one: one.away_until > now):
            try:
                reply = await ask(service)
            except OutageError as error:
                service.away_until, outage = time.monotonic() + _REST_S, outage or error
                continue
            found.append(reply)
            if reply.status not in _ANOTHER:
                break
        asked = [reply for reply in found if reply.status is not ToolStatus.SPENT]
        if outage is not None and not asked:
            raise outage
        asked = asked or found  # who has no money was not asked
        return asked[0] if asked[-1].status in _ANOTHER else asked[-1]

    async def _paid(self, service: _Asked, asked: Any, spent: Reply) -> Reply:
        """A service's reply, or that there is no money for it. An outage costs nothing. Raises OutageError."""
        cost = self._config.prices.get(service.name, 0.0)
        if cost and not self._charge(cost, self._config.max_cost):
            return spent
        try:
            return await service.ask(asked)
        except OutageError:
            if cost:
                self._charge(-cost, None)
            raise

    def _counted(self, cost: float, most: float | None) -> bool:
        if most is not None and self._cost + cost > most + 1e-9:
            return False
        self._cost += cost
        return True

    async def _kept(self, kind: type[Reply], asked: str) -> Reply | None:
        return await asyncio.to_thread(self._cache.get, kind, asked, self._config.age_h, self._as_of)

    async def _refusal(self, url: str) -> ToolStatus | None:
        """Why an address is not read: it is not public, or nobody says in time whether it is."""
        host = public.host_of(url)
        if host in self._allowed:
            return None
        try:
            await public.looked_up(host, self._allowed, self._look_up)
        except public.NotAllowedError:
            self._warn(host, "nor is any other host that is not public", "allowed_hosts names those of your own that may be")
            return ToolStatus.FORBIDDEN
        except TimeoutError:
            return ToolStatus.TIMEOUT
        except public.UnknownHostError:  # as where only a proxy leads outside: then it leads nowhere private from here
            return None
        return None

    def _warn(self, host: str, why: str, setting: str) -> None:
        """Tell a person once what is not read, and which setting is about it."""
        if setting not in self._warned:
            self._warned.add(setting)
            warnings.warn(f"{visible(host) or 'No host'} is not read, {why}: agent.live.{setting}.", stacklevel=2)

    # -- who is asked --------------------------------------------------------------------------------------------------

    def _engine(self, name: str, env: Mapping[str, str]) -> _Asked:
        engine: Engine = resolve(name, ENGINES, "search engine", Engine)
        key = env.get(engine.key, "").strip()
        url = self._config.urls.get(name) or env.get(engine.place, "").strip()
        if not url and engine.key and not key:
            raise UserError(f"{name} wants a key: put it into {engine.key}, or name another engine in agent.live.engines.")
        service = self._service(name, url or engine.url, refused=engine.refused, advice=engine.advice)

        async def ask(asked: Asking) -> SearchReply:
            with _sound(name):
                request = engine.ask(replace(asked, limit=min(asked.limit, engine.most), key=key))
            status, body = await service.ask(request)
            if status == 200 and isinstance(body, dict):
                with _sound(name):
                    found = engine.read(body)
                    hits = () if isinstance(found, ToolStatus) else tuple(found)
                if isinstance(found, ToolStatus):
                    return SearchReply(asked.query, (), found)
                return SearchReply(asked.query, hits[: asked.limit], ToolStatus.OK if hits else ToolStatus.EMPTY)
            if status == 400:  # the engine will not take these words
                return SearchReply(asked.query, (), ToolStatus.EMPTY)
            return SearchReply(asked.query, (), STATUS.get(status, ToolStatus.OUTAGE))

        return _Asked(name, f"{name}@{service.url}", ask)

    def _reader(self, name: str, env: Mapping[str, str]) -> _Asked:
        if name == "jina":
            service = self._service(name, self._config.urls.get(name) or JINA_URL, advice=f"look at {JINA_KEY}")
            key = env.get(JINA_KEY, "").strip()
            return _Asked(name, f"{name}@{service.url}", partial(_by_jina, service, key))
        read: ReadPage | None = resolve(name, dict.fromkeys(READERS), "page reader")
        if callable(read):

            async def page_of(url: str) -> VisitReply:
                with _sound(name):
                    return await read(url)

            return _Asked(name, name, page_of)
        if name not in READERS:
            raise UserError(f"{name} is no page reader: give an async function of an address, after world/web/live.py.")
        if self._direct is None:
            self._direct = Direct(self._config, self._allowed, self._look_up, self._workers)
            self._closing.append(self._direct.aclose)
        if name == "direct":
            return _Asked(name, name, self._direct)
        rendered = Rendered(self._config, self._allowed, self._look_up, self._direct)
        self._closing.append(rendered.aclose)
        return _Asked(name, name, rendered)

    def _service(self, name: str, url: str, **how: Any) -> Service:
        """A service at its address. Raises UserError for what is no address."""
        if urlsplit(url).scheme not in ("http", "https") or not urlsplit(url).hostname:
            problem = f"{url} is no web address" if url else "nobody says where it is"
            setting = f"agent.live.urls.{name}=http://127.0.0.1:8888"
            if is_outside(name):  # whose dots would be those of a setting
                setting = f"'agent.live.urls={{{json.dumps(name)}=\"http://127.0.0.1:8888\"}}', or in Engine(url=…)"
            raise UserError(f"{name}: {problem}. Give its address with --set {setting}.")
        service = Service(name, url.rstrip("/"), self._config, self._transport, **how)
        self._closing.append(service.client.aclose)
        return service

    async def aclose(self) -> None:
        await asyncio.gather(*(close() for close in self._closing))

    async def __aenter__(self) -> "LiveWeb":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()


@contextmanager
def _sound(name: str) -> Iterator[None]:
    """Raises OutageError for what the code of an engine or reader raises, which may be anybody's."""
    try:
        yield
    except (OutageError, public.NotAllowedError):
        raise
    except Exception as error:
        raise OutageError(f"{name} failed ({type(error).__name__}: {error}): mend it, or name another.") from error


def _first_engine(config: LiveConfig, env: Mapping[str, str]) -> str:
    """The engine that is asked where settings name none: one that has been given a key or an address. Raises UserError."""
    for name, engine in ENGINES.items():
        if config.urls.get(name) or any(env.get(variable, "").strip() for variable in filter(None, (engine.key, engine.place))):
            return name
    keys = ", ".join(engine.key for engine in ENGINES.values() if engine.key)
    raise UserError(
        f"Nobody is named who searches the web: put a key into one of {keys}, or name a SearXNG with "
        "--set agent.live.urls.searxng=http://127.0.0.1:8888 (or in SEARXNG_URL)."
    )


async def _by_jina(service: Service, key: str, url: str) -> VisitReply:
    """A page as Jina Reader gives it."""
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    status, body = await service.ask(Request("/", {"url": url}, headers=headers))
    if status != 200:
        return VisitReply(url, "", "", STATUS.get(status, ToolStatus.OUTAGE))
    data = body.get("data") if isinstance(body, dict) else None
    if not isinstance(data, dict):
        return VisitReply(url, "", "", ToolStatus.OUTAGE)
    if warned := _WARNED.search(text_of(data.get("warning"))):  # of a page that the site refused, for which it answers 200
        return VisitReply(url, "", "", status_of(int(warned[1])))
    text = text_of(data.get("content")) or text_of(data.get("text"))
    if not text.strip():
        return VisitReply(url, "", "", ToolStatus.NOT_TEXT)
    date = text_of(data.get("publishedTime"))[:100]
    return VisitReply(text_of(data.get("url")) or url, text_of(data.get("title")), text, date=date)
