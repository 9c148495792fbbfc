"""The live web as a world, behind two services: searches as Serper answers them, pages as Jina Reader gives them.

A failure of a page or a query is a status; a failure of a service is an OutageError: it cannot be reached, refuses the key, has
no credit left, or breaks (5xx) `BROKEN_IN_A_ROW` times in a row. Only public addresses are read, after redirections too.
Replies are read up to a limit that counts what comes out of their compression, and worked on beside the event loop.
"""

import asyncio
import datetime
import ipaddress
import json
import re
import socket
import unicodedata
import zlib
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any
from urllib.parse import unquote, urlsplit

import httpx
from pydantic import Field, SecretStr

from sanderling.core.config import Frozen
from sanderling.core.errors import UserError
from sanderling.core.types import ToolStatus
from sanderling.world.addresses import asked_part, page_address
from sanderling.world.contract import NO_OCCASION, Occasion, OutageError, SearchHit, SearchReply, VisitReply, World, missing
from sanderling.world.passages import read_page

LIVE_WEB = "live web"  # what a record says instead of a world's name
SEARCH_URL = "https://google.serper.dev"
READER_URL = "https://r.jina.ai"
SEARCH_KEY_ENV = "SERPER_API_KEY"
READER_KEY_ENV = "JINA_API_KEY"
BROKEN_IN_A_ROW = 3
MOST_BYTES = 8 << 20  # of a service's reply, out of its compression
LONGEST_PAGE = 1_000_000  # characters of a page that are read, a quarter of a million tokens
_MOST_RESULTS = 100
_WARNED = re.compile(r"returned error (\d{3})")
_NO_CREDIT = re.compile(r"credit|balance|quota|billing", re.IGNORECASE)
_STATUS = {
    **dict.fromkeys((400, 404), ToolStatus.NOT_FOUND),
    **dict.fromkeys((403, 422, 451), ToolStatus.BLOCKED),
    **dict.fromkeys((408, 504, 524), ToolStatus.TIMEOUT),
    402: ToolStatus.PAYWALLED,
    410: ToolStatus.GONE,
    415: ToolStatus.NOT_TEXT,
    429: ToolStatus.RATE_LIMITED,
}
"""What a reader's status, or a site's within a reader's warning, says of a page."""
_RETRIED = frozenset({408, 425, 429, 500, 502, 503, 504})
_SECONDS = re.compile(r"[0-9]+(?:\.[0-9]+)?")
_LONGEST_PAUSE_S = 30.0


class WebSettings(Frozen):
    """Where the live web is asked, and how patiently. Keys come from the environment and are in no settings file."""

    search_url: str = SEARCH_URL  # of a service that answers ``POST /search {"q", "num"}`` as Serper does
    reader_url: str = READER_URL  # of a service that answers ``POST / {"url"}`` as Jina Reader does
    search_key: SecretStr = SecretStr("")
    reader_key: SecretStr = SecretStr("")
    timeout_s: float = Field(default=60.0, gt=0)  # for one attempt
    attempts: int = Field(default=3, ge=1)  # at one request, where the service is busy or broken
    pause_s: float = Field(default=1.0, ge=0)  # before the second; doubled each time, unless the service says how long
    concurrent: int = Field(default=4, ge=1)  # requests to each service
    allowed_hosts: tuple[str, ...] = ()  # on private networks, that may be read all the same
    as_of: datetime.date | None = None  # nothing that the engine dates later is listed


def web_settings(
    search_url: str = SEARCH_URL,
    reader_url: str = READER_URL,
    allowed_hosts: Collection[str] = (),
    as_of: datetime.date | None = None,
    *,
    env: Mapping[str, str],
) -> WebSettings:
    """Settings with the keys of an environment. Raises UserError for a bad address, and where Serper itself has no key."""
    for name, url in (("search_url", search_url), ("reader_url", reader_url)):
        if urlsplit(url).scheme not in ("http", "https") or not urlsplit(url).hostname:
            raise UserError(f"{name} {url} is no web address: give one such as http://127.0.0.1:8018.")
    search_key, reader_key = env.get(SEARCH_KEY_ENV, "").strip(), env.get(READER_KEY_ENV, "").strip()
    if not search_key and search_url.rstrip("/") == SEARCH_URL:
        raise UserError(
            f"Serper wants a key: put it into {SEARCH_KEY_ENV}, or name another service with --set agent.search_url."
        )
    return WebSettings(
        search_url=search_url.rstrip("/"),
        reader_url=reader_url.rstrip("/"),
        search_key=SecretStr(search_key),
        reader_key=SecretStr(reader_key),
        allowed_hosts=tuple(host_of(f"//{host}") for host in allowed_hosts),
        as_of=as_of,
    )


