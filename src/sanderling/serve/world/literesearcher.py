"""LiteResearcher's dialect: the routes of its retrieval backend, and of the browse service that its RL tool calls (``/query``).

Requests and replies have the fields of its own servers. Fields that speak of its engine (weights, times of embedding and
Milvus) hold what the request said, or zero. A missing page is no HTTP error, neither in ``/web_parser`` nor in ``/query``;
there the words "Cache miss" in ``error`` are how its RL tool tells it from a broken service.
"""

from time import perf_counter
from typing import Any, Literal

from pydantic import Field
from starlette.responses import JSONResponse, Response

from sanderling.core.profiles import ResultLayout
from sanderling.core.types import ToolStatus
from sanderling.serve.world.dialect import MOST_QUERIES, MOST_URLS, Asked, Dialect, DialectRoute, ForeignBody, parse
from sanderling.serve.world.refusal import RefusalError, require_any_served, require_served, sentence_of
from sanderling.tools.layouts import visit_text
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

    queries: list[str] = Field(min_length=1, max_length=MOST_QUERIES)


class UrlBody(ForeignBody):
    """Of ``/check_url`` and ``/web_parser``."""

    url: str = Field(min_length=1)


class UrlsBody(ForeignBody):
    """Of ``/batch_check_url``."""

    urls: list[str] = Field(min_length=1, max_length=MOST_URLS)


class BrowseBody(ForeignBody):
    """Of ``/query``: the goal has either name."""

    url: str = Field(min_length=1)
    goal: str | None = None
    question: str | None = None


def is_literesearcher(body: Any) -> bool:
    """Whether a body of ``/search`` is LiteResearcher's: it has ``query``."""
    return isinstance(body, dict) and "query" in body


async def _search(asked: Asked) -> Response:
    body, began = parse(SearchBody, asked.body), perf_counter()
    (reply,) = await asked.calls.search([body.query], limit=body.limit)
    require_served(reply.status)
    return JSONResponse({"results": _results(reply), "total": len(reply.hits)} | _engine(body, began))


async def _batch_search(asked: Asked) -> Response:
    body, began = parse(BatchSearchBody, asked.body), perf_counter()
    replies = await asked.calls.search(body.queries, limit=body.limit)
    require_any_served([reply.status for reply in replies])
    results = [{"query": reply.query, "results": _results(reply), "total": len(reply.hits)} for reply in replies]
    return JSONResponse({"query_results": results, "total_queries": len(results)} | _engine(body, began))


async def _check_url(asked: Asked) -> Response:
    body = parse(UrlBody, asked.body)
    (exists,) = await _exist(asked, [body.url])
    return JSONResponse({"exists": exists, "url": body.url})


async def _batch_check_url(asked: Asked) -> Response:
    body, began = parse(UrlsBody, asked.body), perf_counter()
    results = dict(zip(body.urls, await _exist(asked, body.urls), strict=True))
    counts = {"total": len(body.urls), "found": sum(results.values()), "query_time": perf_counter() - began}
    return JSONResponse({"results": results} | counts)


async def _web_parser(asked: Asked) -> Response:
    body = parse(UrlBody, asked.body)
    (reply,) = await asked.calls.visit([page_address(body.url)], max_words=asked.settings.page_words)
    if reply.status is not ToolStatus.OK:
        return JSONResponse({"found": False, "url": body.url, "title": "", "text": ""})
    return JSONResponse({"found": True, "url": reply.url, "title": reply.title, "text": reply.text})


async def _browse(asked: Asked) -> Response:
    body = parse(BrowseBody, asked.body)
    goal = body.goal or body.question
    if not goal:
        raise RefusalError(400, "The body names no goal: say what to look for in goal or question.")
    (reply,) = await asked.calls.visit([page_address(body.url)], goal, max_words=BROWSE_WORDS)
    text = visit_text([reply], goal, ResultLayout.MARKDOWN)  # the very text that the agent is trained and measured on
    served = reply.status is ToolStatus.OK
    return JSONResponse(
        {"success": served, "result": text, "from_cache": served, "error": None if served else _failure(reply.status)}
    )


def _failure(status: ToolStatus) -> str:
    missing = status in (ToolStatus.NOT_FOUND, ToolStatus.GONE)
    return f"{'Cache miss: ' if missing else ''}{sentence_of(status)}"


async def _exist(asked: Asked, urls: list[str]) -> list[bool]:
    """Whether the world holds a page: one that is there but unreadable counts."""
    there = (ToolStatus.OK, ToolStatus.NOT_TEXT, ToolStatus.PAYWALLED)
    return [reply.status in there for reply in await asked.calls.visit([page_address(url) for url in urls], max_words=1)]


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


DIALECT = Dialect(
    "literesearcher",
    "LiteResearcher's retrieval backend and browse service.",
    (
        DialectRoute("POST", "/search", _search, is_literesearcher, '"query" (LiteResearcher)'),
        DialectRoute("POST", "/batch_search", _batch_search),
        DialectRoute("POST", "/check_url", _check_url),
        DialectRoute("POST", "/batch_check_url", _batch_check_url),
        DialectRoute("POST", "/web_parser", _web_parser),
        DialectRoute("POST", "/query", _browse),
    ),
)
