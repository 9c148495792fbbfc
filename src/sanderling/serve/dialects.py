"""What clients of a world may speak, in one table: our own API, Serper, Jina Reader, LiteResearcher, Search-R1 and ASearcher.

A dialect is a tuple of routes; a new one is a tuple and a line in `DIALECTS`. Each has its routes under its own name
(``/serper/search``) and at the root (``/search``).
"""

import asyncio
import re
from collections.abc import Sequence
from typing import Any
from urllib.parse import unquote

from pydantic import Field
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response

from sanderling.core.config import Frozen
from sanderling.core.errors import UserError
from sanderling.core.types import ToolStatus
from sanderling.serve import literesearcher
from sanderling.serve.calls import MAX_QUERIES, MAX_URLS, Call, ForeignBody, RefusalError, Route, check_served, no_route, parse
from sanderling.world.addresses import page_address
from sanderling.world.contract import Occasion, SearchHit, SearchReply

PASSAGE_WORDS = 100
_READER = re.compile(r"^/(?:jina/)?(?:r/)?")
_SCHEME = re.compile(r"^(https?|local):/+", re.IGNORECASE)  # pages of documents have addresses, too


# Native: everything a world can be asked, masks and episode seeds included. Each query or address has a reply of its own, in
# order, with the world's status: a page that is missing is no HTTP error.


class _NativeBody(Frozen):
    masked: frozenset[str] = Field(default=frozenset(), max_length=MAX_URLS)
    episode_seed: int = Field(default=0, ge=-(1 << 63), lt=1 << 63)
    occurrence: int = Field(default=0, ge=0, lt=1 << 31)

    @property
    def occasion(self) -> Occasion:
        return Occasion(self.masked, self.episode_seed, self.occurrence)


class SearchBody(_NativeBody):
    """Of ``/v1/search``."""

    queries: list[str] = Field(min_length=1, max_length=MAX_QUERIES)
    limit: int = Field(default=10, ge=1, le=100)
    snippet_words: int = Field(default=30, ge=1, le=1_000)


class VisitBody(_NativeBody):
    """Of ``/v1/visit``."""

    urls: list[str] = Field(min_length=1, max_length=MAX_QUERIES)
    goal: str = ""
    max_words: int = Field(default=2_000, ge=1, le=1_000_000)


async def _native_info(call: Call) -> object:
    return _fields(call.world.world, "name", "fingerprint", "page_count")


async def _native_search(call: Call) -> object:
    body = parse(SearchBody, call.body)
    replies = await call.world.search(body.queries, limit=body.limit, snippet_words=body.snippet_words, occasion=body.occasion)
    told, of_hit = ("query", "status", "latency_s"), ("title", "url", "snippet", "date", "score")
    return {"replies": [_fields(one, *told) | {"hits": [_fields(hit, *of_hit) for hit in one.hits]} for one in replies]}


async def _native_visit(call: Call) -> object:
    body = parse(VisitBody, call.body)
    replies = await call.world.visit(body.urls, body.goal, max_words=body.max_words, occasion=body.occasion)
    names = ("url", "title", "text", "status", "latency_s", "part", "parts")
    return {"replies": [_fields(reply, *names) for reply in replies]}


def _fields(record: object, *names: str) -> dict[str, Any]:
    return {name: getattr(record, name) for name in names}


# Serper: only organic results exist here, no answer boxes and no knowledge graph; other fields (gl, hl, location) are ignored.
# Failures of the world are HTTP errors, as a live search engine's are.


class SerperQuery(ForeignBody):
    """One search; ``page`` counts from 1."""

    q: str
    num: int = Field(default=10, ge=1, le=100)
    page: int = Field(default=1, ge=1, le=10)

    @property
    def depth(self) -> int:
        return self.num * self.page


def _is_serper(body: Any) -> bool:
    return isinstance(body, list) or (isinstance(body, dict) and "q" in body)


async def _serper_search(call: Call) -> object:
    """One search, or a list of them; those that want as many results are asked of the world together."""
    bodies = call.body if isinstance(call.body, list) else [call.body]
    if not 1 <= len(bodies) <= MAX_QUERIES:
        raise RefusalError(400, f"A batch holds 1 to {MAX_QUERIES} searches, and not {len(bodies):,}: send it in parts.")
    queries = [parse(SerperQuery, body) for body in bodies]

    async def of_depth(depth: int) -> dict[SerperQuery, SearchReply]:
        alike = list(dict.fromkeys(query for query in queries if query.depth == depth))
        return dict(zip(alike, await call.world.search([query.q for query in alike], limit=depth), strict=True))

    found: dict[SerperQuery, SearchReply] = {}
    for replies in await asyncio.gather(*(of_depth(depth) for depth in {query.depth for query in queries})):
        found |= replies
    results = [_serper_reply(query, found[query], call.world.world.name) for query in queries]
    return results if isinstance(call.body, list) else results[0]


def _serper_reply(query: SerperQuery, reply: SearchReply, engine: str) -> dict[str, object]:
    check_served(reply.status)
    organic = [
        {"title": hit.title, "link": hit.url, "snippet": hit.snippet}
        | ({"date": hit.date} if hit.date else {})
        | {"position": position}
        for position, hit in enumerate(reply.hits[query.depth - query.num :], start=1)
    ]
    asked = {"q": query.q, "type": "search", "num": query.num, "page": query.page, "engine": engine}
    return {"searchParameters": asked, "organic": organic, "credits": 0}