class LiveWeb(World):
    """The live web: ``async with LiveWeb(web_settings(env=os.environ)) as web: await web.search("tidal flats")``."""

    name = LIVE_WEB
    page_count = 0
    offline, waits = False, True

    def __init__(self, settings: WebSettings, transport: httpx.AsyncBaseTransport | None = None) -> None:
        """``transport``: instead of the network, for tests."""
        search_key, reader_key = settings.search_key.get_secret_value(), settings.reader_key.get_secret_value()
        search_headers = {"X-API-KEY": search_key} if search_key else {}
        reader_headers = {"Authorization": f"Bearer {reader_key}"} if reader_key else {}
        self.fingerprint = f"{settings.search_url} {settings.reader_url}"
        self._allowed_hosts, day = settings.allowed_hosts, settings.as_of
        self._until = {} if day is None else {"tbs": f"cdr:1,cd_max:{day.month}/{day.day}/{day.year}"}
        self._engine = _Service(settings, settings.search_url, SEARCH_KEY_ENV, search_headers, transport)
        self._reader = _Service(settings, settings.reader_url, READER_KEY_ENV, reader_headers, transport)

    async def search(
        self, query: str, *, limit: int = 10, snippet_words: int = 30, occasion: Occasion = NO_OCCASION
    ) -> SearchReply:
        """Ask the engine; see `contract.World`. Snippets are as it gives them. Raises OutageError."""
        asked = {"q": query, "num": min(limit, _MOST_RESULTS), **self._until}
        status, body = await self._engine.post("/search", asked, refusals=(401, 402, 403, 404))
        if status == 200 and isinstance(body, dict):
            listed = body.get("organic")
            entries = [entry for entry in listed if isinstance(entry, dict)] if isinstance(listed, list) else []
            hits = tuple(
                SearchHit(_text(entry.get("title")), link, _text(entry.get("snippet")), _text(entry.get("date")))
                for entry in entries
                if (link := _text(entry.get("link")))
            )[:limit]
            return SearchReply(query, hits, ToolStatus.OK if hits else ToolStatus.EMPTY)
        if status == 400:  # the engine will not take these words
            return SearchReply(query, (), ToolStatus.EMPTY)
        return SearchReply(query, (), _STATUS.get(status, ToolStatus.OUTAGE))

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
        found = await asyncio.to_thread(read_page, page.text, goal, asked_part(url), max_words)
        status = ToolStatus.OK if found.part <= found.parts else ToolStatus.NOT_FOUND
        return replace(page, url=asked, text=found.text, status=status, part=found.part, parts=found.parts, moved=page.url)

    async def page(self, url: str) -> VisitReply:
        """One page, of at most `LONGEST_PAGE` characters; its ``url`` is the one after redirections. Raises OutageError."""
        if not url.lower().startswith(("http://", "https://")):
            return missing(url)
        if refusal := await self._refusal(url):
            return VisitReply(url, "", "", refusal)
        status, body = await self._reader.post("/", {"url": url}, refusals=(401,))
        if status != 200:
            return VisitReply(url, "", "", _STATUS.get(status, ToolStatus.OUTAGE))
        data = body.get("data") if isinstance(body, dict) else None
        if not isinstance(data, dict):
            return VisitReply(url, "", "", ToolStatus.OUTAGE)
        if warned := _WARNED.search(_text(data.get("warning"))):  # of a page that the site refused, for which it answers 200
            return VisitReply(url, "", "", _STATUS.get(int(warned[1]), ToolStatus.BLOCKED))
        text = _text(data.get("content")) or _text(data.get("text"))
        if len(text) > LONGEST_PAGE:
            text = f"{text[:LONGEST_PAGE]}\n\n(Of this page only the first {LONGEST_PAGE:,} characters are read.)"
        if not text.strip():
            return VisitReply(url, "", "", ToolStatus.NOT_TEXT)
        where = _text(data.get("url")) or url
        if where != url and (refusal := await self._refusal(where)):
            return VisitReply(url, "", "", refusal)
        return VisitReply(where, _text(data.get("title"))[:LONGEST_PAGE], text, date=_text(data.get("publishedTime"))[:100])

    async def _refusal(self, url: str) -> ToolStatus | None:
        """Why an address is not read: it is not public, or nobody says in time whether it is."""
        try:
            return None if await may_be_read(url, self._allowed_hosts) else ToolStatus.BLOCKED
        except TimeoutError:
            return ToolStatus.TIMEOUT

    async def aclose(self) -> None:
        await asyncio.gather(self._engine.client.aclose(), self._reader.client.aclose())

    async def __aenter__(self) -> "LiveWeb":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()


