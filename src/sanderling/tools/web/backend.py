"""The live web behind two services: searches as Serper answers them, pages as Jina Reader gives them, with typed statuses.

A failure of a page or a query is a status; a failure of a service is a ToolOutageError: it cannot be reached, refuses the key,
has no credit left, or breaks (5xx) `BROKEN_IN_A_ROW` times in a row, since one broken page is the page's affair. Reader
services answer 200 for pages that a site refused to give and put the site's own status into ``warning``: that is read too.
Knows no layout and no model; what must not be seen is left out by the tools.
"""

import asyncio
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import httpx

from sanderling.core.types import ToolStatus
from sanderling.tools.contract import ToolOutageError
from sanderling.tools.web.service import Answer, Service
from sanderling.tools.web.settings import READER_KEY_ENV, SEARCH_KEY_ENV, WebSettings
from sanderling.world.contract import SearchHit, SearchReply, VisitReply

BROKEN_IN_A_ROW = 3
_MOST_RESULTS = 100
_WARNED = re.compile(r"returned error (\d{3})")
_NO_CREDIT = re.compile(r"credit|balance|quota|billing", re.IGNORECASE)
_STATUS = {
    400: ToolStatus.NOT_FOUND,
    402: ToolStatus.PAYWALLED,
    403: ToolStatus.BLOCKED,
    404: ToolStatus.NOT_FOUND,
    408: ToolStatus.TIMEOUT,
    410: ToolStatus.GONE,
    415: ToolStatus.NOT_TEXT,
    422: ToolStatus.BLOCKED,
    429: ToolStatus.RATE_LIMITED,
    451: ToolStatus.BLOCKED,
    504: ToolStatus.TIMEOUT,
    524: ToolStatus.TIMEOUT,
}
"""What a reader's status, or a site's within a reader's warning, says of a page."""


class LiveWeb:
    """Searches and pages of the live web; its connections belong to the running event loop.

    Example: ``async with LiveWeb(web_settings(env=os.environ)) as web: await web.search("tidal flats", 10)``
    """

    def __init__(self, settings: WebSettings, transport: httpx.AsyncBaseTransport | None = None) -> None:
        search_key = settings.search_key.get_secret_value() if settings.search_key else ""
        reader_key = settings.reader_key.get_secret_value() if settings.reader_key else ""
        search_headers = {"X-API-KEY": search_key} if search_key else {}
        reader_headers = {"Authorization": f"Bearer {reader_key}"} if reader_key else {}
        self._search = _Side(_service(settings, settings.search_url, search_headers, transport), SEARCH_KEY_ENV)
        self._reader = _Side(_service(settings, settings.reader_url, reader_headers, transport), READER_KEY_ENV)

    async def search(self, query: str, limit: int) -> SearchReply:
        """One query. Raises ToolOutageError; never for what the engine says of the query."""
        answer = await self._search.service.post("/search", {"q": query, "num": min(limit, _MOST_RESULTS)})
        self._search.require(answer, refusals=(401, 402, 403, 404))
        if answer.status == 200 and isinstance(answer.body, dict):
            hits = _hits(answer.body.get("organic"))[:limit]
            return SearchReply(query, hits, ToolStatus.OK if hits else ToolStatus.EMPTY)
        if answer.status == 400:  # the engine will not take these words
            return SearchReply(query, (), ToolStatus.EMPTY)
        return SearchReply(query, (), _STATUS.get(answer.status, ToolStatus.OUTAGE))

    async def page(self, url: str) -> VisitReply:
        """One whole page; its ``url`` is the address it came from, after redirections. Raises ToolOutageError."""
        if not url.lower().startswith(("http://", "https://")):
            return _failed(url, ToolStatus.NOT_FOUND)
        answer = await self._reader.service.post("/", {"url": url})
        self._reader.require(answer, refusals=(401,))
        if answer.status != 200:
            return _failed(url, _STATUS.get(answer.status, ToolStatus.OUTAGE))
        return _page(url, answer.body)

    async def aclose(self) -> None:
        """Close the connections."""
        await asyncio.gather(self._search.service.aclose(), self._reader.service.aclose())

    async def __aenter__(self) -> "LiveWeb":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()


@dataclass
class _Side:
    """One of the two services, and how often in a row it was broken."""

    service: Service
    key_env: str
    broken: int = 0

    def require(self, answer: Answer, refusals: tuple[int, ...]) -> None:
        """Raises ToolOutageError where the service, not the query or the page, is what failed."""
        where = self.service.base_url
        if answer.status in refusals:
            raise ToolOutageError(
                f"{where} refused the request (status {answer.status}: {answer.words}): look at {self.key_env}."
            )
        if answer.status in (400, 402) and _NO_CREDIT.search(answer.words):
            raise ToolOutageError(f"{where} has no credit left for this key ({answer.words}).")
        odd = answer.status == 200 and not isinstance(answer.body, dict)
        if not odd and (answer.status < 500 or answer.status in _STATUS):
            self.broken = 0
            return
        self.broken += 1
        if self.broken >= BROKEN_IN_A_ROW:
            what = "something else than JSON" if odd else f"status {answer.status}: {answer.words}"
            raise ToolOutageError(f"{where} is broken ({what}, {BROKEN_IN_A_ROW} times in a row).")


def _service(
    settings: WebSettings, base_url: str, headers: Mapping[str, str], transport: httpx.AsyncBaseTransport | None
) -> Service:
    return Service(
        base_url,
        headers,
        timeout_s=settings.timeout_s,
        attempts=settings.attempts,
        pause_s=settings.pause_s,
        concurrent=settings.concurrent,
        transport=transport,
    )


def _hits(found: Any) -> tuple[SearchHit, ...]:
    entries = [entry for entry in found if isinstance(entry, dict)] if isinstance(found, list) else []
    return tuple(
        SearchHit(_text(entry.get("title")), _text(entry["link"]), _text(entry.get("snippet")), _text(entry.get("date")))
        for entry in entries
        if _text(entry.get("link"))
    )


def _page(url: str, body: Any) -> VisitReply:
    data = body.get("data") if isinstance(body, dict) else None
    if not isinstance(data, dict):
        return _failed(url, ToolStatus.OUTAGE)
    warned = _WARNED.search(_text(data.get("warning")))
    if warned:
        return _failed(url, _STATUS.get(int(warned[1]), ToolStatus.BLOCKED))
    text = _text(data.get("content")) or _text(data.get("text"))
    if not text.strip():
        return _failed(url, ToolStatus.NOT_TEXT)
    return VisitReply(_text(data.get("url")) or url, _text(data.get("title")), text)


def _failed(url: str, status: ToolStatus) -> VisitReply:
    return VisitReply(url=url, title="", text="", status=status)


def _text(value: Any) -> str:
    """A string of a reply, without what no page and no tokenizer knows."""
    return value.encode("utf-8", "replace").decode("utf-8") if isinstance(value, str) else ""
