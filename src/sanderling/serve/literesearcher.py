"""LiteResearcher's dialect: the routes of its retrieval backend, and of the browse service that its RL tool calls (``/query``).

Requests and replies have the fields of its own servers. Fields that speak of its engine (weights, times of embedding and
Milvus) hold what the request said, or zero. A missing page is no HTTP error, neither in ``/web_parser`` nor in ``/query``;
there the words "Cache miss" in ``error`` are how its RL tool tells it from a broken service. Its inference agent asks an
address itself before any reader: only a machine without other network keeps it within the world.
"""

from time import perf_counter
from typing import Any, Literal

from pydantic import Field

from sanderling.core.profiles import ResultLayout
from sanderling.core.types import ToolStatus
from sanderling.serve.calls import MAX_QUERIES, MAX_URLS, Call, ForeignBody, RefusalError, Route, check_served, failure, parse
from sanderling.tools.world_tools import visit_text
from sanderling.world.addresses import page_address
from sanderling.world.contract import SearchReply

BROWSE_WORDS = 2_000


class _Ranking(ForeignBody):
    limit: int = Field(default=10, ge=1, le=50)
    search_type: Literal["hybrid", "dense", "sparse"] = "hybrid"
    sparse_weight: float = Field(default=0.7, ge=0, le=2)
    dense_weight: float = Field(default=1.0, ge=0, le=2)


class SearchBody(_Ranking):
    """Of ``/search``."""

    query: str


class BatchSearchBody(_Ranking):
    """Of ``/batch_search``."""

    queries: list[str] = Field(min_length=1, max_length=MAX_QUERIES)


class UrlBody(ForeignBody):
    """Of ``/check_url`` and ``/web_parser``, and of Jina Reader's ``POST /``."""

    url: str = Field(min_length=1)


class UrlsBody(ForeignBody):
    """Of ``/batch_check_url``."""

    urls: list[str] = Field(min_length=1, max_length=MAX_URLS)


class BrowseBody(ForeignBody):
    """Of ``/query``: the goal has either name."""

    url: str = Field(min_length=1)
    goal: str | None = None
    question: str | None = None


def _is_literesearcher(body: Any) -> bool:
    return isinstance(body, dict) and "query" in body


async def _search(call: Call) -> object:
    body, began = parse(SearchBody, call.body), perf_counter()
    (reply,) = await call.world.search([body.query], limit=body.limit)
    check_served(reply.status)
    return {"results": _results(reply), "total": len(reply.hits)} | _engine(body, began)


async def _batch_search(call: Call) -> object:
    body, began = parse(BatchSearchBody, call.body), perf_counter()
    replies = await call.world.search(body.queries, limit=body.limit)
    check_served(*(reply.status for reply in replies))
    results = [{"query": reply.query, "results": _results(reply), "total": len(reply.hits)} for reply in replies]
    return {"query_results": results, "total_queries": len(results)} | _engine(body, began)


async def _check_url(call: Call) -> object:
    body = parse(UrlBody, call.body)
    (exists,) = await _exist(call, [body.url])
    return {"exists": exists, "url": body.url}


async def _batch_check_url(call: Call) -> object:
    body, began = parse(UrlsBody, call.body), perf_counter()
    results = dict(zip(body.urls, await _exist(call, body.urls), strict=True))
    counts = {"total": len(body.urls), "found": sum(results.values()), "query_time": perf_counter() - began}
    return {"results": results} | counts


async def _web_parser(call: Call) -> object:
    body = parse(UrlBody, call.body)
    (reply,) = await call.world.visit([page_address(body.url)], max_words=call.page_words)
    if reply.status is not ToolStatus.OK:
        return {"found": False, "url": body.url, "title": "", "text": ""}
    return {"found": True, "url": reply.url, "title": reply.title, "text": reply.text}


async def _browse(call: Call) -> object:
    body = parse(BrowseBody, call.body)
    goal = body.goal or body.question
    if not goal:
        raise RefusalError(400, "The body names no goal: say what to look for in goal or question.")
    (reply,) = await call.world.visit([page_address(body.url)], goal, max_words=BROWSE_WORDS)
    text = visit_text([reply], goal, ResultLayout.MARKDOWN)  # the very text that the agent is trained and measured on
    served = reply.status is ToolStatus.OK
    missing = "Cache miss: " if reply.status in (ToolStatus.NOT_FOUND, ToolStatus.GONE) else ""
    error = None if served else f"{missing}{failure(reply.status)}"
    return {"success": served, "result": text, "from_cache": served, "error": error}


async def _exist(call: Call, urls: list[str]) -> list[bool]:
    """Whether the world holds a page: one that is there but unreadable counts."""
    there = (ToolStatus.OK, ToolStatus.NOT_TEXT, ToolStatus.PAYWALLED)
    return [reply.status in there for reply in await call.world.visit([page_address(url) for url in urls], max_words=1)]


def _results(reply: SearchReply) -> list[dict[str, object]]:
    return [{"link": hit.url, "title": hit.title, "snippet": hit.snippet, "score": hit.score} for hit in reply.hits]


def _engine(body: _Ranking, began: float) -> dict[str, object]:
    return {
        "search_time": perf_counter() - began,
        "embedding_time": 0.0,
        "milvus_time": 0.0,
        "search_type": body.search_type,
        "sparse_weight": body.sparse_weight,
        "dense_weight": body.dense_weight,
        "server_id": "sanderling",
        "vector_dtype": "none",
        "index_type": "BM25",
    }


ROUTES = (
    Route("POST", "/search", _search, _is_literesearcher, '"query" (LiteResearcher)'),
    Route("POST", "/batch_search", _batch_search),
    Route("POST", "/check_url", _check_url),
    Route("POST", "/batch_check_url", _batch_check_url),
    Route("POST", "/web_parser", _web_parser),
    Route("POST", "/query", _browse),
)