class _Service:
    """One service: a JSON request in, a status and a decoded body out, with patience. Keys stand in headers, in no message."""

    def __init__(
        self,
        settings: WebSettings,
        base_url: str,
        key_env: str,
        headers: Mapping[str, str],
        transport: httpx.AsyncBaseTransport | None,
    ) -> None:
        self._settings, self._base_url, self._key_env = settings, base_url, key_env
        self._broken = 0
        self._free = asyncio.Semaphore(settings.concurrent)
        self.client = httpx.AsyncClient(
            base_url=base_url,
            headers={"Accept": "application/json", "Accept-Encoding": "gzip", **headers},
            timeout=settings.timeout_s,
            transport=transport,
            trust_env=httpx.URL(base_url).host not in ("localhost", "127.0.0.1", "::1"),  # no proxy leads to this machine
        )

    async def post(self, path: str, body: Mapping[str, Any], refusals: tuple[int, ...]) -> tuple[int, Any]:
        """The last answer to a request. Raises OutageError where the service, not the query or the page, is what failed."""
        async with self._free:
            status, found = await self._patiently(path, body)
        words: Any = found
        if isinstance(found, dict):
            words = next((found[key] for key in ("error", "message", "readableMessage", "name") if found.get(key)), "")
        words = " ".join(str(words or "no reason given").split())[:200]
        if status in refusals:
            raise OutageError(f"{self._base_url} refused the request (status {status}: {words}): look at {self._key_env}.")
        if status in (400, 402) and _NO_CREDIT.search(words):
            raise OutageError(f"{self._base_url} has no credit left for this key ({words}).")
        odd = status == 200 and not isinstance(found, dict)
        self._broken = self._broken + 1 if odd or (status >= 500 and status not in _STATUS) else 0
        if self._broken >= BROKEN_IN_A_ROW:
            what = "something else than JSON" if odd else f"status {status}: {words}"
            raise OutageError(f"{self._base_url} is broken ({what}, {BROKEN_IN_A_ROW} times in a row).")
        return status, found

    async def _patiently(self, path: str, body: Mapping[str, Any]) -> tuple[int, Any]:
        """Busy or broken replies and lost connections are tried again, with pauses that grow or that the service names."""
        pause_s, left = self._settings.pause_s, self._settings.attempts
        while True:
            left -= 1
            wait_s = pause_s
            try:
                async with asyncio.timeout(self._settings.timeout_s):  # the client's limit is for each read
                    status, found, headers = await self._asked(path, body)
                after = headers.get("retry-after", "")
                wait_s = float(after) if _SECONDS.fullmatch(after) else pause_s
            except (httpx.TimeoutException, TimeoutError) as error:
                if isinstance(error, httpx.ConnectTimeout) and not left:
                    raise OutageError(f"{self._base_url} cannot be reached (no connection in time).") from error
                status, found = 504, {"error": "no answer in time"}  # as a gateway might have told it
            except (httpx.TransportError, httpx.InvalidURL) as error:
                if not left:
                    reason = " ".join(str(error).split())[:200] or type(error).__name__
                    raise OutageError(f"{self._base_url} cannot be reached ({reason}).") from error
                status, found = 503, None
            if not left or status not in _RETRIED:
                return status, found
            await asyncio.sleep(min(_LONGEST_PAUSE_S, wait_s))
            pause_s *= 2

    async def _asked(self, path: str, body: Mapping[str, Any]) -> tuple[int, Any, httpx.Headers]:
        """One reply: its status and JSON as `_decoded` has them, and its headers."""
        raw = bytearray()
        async with self.client.stream("POST", path, json=dict(body)) as reply:
            assert isinstance(reply.stream, httpx.AsyncByteStream)
            async for chunk in reply.stream:  # as it comes, compressed
                raw += chunk
                if len(raw) > MOST_BYTES:
                    break
        encoding = reply.headers.get("content-encoding", "").strip().lower()
        return *await asyncio.to_thread(_decoded, reply.status_code, bytes(raw), encoding), reply.headers


