"""Pages read from here, without a service: over checked addresses, with manners, within limits, in a worker.

What a site refuses, and what stands before its page (`walls`), has a status and no text. Proxies of the environment are not
used: behind one it would be the proxy that looks names up, and nobody could check them.
"""

import asyncio
import re
import time
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from urllib.parse import urljoin

import httpx

from sanderling.core.types import ToolStatus
from sanderling.world.contract import OutageError, VisitReply
from sanderling.world.web.config import LiveConfig
from sanderling.world.web.manners import AGENT, MOST_ROBOTS, Manners
from sanderling.world.web.public import NotAllowedError, Resolve, UnknownHostError, checked_transport, host_of, looked_up
from sanderling.world.web.reading import LIMITS, Workers, unpacked
from sanderling.world.web.service import BROKEN_IN_A_ROW, seconds_of, status_of

HEADERS = {
    "User-Agent": f"Mozilla/5.0 (compatible; {AGENT}/0.1)",
    "Accept": "text/html,application/xhtml+xml,application/pdf,text/*;q=0.9,*/*;q=0.5",
    "Accept-Encoding": "gzip, deflate",
    "Accept-Language": "en,*;q=0.5",
}
_MOST_REDIRECTS = 10
_LONGEST_ADDRESS = 8_192  # characters; servers take no longer ones, and to read one takes the loop's time
_KNOWN = "example.com"  # a name that every resolver of the web knows (RFC 2606)
_LONGEST_WAIT_S = 10.0  # for a busy site, amid a visit
_NO_TEXT = re.compile(r"\s*(?:image|audio|video|font|model|multipart)/", re.IGNORECASE)


@dataclass(frozen=True)
class Got:
    """One reply of a site, its body as it came."""

    url: str
    status: int
    headers: httpx.Headers
    body: bytes | bytearray | None  # None: too much of it, or of a kind that is no text


