"""Serper's dialect: ``POST /search {"q", "num", "page"}``, or a list of such objects, answered with ``organic`` results.

Only organic results exist here: no answer boxes, no knowledge graph. Other fields (``gl``, ``hl``, ``location``) are ignored.
Failures of the world are HTTP errors, as a live search engine's are.
"""

import asyncio
from collections.abc import Sequence
from typing import Any

from pydantic import Field
from starlette.responses import JSONResponse, Response

from sanderling.serve.world.dialect import MOST_QUERIES, Asked, Dialect, DialectRoute, ForeignBody, parse
from sanderling.serve.world.refusal import RefusalError, require_served
from sanderling.world.contract import SearchHit, SearchReply


class SerperQuery(ForeignBody):
    """One search; ``page`` counts from 1."""

    q: str
    num: int = Field(default=10, ge=1, le=100)
    page: int = Field(default=1, ge=1, le=10)

    @property
    def depth(self) -> int:
        """How many results reach to the end of the page."""
        return self.num * self.page


def is_serper(body: Any) -> bool:
    """Whether a body of ``/search`` is Serper's: it has ``q``, or is a list."""
    return isinstance(body, list) or (isinstance(body, dict) and "q" in body)


async def _search(asked: Asked) -> Response:
    if not isinstance(asked.body, list):
        return JSONResponse(await _one(asked, parse(SerperQuery, asked.body)))
    if not 1 <= len(asked.body) <= MOST_QUERIES:
        raise RefusalError(400, f"A batch holds 1 to {MOST_QUERIES} searches, and not {len(asked.body):,}: send it in parts.")
    queries = [parse(SerperQuery, body) for body in asked.body]
    replies = await asyncio.gather(*(_asked_alike(asked, queries, depth) for depth in {query.depth for query in queries}))
    found = {query: reply for alike in replies for query, reply in alike.items()}
    return JSONResponse([_reply(asked, query, found[query]) for query in queries])


async def _one(asked: Asked, query: SerperQuery) -> dict[str, object]:
    (reply,) = (await _asked_alike(asked, [query], query.depth)).values()
    return _reply(asked, query, reply)


async def _asked_alike(asked: Asked, queries: Sequence[SerperQuery], depth: int) -> dict[SerperQuery, SearchReply]:
    """The replies to those queries that want as many results, asked together."""
    alike = list(dict.fromkeys(query for query in queries if query.depth == depth))
    replies = await asked.calls.search([query.q for query in alike], limit=depth)
    return dict(zip(alike, replies, strict=True))


def _reply(asked: Asked, query: SerperQuery, reply: SearchReply) -> dict[str, object]:
    require_served(reply.status)
    return {
        "searchParameters": {
            "q": query.q,
            "type": "search",
            "num": query.num,
            "page": query.page,
            "engine": asked.calls.world.name,
        },
        "organic": [_result(position, hit) for position, hit in enumerate(reply.hits[query.depth - query.num :], start=1)],
        "credits": 0,
    }


def _result(position: int, hit: SearchHit) -> dict[str, object]:
    result: dict[str, object] = {"title": hit.title, "link": hit.url, "snippet": hit.snippet}
    if hit.date:
        result["date"] = hit.date
    return result | {"position": position}


DIALECT = Dialect(
    "serper",
    "Google results as Serper gives them.",
    (DialectRoute("POST", "/search", _search, is_serper, '"q" (Serper)'),),
)