def _decoded(status: int, raw: bytes, encoding: str) -> tuple[int, Any]:
    """A reply's status and JSON (None: it is none); 415 for one that is too large, or not compressed by gzip at most once."""
    if encoding == "gzip":
        with suppress(zlib.error):
            raw = zlib.decompressobj(16 + zlib.MAX_WBITS).decompress(raw, MOST_BYTES + 1)
    if encoding not in ("", "identity", "gzip") or len(raw) > MOST_BYTES:
        return 415, None
    with suppress(ValueError, RecursionError):
        return status, json.loads(raw.decode("utf-8", "replace"))
    return status, None


def _text(value: Any) -> str:
    """A string of a reply, without what no page and no tokenizer knows."""
    return value.encode("utf-8", "replace").decode("utf-8") if isinstance(value, str) else ""


# Which addresses may be read: those of public hosts. Private networks, this machine and clouds' metadata are refused.
#
# A host is read as browsers read it, so that no spelling hides one: numbers in decimal, octal and hexadecimal, full-width
# digits, escapes, IPv4 within IPv6. A name is looked up, and all addresses that it has must be public. A reader on another
# machine looks it up for itself and may be given other addresses; of its redirections, the one at which they ended is checked.

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
_CARRIERS = tuple(map(ipaddress.IPv6Network, ("64:ff9b::/96", "::/96")))  # of an IPv4 address in their last 32 bits
_METADATA = frozenset({ipaddress.ip_address("168.63.129.16")})  # Azure's; all others are in private ranges
_PRIVATE_NAMES = ("localhost", "local", "internal", "home.arpa")
_NOBODYS = ("example", "invalid")  # names that no resolver knows (RFC 6761)
_FORBIDDEN = re.compile(r"[\x00-\x20\x7f<>^|/?#@]")  # in a host; some readers stop at them
_LOOKUP_S = 10.0


def host_of(url: str) -> str:
    """The host that a browser would ask, in lower case; empty: there is none."""
    try:
        host = urlsplit(url.strip().replace("\\", "/")).hostname or ""
    except ValueError:
        return ""
    host = unicodedata.normalize("NFKC", unquote(host)).lower().replace("。", ".").rstrip(".")
    return "" if _FORBIDDEN.search(host) else host


def literal(host: str) -> Address | None:
    """The address that a host is, in any spelling that a browser takes; None: it is a name."""
    with suppress(ValueError):
        return ipaddress.ip_address(host.partition("%")[0])
    with suppress(OSError, ValueError):
        return ipaddress.IPv4Address(socket.inet_aton(host)) if host[:1].isdigit() else None
    return None


def is_public(address: Address) -> bool:
    """Whether an address can be reached from everywhere, those that it carries included."""
    if isinstance(address, ipaddress.IPv6Address):
        within = address.ipv4_mapped or address.sixtofour or (address.teredo or (None, None))[1]
        if any(address in network for network in _CARRIERS):
            within = ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
        if within is not None:
            return is_public(within)
    return address.is_global and not address.is_multicast and address not in _METADATA


async def may_be_read(url: str, allowed: Collection[str] = ()) -> bool:
    """Whether an address leads to public hosts only, or to one that is allowed by its name. Raises TimeoutError."""
    host = host_of(url)
    if not host or host in allowed:
        return bool(host)
    if (address := literal(host)) is not None:
        return is_public(address)
    if "." not in host or host.endswith(tuple(f".{name}" for name in _PRIVATE_NAMES)):
        return False
    if host.endswith(tuple(f".{name}" for name in _NOBODYS)):
        return True
    try:
        async with asyncio.timeout(_LOOKUP_S):
            found = await asyncio.get_running_loop().getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except ValueError:
        return False  # no name at all
    except OSError:
        return True  # unknown here, as where only a proxy leads outside: then it leads nowhere private from here
    return all(is_public(ipaddress.ip_address(str(one[4][0]).partition("%")[0])) for one in found)
