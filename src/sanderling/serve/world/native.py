"""The native dialect: everything a world can be asked, masks and episode seeds included.

``POST /v1/search`` and ``POST /v1/visit`` answer a reply for each query or address, in order, each with the world's own status;
a page that is missing is therefore no HTTP error. ``GET /v1/info`` says what is served.
"""

from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import JSONResponse, Response

from sanderling.serve.world.dialect import MOST_QUERIES, MOST_URLS, Asked, Dialect, DialectRoute, parse
from sanderling.world.contract import Occasion, SearchReply, VisitReply


class _Body(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    masked: frozenset[str] = Field(default=frozenset(), max_length=MOST_URLS)
    episode_seed: int = Field(default=0, ge=-(1 << 63), lt=1 << 63)
    occurrence: int = Field(default=0, ge=0, lt=1 << 31)

    @property
    def occasion(self) -> Occasion:
        """What the world is told beside the call."""
        return Occasion(self.masked, self.episode_seed, self.occurrence)


class SearchBody(_Body):
    """Of ``/v1/search``."""

    queries: list[str] = Field(min_length=1, max_length=MOST_QUERIES)
    limit: int = Field(default=10, ge=1, le=100)
    snippet_words: int = Field(default=30, ge=1, le=1_000)


class VisitBody(_Body):
    """Of ``/v1/visit``."""

    urls: list[str] = Field(min_length=1, max_length=MOST_QUERIES)
    goal: str = ""
    max_words: int = Field(default=2_000, ge=1, le=1_000_000)


async def _search(asked: Asked) -> Response:
    body = parse(SearchBody, asked.body)
    replies = await asked.calls.search(
        body.queries,
        limit=body.limit,
        snippet_words=body.snippet_words,
        occasion=body.occasion,
    )
    return JSONResponse({"replies": [search_reply(reply) for reply in replies]})


async def _visit(asked: Asked) -> Response:
    body = parse(VisitBody, asked.body)
    replies = await asked.calls.visit(body.urls, body.goal, max_words=body.max_words, occasion=body.occasion)
    return JSONResponse({"replies": [visit_reply(reply) for reply in replies]})


async def _info(asked: Asked) -> Response:
    world = asked.calls.world
    return JSONResponse({"name": world.name, "fingerprint": world.fingerprint, "page_count": world.page_count})


def search_reply(reply: SearchReply) -> dict[str, object]:
    """A reply as JSON: the fields of `contract.SearchReply`."""
    hits = [
        {"title": hit.title, "url": hit.url, "snippet": hit.snippet, "date": hit.date, "score": hit.score} for hit in reply.hits
    ]
    return {"query": reply.query, "status": reply.status.value, "latency_s": reply.latency_s, "hits": hits}


def visit_reply(reply: VisitReply) -> dict[str, object]:
    """A reply as JSON: the fields of `contract.VisitReply`."""
    return {
        "url": reply.url,
        "title": reply.title,
        "text": reply.text,
        "status": reply.status.value,
        "latency_s": reply.latency_s,
        "part": reply.part,
        "parts": reply.parts,
    }


DIALECT = Dialect(
    "native",
    "Everything a world can be asked.",
    (
        DialectRoute("POST", "/v1/search", _search),
        DialectRoute("POST", "/v1/visit", _visit),
        DialectRoute("GET", "/v1/info", _info),
    ),
)
