"""One HTTP service: a JSON request in, a status and a body out, with patience.

Busy or broken replies (408, 425, 429, 5xx) and lost connections are tried again, with pauses that grow or that the service
names. What remains is handed on as it is: what a status means is the caller's to say. A service that cannot be reached at all
is a ToolOutageError; one that does not answer in time is `TIMED_OUT`. Knows neither searches nor pages. Keys stand in headers
only, and in no message.
"""

import asyncio
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import httpx

from sanderling.tools.contract import ToolOutageError

TIMED_OUT = 504
"""The status of an answer that did not come in time: a gateway's, as it might have been told by one."""
_RETRIED = frozenset({408, 425, 429, 500, 502, 503, 504})
_LONGEST_PAUSE_S = 30.0
_MOST_BYTES = 32 << 20


@dataclass(frozen=True)
class Answer:
    """What a service said."""

    status: int
    body: Any
    """Decoded JSON; None for what is no JSON."""

    @property
    def words(self) -> str:
        """The service's own words about a failure, on one line."""
        found = self.body
        if isinstance(found, dict):
            found = next((found[key] for key in ("error", "message", "readableMessage", "name") if found.get(key)), "")
        return " ".join(str(found or "no reason given").split())[:200]


class Service:
    """One service.

    Args:
        base_url: without a slash at its end.
        headers: sent with every request.
        timeout_s: for one attempt.
        attempts: for one request.
        pause_s: before the second attempt.
        concurrent: requests at a time.
        transport: instead of the network, for tests.

    """

    def __init__(
        self,
        base_url: str,
        headers: Mapping[str, str],
        *,
        timeout_s: float,
        attempts: int,
        pause_s: float,
        concurrent: int,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self.base_url = base_url
        self._attempts = attempts
        self._pause_s = pause_s
        self._timeout_s = timeout_s
        self._free = asyncio.Semaphore(concurrent)
        beyond = httpx.URL(base_url).host not in ("localhost", "127.0.0.1", "::1")  # no proxy leads to this machine
        self._client = httpx.AsyncClient(
            base_url=base_url,
            headers={"Accept": "application/json", **headers},
            timeout=timeout_s,
            transport=transport,
            trust_env=beyond,
        )

    async def post(self, path: str, body: Mapping[str, Any]) -> Answer:
        """The last answer to a request. Raises ToolOutageError when the service cannot be reached."""
        async with self._free:
            pause_s = self._pause_s
            for attempt in range(1, self._attempts + 1):
                answer, wait_s = await self._once(path, body, last=attempt == self._attempts)
                if answer is not None and (answer.status not in _RETRIED or attempt == self._attempts):
                    return answer
                await asyncio.sleep(min(_LONGEST_PAUSE_S, pause_s if wait_s is None else wait_s))
                pause_s *= 2
            raise AssertionError("the last attempt answers or raises")

    async def aclose(self) -> None:
        """Close the connections."""
        await self._client.aclose()

    async def _once(self, path: str, body: Mapping[str, Any], *, last: bool) -> tuple[Answer | None, float | None]:
        """An answer, or None where another attempt may help; and how long the service wants to be left alone."""
        try:
            async with (
                asyncio.timeout(self._timeout_s),  # the client's own limit is for each read: a reply may drip for ever
                self._client.stream("POST", path, json=dict(body)) as reply,
            ):
                return Answer(reply.status_code, await _decoded(reply)), _wait(reply)
        except (httpx.TimeoutException, TimeoutError) as error:
            if isinstance(error, httpx.ConnectTimeout) and last:
                raise ToolOutageError(f"{self.base_url} cannot be reached (no connection in time).") from error
            return Answer(TIMED_OUT, {"error": "no answer in time"}), None
        except (httpx.TransportError, httpx.InvalidURL) as error:
            if last:
                raise ToolOutageError(f"{self.base_url} cannot be reached ({_reason(error)}).") from error
            return None, None


async def _decoded(reply: httpx.Response) -> Any:
    chunks, size = [], 0
    async for chunk in reply.aiter_bytes():
        size += len(chunk)
        if size > _MOST_BYTES:
            return None
        chunks.append(chunk)
    try:
        return json.loads(b"".join(chunks).decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return None


def _wait(reply: httpx.Response) -> float | None:
    try:
        seconds = float(reply.headers.get("retry-after", ""))
    except ValueError:
        return None
    return seconds if math.isfinite(seconds) and seconds >= 0 else None


def _reason(error: Exception) -> str:
    return " ".join(str(error).split())[:200] or type(error).__name__