class Direct:
    """Reads pages from here."""

    def __init__(self, config: LiveConfig, allowed: Collection[str], resolve: Resolve, workers: Workers) -> None:
        """``allowed``: hosts that may be private. Raises UserError without what reads robots.txt."""
        self._config, self._transport, self._workers = config, checked_transport(allowed, resolve), workers
        self._resolve = resolve
        self.manners = Manners(config, allowed, self._robots, workers)
        self._unknown = set[str]()  # hosts that nobody knew, since it was last seen that there is a network

    async def __call__(self, url: str) -> VisitReply:
        """One page, its ``url`` where it was in the end. Raises NotAllowedError, and OutageError without a network."""
        client = httpx.AsyncClient(transport=self._transport, headers=HEADERS, timeout=self._config.timeout_s, trust_env=False)
        hops, left_s = iter(range(_MOST_REDIRECTS)), self._config.timeout_s
        found: VisitReply | str = url
        while isinstance(found, str):  # each host on the way has its turn
            where = found
            async with self.manners.turn(where):
                began = time.monotonic()
                try:
                    async with asyncio.timeout(left_s):
                        found = await self._read(client, where, hops)
                except (TimeoutError, httpx.TimeoutException):
                    found = VisitReply(where, "", "", ToolStatus.TIMEOUT)
                except UnknownHostError as error:
                    found = await self.unknown(where, error)
                except (httpx.HTTPError, httpx.InvalidURL, OSError, ValueError):
                    found = VisitReply(where, "", "", ToolStatus.OUTAGE)
                left_s -= time.monotonic() - began
        return found

    async def unknown(self, url: str, error: UnknownHostError) -> VisitReply:
        """A page whose host nobody knows. Raises OutageError where nobody knows any, as without a network."""
        self._unknown.add(host_of(url))
        if len(self._unknown) >= BROKEN_IN_A_ROW:
            try:
                await looked_up(_KNOWN, {_KNOWN}, self._resolve)
            except (UnknownHostError, TimeoutError):
                raise OutageError(
                    "The web cannot be reached from here: no name is looked up, so see to the network."
                ) from error
            self._unknown.clear()
        return VisitReply(url, "", "", ToolStatus.NOT_FOUND if error.asked else ToolStatus.OUTAGE)

    async def _read(self, client: httpx.AsyncClient, url: str, hops: Iterator[int]) -> VisitReply | str:
        """The page, or the address at another host where it is; cookies that a site sets on the way are shown to it."""
        left, where = self._config.attempts, url
        for _ in hops:
            is_address = where.lower().startswith(("http://", "https://")) and len(where) <= _LONGEST_ADDRESS
            if not is_address:
                raise NotAllowedError(where)
            await self.manners.check(where)
            got = await self._got(client, where)
            while got.status in (429, 503) and (left := left - 1) and "retry-after" in got.headers:
                pause_s = seconds_of(got.headers, self._config.pause_s)
                self.manners.busy(where, pause_s)
                if pause_s > _LONGEST_WAIT_S:
                    return VisitReply(where, "", "", ToolStatus.RATE_LIMITED)
                await asyncio.sleep(pause_s)
                got = await self._got(client, where)
            onward = got.headers.get("location", "") if got.status in (301, 302, 303, 307, 308) else ""
            if not onward and not 200 <= got.status < 300:
                return VisitReply(where, "", "", status_of(got.status))
            if not onward:
                reply, onward = await self.page(got)
                if not onward:
                    return reply
            where = urljoin(where, onward)
            if host_of(where) != host_of(url):
                return where
        return VisitReply(url, "", "", ToolStatus.BLOCKED)  # it leads in a circle, as sites do that want cookies

    async def page(self, got: Got) -> tuple[VisitReply, str]:
        """The page of a reply, and where it sends its readers on."""
        found = None
        if got.body is not None:
            encoding = got.headers.get("content-encoding", "").strip().lower()
            found = await self._workers.ask("reply", got.url, _type(got.headers), encoding, raw=got.body)
        status = ToolStatus.NOT_TEXT if found is None else ToolStatus(found["status"])
        if found is None or status is not ToolStatus.OK:
            return VisitReply(got.url, "", "", status), ""
        text, onward = found["text"], found.get("onward", "")
        return VisitReply(got.url, found.get("title", ""), text, date=found.get("date", "")), onward

    async def _got(self, client: httpx.AsyncClient, url: str, most: int = LIMITS.document_bytes, *, cut: bool = False) -> Got:
        """One reply; ``cut``: of one with more than ``most`` bytes, its beginning."""
        async with client.stream("GET", url) as reply:
            body = bytearray()  # which grows in place: to join megabytes would stop the loop
            if not 200 <= reply.status_code < 300:
                return Got(url, reply.status_code, reply.headers, b"")
            if _NO_TEXT.match(_type(reply.headers)):
                return Got(url, reply.status_code, reply.headers, None)
            async for chunk in reply.aiter_raw():
                body += chunk
                await asyncio.sleep(0)  # thousands of small ones may have come at once
                if len(body) > most:
                    return Got(url, reply.status_code, reply.headers, body if cut else None)
        return Got(url, reply.status_code, reply.headers, body)

    async def _robots(self, url: str) -> tuple[int, bytes]:
        """A robots.txt, after redirections."""
        client = httpx.AsyncClient(transport=self._transport, headers=HEADERS, timeout=self._config.timeout_s, trust_env=False)
        for _ in range(_MOST_REDIRECTS // 2):
            got = await self._got(client, url, MOST_ROBOTS, cut=True)
            if not (onward := got.headers.get("location", "")) or got.status not in (301, 302, 303, 307, 308):
                encoding = got.headers.get("content-encoding", "").strip().lower()
                body = unpacked(bytes(got.body or b""), encoding, MOST_ROBOTS) or b""
                whole = len(body) <= MOST_ROBOTS  # half a line would forbid more than it says
                return got.status, body if whole else body.rpartition(b"\n")[0]
            url = urljoin(url, onward)
        return 404, b""

    async def aclose(self) -> None:
        await self._transport.aclose()


def _type(headers: httpx.Headers) -> str:
    """The content type; of several the last, as browsers take it."""
    return (headers.get_list("content-type") or [""])[-1]
