"""ASearcher's dialect, as its local retrieval server speaks it: Search-R1's ``POST /retrieve``, and ``POST /access {"urls"}``.

An address whose page cannot be had is null; its client takes that for an empty page, and an HTTP error for a server to be asked
ten times more.
"""

from pydantic import Field
from starlette.responses import JSONResponse, Response

from sanderling.core.types import ToolStatus
from sanderling.serve.world.dialect import MOST_QUERIES, Asked, Dialect, DialectRoute, ForeignBody, parse
from sanderling.serve.world.search_r1 import retrieve
from sanderling.world.contract import VisitReply


class AccessBody(ForeignBody):
    """Of ``/access``."""

    urls: list[str] = Field(min_length=1, max_length=MOST_QUERIES)


async def _access(asked: Asked) -> Response:
    body = parse(AccessBody, asked.body)
    replies = await asked.calls.visit(body.urls, max_words=asked.settings.page_words)
    return JSONResponse({"result": [_page(reply) for reply in replies]})


def _page(reply: VisitReply) -> dict[str, object] | None:
    if reply.status is not ToolStatus.OK:
        return None
    return {"id": reply.url, "url": reply.url, "title": reply.title, "contents": reply.text}


DIALECT = Dialect(
    "asearcher",
    "Passages and pages as ASearcher's local server gives them.",
    (DialectRoute("POST", "/retrieve", retrieve), DialectRoute("POST", "/access", _access)),
)
