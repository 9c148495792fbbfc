"""Search-R1's dialect: ``POST /retrieve {"queries", "topk", "return_scores"}``, answered with passages.

Its corpus holds passages of 100 words, whose ``contents`` begin with the title in quotes on a line of its own. Here a
passage is what the world shows of a page for the query, of the same length, and its ``id`` and ``url`` are the page's
address. Its client reads ``result`` without a look at the status, so a query that a fault hits is one without passages.
"""

import asyncio

from pydantic import Field
from starlette.responses import JSONResponse, Response

from sanderling.core.types import ToolStatus
from sanderling.serve.world.dialect import Asked, Dialect, DialectRoute, ForeignBody, parse
from sanderling.world.contract import SearchHit

PASSAGE_WORDS = 100


class RetrieveBody(ForeignBody):
    """Of ``/retrieve``; without ``topk`` three passages, its client's own number."""

    queries: list[str] = Field(min_length=1, max_length=1_024)
    topk: int | None = Field(default=None, ge=0, le=100)
    return_scores: bool = False


async def retrieve(asked: Asked) -> Response:
    """Passages for each query, in order."""
    body = parse(RetrieveBody, asked.body)
    replies = await asked.calls.search(body.queries, limit=body.topk or 3)
    result = [
        list(await asyncio.gather(*(_passage(asked, reply.query, hit, body.return_scores) for hit in reply.hits)))
        for reply in replies
    ]
    return JSONResponse({"result": result})


async def _passage(asked: Asked, query: str, hit: SearchHit, scored: bool) -> dict[str, object]:
    (page,) = await asked.calls.visit([hit.url], query, max_words=PASSAGE_WORDS, paced=False)
    text = page.text if page.status is ToolStatus.OK else hit.snippet
    document: dict[str, object] = {"id": hit.url, "url": hit.url, "contents": f'"{" ".join(hit.title.split())}"\n{text}'}
    return {"document": document, "score": hit.score} if scored else document


DIALECT = Dialect("search_r1", "Passages as Search-R1's retriever gives them.", (DialectRoute("POST", "/retrieve", retrieve),))