# Jina Reader: a page as Markdown, its address after the reader's own. The address is taken from the request line as it was
# sent, so that parentheses, escapes, query strings and a doubled slash survive. ``POST / {"url"}`` serves addresses with
# fragments. The reply is text, or JSON for clients that accept ``application/json``.


def target_url(raw_path: str, query: str) -> str:
    """The page's address from the raw path (escapes as sent) and query string of a request to the reader.

    An address escaped as a whole is unescaped once: ``/r/https%3A%2F%2Fa.example%2Fb`` is ``https://a.example/b``.
    """
    text = _READER.sub("", raw_path, count=1)
    if not _SCHEME.match(text):
        whole = unquote(text)
        text = whole if _SCHEME.match(whole) else text
    if query:
        text = f"{text}?{query}"
    return _SCHEME.sub(lambda found: f"{found[1]}://", text, count=1)


async def _jina_read(call: Call) -> Response:
    url = _target(call.request)
    if not url:
        raise RefusalError(400, "No address was given: put the page's address after /r/.")
    return await _jina_page(call, url)


async def _jina_read_at_root(call: Call) -> Response:
    url = _target(call.request)
    if not _SCHEME.match(url):
        raise no_route("GET")
    return await _jina_page(call, url)


async def _jina_read_body(call: Call) -> Response:
    return await _jina_page(call, parse(literesearcher.UrlBody, call.body).url)


def _target(request: Request) -> str:
    raw: bytes = request.scope.get("raw_path") or request.scope["path"].encode()
    return target_url(raw.decode("latin-1"), request.scope["query_string"].decode("latin-1"))


async def _jina_page(call: Call, url: str) -> Response:
    (reply,) = await call.world.visit([page_address(url)], max_words=call.page_words)
    check_served(reply.status)
    if "application/json" in call.request.headers.get("accept", ""):
        data = {"title": reply.title, "description": "", "url": reply.url, "content": reply.text}
        return JSONResponse({"code": 200, "status": 20000, "data": data})
    return PlainTextResponse(f"Title: {reply.title}\n\nURL Source: {reply.url}\n\nMarkdown Content:\n{reply.text}\n")


# Search-R1: passages of 100 words, whose ``contents`` begin with the title in quotes on a line of its own; here a passage is
# what the world shows of a page for the query, and its ``id`` and ``url`` are the page's address. Its client reads ``result``
# without a look at the status, so a query that a fault hits is one without passages.


class RetrieveBody(ForeignBody):
    """Of ``/retrieve``; without ``topk`` three passages, its client's own number."""

    queries: list[str] = Field(min_length=1, max_length=1_024)
    topk: int | None = Field(default=None, ge=0, le=100)
    return_scores: bool = False


async def _retrieve(call: Call) -> object:
    """Passages for each query, in order."""
    body = parse(RetrieveBody, call.body)
    replies: Sequence[SearchReply] = await call.world.search(body.queries, limit=body.topk or 3)

    async def passage(query: str, hit: SearchHit) -> dict[str, object]:
        (page,) = await call.world.visit([hit.url], query, max_words=PASSAGE_WORDS)
        text = page.text if page.status is ToolStatus.OK else hit.snippet
        document: dict[str, object] = {"id": hit.url, "url": hit.url, "contents": f'"{" ".join(hit.title.split())}"\n{text}'}
        return {"document": document, "score": hit.score} if body.return_scores else document

    return {"result": [list(await asyncio.gather(*(passage(reply.query, hit) for hit in reply.hits))) for reply in replies]}


# ASearcher, as its local retrieval server speaks: Search-R1's /retrieve, and pages. An address whose page cannot be had is
# null: its client takes that for an empty page, and asks ten times more after an HTTP error.


class AccessBody(ForeignBody):
    """Of ``/access``."""

    urls: list[str] = Field(min_length=1, max_length=MAX_QUERIES)


async def _access(call: Call) -> object:
    replies = await call.world.visit(parse(AccessBody, call.body).urls, max_words=call.page_words)
    return {
        "result": [
            {"id": reply.url, "url": reply.url, "title": reply.title, "contents": reply.text}
            if reply.status is ToolStatus.OK
            else None
            for reply in replies
        ]
    }


DIALECTS: dict[str, tuple[Route, ...]] = {
    "native": (
        Route("POST", "/v1/search", _native_search),
        Route("POST", "/v1/visit", _native_visit),
        Route("GET", "/v1/info", _native_info),
    ),
    "serper": (Route("POST", "/search", _serper_search, _is_serper, '"q" (Serper)'),),
    "jina": (
        Route("GET", "/r/{url:path}", _jina_read),
        Route("POST", "/", _jina_read_body),
        Route("GET", "/{url:path}", _jina_read_at_root),
    ),
    "literesearcher": literesearcher.ROUTES,
    "search_r1": (Route("POST", "/retrieve", _retrieve),),
    "asearcher": (Route("POST", "/retrieve", _retrieve), Route("POST", "/access", _access)),
}
MCP = "mcp"  # chosen like a dialect, and not made of routes: `mcp`


def choose(names: Sequence[str]) -> tuple[dict[str, tuple[Route, ...]], bool]:
    """The dialects of these names (none: all), and whether MCP is among them. Raises UserError for an unknown name."""
    known = [*DIALECTS, MCP]
    for name in names:
        if name not in known:
            raise UserError(f"There is no dialect {name!r}: choose among {', '.join(known)}.")
    wanted = names or known
    return {name: routes for name, routes in DIALECTS.items() if name in wanted}, MCP in wanted
