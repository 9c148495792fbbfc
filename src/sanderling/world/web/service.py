"""One service of the web: a request in, a status and decoded JSON out, with patience, at a measured pace.

It is an outage, and neither the query's nor the page's failure, where a service cannot be reached, refuses its key or the
request as such, has no credit left, or breaks (5xx, no JSON) `BROKEN_IN_A_ROW` times in a row.
"""

import asyncio
import json
import re
import time
from contextlib import suppress
from email.utils import parsedate_to_datetime
from typing import Any

import httpx

from sanderling.core.types import ToolStatus
from sanderling.world.contract import OutageError
from sanderling.world.web.config import LiveConfig
from sanderling.world.web.engines import Request
from sanderling.world.web.reading import unpacked

BROKEN_IN_A_ROW = 3
MOST_BYTES = 8 << 20  # of a service's reply, out of its compression
LONGEST_PAUSE_S = 30.0
STATUS = {
    **dict.fromkeys((400, 404), ToolStatus.NOT_FOUND),
    **dict.fromkeys((401, 403, 422, 451), ToolStatus.BLOCKED),
    **dict.fromkeys((408, 504, 524), ToolStatus.TIMEOUT),
    402: ToolStatus.PAYWALLED,
    410: ToolStatus.GONE,
    415: ToolStatus.NOT_TEXT,
    429: ToolStatus.RATE_LIMITED,
}
"""What an HTTP status says of a page, or a service's of what it was asked for."""
_OTHER_REFUSALS = frozenset({*range(400, 500), 999})  # 405, 406, 418 and 999 are for readers that look like robots
_WHY = ("error", "message", "readableMessage", "detail", "name")  # where services say what is wrong
_RETRIED = frozenset({408, 425, 429, 500, 502, 503, 504})
_NO_CREDIT = re.compile(r"credit|balance|quota|billing", re.IGNORECASE)
_SECONDS = re.compile(r"[0-9]{1,9}(?:\.[0-9]+)?")


class Service:
    """A service at an address. Keys stand in headers, in no message."""

    def __init__(
        self,
        name: str,
        url: str,
        config: LiveConfig,
        transport: httpx.AsyncBaseTransport | None = None,
        *,
        refused: tuple[int, ...] = (401,),
        advice: str = "",
    ) -> None:
        """``refused``, ``advice``: see `engines.Engine`; ``transport``: instead of the network, for tests."""
        self.url, self._config, self._refused, self._advice = url, config, refused, advice
        self._broken = 0
        self._free = asyncio.Semaphore(config.concurrent)
        per_minute = config.per_minute.get(name)
        self._gap_s, self._next = 60 / per_minute if per_minute else 0.0, 0.0
        self.client = httpx.AsyncClient(
            base_url=url,
            headers={"Accept": "application/json", "Accept-Encoding": "gzip"},
            timeout=config.timeout_s,
            transport=transport,
            trust_env=httpx.URL(url).host not in ("localhost", "127.0.0.1", "::1"),  # no proxy leads to this machine
        )

    async def ask(self, request: Request) -> tuple[int, Any]:
        """The last answer to a request. Raises OutageError where the service, not the query or the page, is what failed."""
        async with self._free:
            status, found = await self._patiently(request)
        words: Any = found
        if isinstance(found, dict):
            words = next((found[key] for key in _WHY if found.get(key)), "")
        words = " ".join(str(words or "no reason given").split())[:200]
        odd = status == 200 and not isinstance(found, dict)
        what = "something else than JSON" if odd else f"status {status}: {words}"
        if status in self._refused and (odd or status != 200):
            raise OutageError(f"{self.url} refused the request ({what}): {self._advice or 'look at its key'}.")
        if status in (400, 402) and _NO_CREDIT.search(words):
            raise OutageError(f"{self.url} has no credit left for this key ({words}).")
        self._broken = self._broken + 1 if odd or (status >= 500 and status not in STATUS) else 0
        if self._broken >= BROKEN_IN_A_ROW:
            raise OutageError(f"{self.url} is broken ({what}, {BROKEN_IN_A_ROW} times in a row).")
        return status, found

    async def _patiently(self, request: Request) -> tuple[int, Any]:
        """Busy or broken replies and lost connections are tried again, with pauses that grow or that the service names.

        Nobody waits for one that wants to be left alone for longer, and it is not asked before.
        """
        pause_s, left = self._config.pause_s, self._config.attempts
        while True:
            left -= 1
            wait_s = pause_s
            try:
                await self._turn()
                async with asyncio.timeout(self._config.timeout_s):  # the client's limit is for each read
                    status, found, headers = await self._asked(request)
                wait_s = seconds_of(headers, pause_s)
            except (httpx.TimeoutException, TimeoutError) as error:
                if isinstance(error, httpx.ConnectTimeout) and not left:
                    raise OutageError(f"{self.url} cannot be reached (no connection in time).") from error
                status, found = 504, {"error": "no answer in time"}  # as a gateway might have told it
            except (httpx.TransportError, httpx.InvalidURL) as error:
                if not left:
                    reason = " ".join(str(error).split())[:200] or type(error).__name__
                    raise OutageError(f"{self.url} cannot be reached ({reason}).") from error
                status, found = 503, None
            if not left or status not in _RETRIED or wait_s > LONGEST_PAUSE_S:
                return status, found
            await asyncio.sleep(wait_s)
            pause_s = min(2 * pause_s, LONGEST_PAUSE_S)

    async def _turn(self) -> None:
        """Wait until one more call keeps to the calls in a minute that are allowed."""
        now = time.monotonic()
        self._next = max(self._next, now) + self._gap_s
        await asyncio.sleep(max(self._next - self._gap_s - now, 0.0))

    async def _asked(self, request: Request) -> tuple[int, Any, httpx.Headers]:
        """One reply: its status and JSON as `_decoded` has them, and its headers."""
        raw = bytearray()
        how: dict[str, Any] = {"params": request.params or None, "headers": request.headers}
        if request.json is not None:
            how["json"] = dict(request.json)
        async with self.client.stream("GET" if request.json is None else "POST", request.path, **how) as reply:
            assert isinstance(reply.stream, httpx.AsyncByteStream)
            async for chunk in reply.stream:  # as it comes, compressed
                raw += chunk
                if len(raw) > MOST_BYTES:
                    break
        encoding = reply.headers.get("content-encoding", "").strip().lower()
        return *await asyncio.to_thread(_decoded, reply.status_code, bytes(raw), encoding), reply.headers


def status_of(code: int) -> ToolStatus:
    """What a site's HTTP status says of its page."""
    return STATUS.get(code, ToolStatus.BLOCKED if code in _OTHER_REFUSALS else ToolStatus.OUTAGE)


def seconds_of(headers: httpx.Headers, otherwise: float) -> float:
    """How long a busy server asks to wait."""
    after = headers.get("retry-after", "").strip()
    if _SECONDS.fullmatch(after):
        return float(after)
    with suppress(ValueError, OverflowError):
        return max(parsedate_to_datetime(after).timestamp() - time.time(), 0.0)
    return otherwise


def _decoded(status: int, raw: bytes, encoding: str) -> tuple[int, Any]:
    """A reply's status and JSON (None: it is none); 415 for one that is too large, or compressed more than once."""
    body = unpacked(raw, encoding, MOST_BYTES)
    if body is None or len(body) > MOST_BYTES:
        return 415, None
    with suppress(ValueError, RecursionError):
        return status, json.loads(body.decode("utf-8", "replace"))
    return status, None
