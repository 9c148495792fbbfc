"""Search engines in one table: what each is asked, and what its reply says. One of your own is an `Engine` by ``file.py:name``.

Serper, SearXNG and Jina Reader's forms are spoken by our own served worlds and by a real SearXNG; Brave and Tavily are after
their published documentation, and were not met.
"""

import datetime
import html
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from sanderling.core.types import ToolStatus
from sanderling.world.contract import SearchHit

_TAG = re.compile(r"</?(?:strong|b|em)>")  # around the words that were asked for


@dataclass(frozen=True)
class Asking:
    """One search."""

    query: str
    limit: int
    as_of: datetime.date | None = None  # nothing of a later day is wanted
    key: str = ""


@dataclass(frozen=True)
class Request:
    """What is sent to a service, below its address."""

    path: str
    json: Mapping[str, Any] | None = None  # posted; None: it is a GET
    params: Mapping[str, str] = field(default_factory=dict[str, str])
    headers: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True)
class Engine:
    """How one kind of search engine is spoken to.

    ``read``: the hits of a reply, or what it says instead of some. ``refused``: HTTP statuses that are about the key, the
    credit or the service's own settings, and what a person does then; 200 stands for a reply that is no JSON.
    """

    ask: Callable[[Asking], Request]
    read: Callable[[Mapping[str, Any]], Sequence[SearchHit] | ToolStatus]
    url: str = ""  # empty: settings have to say it
    key: str = ""  # the environment variable that has the key; with an address of one's own it may be empty
    place: str = ""  # the environment variable that may have the address
    refused: tuple[int, ...] = (401, 402, 403)
    advice: str = ""
    most: int = 100  # results of one search


def _serper(asked: Asking) -> Request:
    day = asked.as_of
    until = {} if day is None else {"tbs": f"cdr:1,cd_max:{day.month}/{day.day}/{day.year}"}
    return Request("/search", {"q": asked.query, "num": asked.limit, **until}, headers={"X-API-KEY": asked.key})


def _searxng(asked: Asking) -> Request:
    return Request("/search", params={"q": asked.query, "format": "json"})


def _searxng_hits(reply: Mapping[str, Any]) -> Sequence[SearchHit] | ToolStatus:
    found = [*_hits(reply.get("results"), "title", "url", "content", "publishedDate")]
    if not found and reply.get("unresponsive_engines"):  # nobody was asked: that there is nothing is not known
        told = str(reply["unresponsive_engines"]).lower()
        if "timeout" in told:
            return ToolStatus.TIMEOUT
        return ToolStatus.RATE_LIMITED if re.search(r"too many|suspended|denied|captcha", told) else ToolStatus.OUTAGE
    return found


def _brave(asked: Asking) -> Request:
    until = {} if asked.as_of is None else {"freshness": f"1970-01-01to{asked.as_of}"}
    params = {"q": " ".join(asked.query.split()[:50])[:400], "count": str(asked.limit), **until}
    return Request("/res/v1/web/search", params=params, headers={"X-Subscription-Token": asked.key})


def _brave_hits(reply: Mapping[str, Any]) -> Sequence[SearchHit]:
    web = reply.get("web")
    found = _hits(web.get("results") if isinstance(web, dict) else None, "title", "url", "description", "page_age")
    return [replace(hit, title=_unmarked(hit.title), snippet=_unmarked(hit.snippet)) for hit in found]


def _tavily(asked: Asking) -> Request:
    until = {} if asked.as_of is None else {"end_date": str(asked.as_of)}
    return Request(
        "/search",
        {"query": asked.query[:400], "max_results": asked.limit, **until},
        headers={"Authorization": f"Bearer {asked.key}"},
    )


def _hits(entries: Any, *names: str) -> Iterator[SearchHit]:
    """Hits of a list of objects, by the names that title, address, snippet and date have there."""
    for entry in entries if isinstance(entries, list) else ():
        if isinstance(entry, dict):
            title, url, snippet, date = (text_of(entry.get(name)) for name in names)
            if url:
                yield SearchHit(title, url, snippet, date)


def text_of(value: Any) -> str:
    """A string of a reply, without what no page and no tokenizer knows."""
    return value.encode("utf-8", "replace").decode("utf-8") if isinstance(value, str) else ""


def _unmarked(text: str) -> str:
    return html.unescape(_TAG.sub("", text))


ENGINES: dict[str, Engine] = {
    "serper": Engine(
        _serper,
        lambda reply: [*_hits(reply.get("organic"), "title", "link", "snippet", "date")],
        "https://google.serper.dev", "SERPER_API_KEY", refused=(401, 402, 403, 404), advice="look at SERPER_API_KEY",
    ),
    "searxng": Engine(
        _searxng, _searxng_hits, place="SEARXNG_URL", refused=(200, 401, 403, 404),
        advice="add json to search.formats in its settings.yml, and see that this is its address",
    ),
    "brave": Engine(
        _brave, _brave_hits, "https://api.search.brave.com", "BRAVE_API_KEY", refused=(401, 402, 403, 404, 422),
        advice="look at BRAVE_API_KEY", most=20,
    ),
    "tavily": Engine(
        _tavily,
        lambda reply: [*_hits(reply.get("results"), "title", "url", "content", "published_date")],
        "https://api.tavily.com", "TAVILY_API_KEY", refused=(401, 402, 403, 404, 432, 433), advice="look at TAVILY_API_KEY",
        most=20,
    ),
}  # fmt: skip
"""In the order in which one is chosen where settings name none."""
