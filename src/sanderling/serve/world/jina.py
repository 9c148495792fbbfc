"""Jina Reader's dialect: a page as Markdown, its address after the reader's own: ``GET /r/<url>`` or ``GET /<url>``.

The address is taken from the request line as it was sent, so that parentheses, escapes, query strings and a doubled slash
survive; an address escaped as a whole is unescaped once. ``POST /`` with ``{"url"}`` serves addresses with fragments. The reply
is text, or JSON for clients that accept ``application/json``.
"""

import re
from urllib.parse import unquote

from pydantic import Field
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response

from sanderling.serve.world.dialect import Asked, Dialect, DialectRoute, ForeignBody, parse
from sanderling.serve.world.refusal import RefusalError, no_route, require_served
from sanderling.world.addresses import page_address
from sanderling.world.contract import VisitReply

_READER = re.compile(r"^/(?:jina/)?(?:r/)?")
_SCHEME = re.compile(r"^(https?):/+", re.IGNORECASE)


class PageBody(ForeignBody):
    """Of ``POST /``."""

    url: str = Field(min_length=1)


def target_url(raw_path: str, query: str) -> str:
    """The page's address from the raw path (escapes as sent) and query string of a request to the reader."""
    text = _READER.sub("", raw_path, count=1)
    if not _SCHEME.match(text):
        whole = unquote(text)
        text = whole if _SCHEME.match(whole) else text
    if query:
        text = f"{text}?{query}"
    return _SCHEME.sub(lambda found: f"{found[1]}://", text, count=1)


async def _read(asked: Asked) -> Response:
    url = _asked_for(asked.request)
    if not url:
        raise RefusalError(400, "No address was given: put the page's address after /r/.")
    return await _page(asked, url)


async def _read_at_root(asked: Asked) -> Response:
    url = _asked_for(asked.request)
    if not _SCHEME.match(url):
        raise no_route("GET")
    return await _page(asked, url)


async def _read_body(asked: Asked) -> Response:
    return await _page(asked, parse(PageBody, asked.body).url)


def _asked_for(request: Request) -> str:
    raw: bytes = request.scope.get("raw_path") or request.scope["path"].encode()
    return target_url(raw.decode("latin-1"), request.scope["query_string"].decode("latin-1"))


async def _page(asked: Asked, url: str) -> Response:
    (reply,) = await asked.calls.visit([page_address(url)], max_words=asked.settings.page_words)
    require_served(reply.status)
    if "application/json" in asked.request.headers.get("accept", ""):
        return JSONResponse(_json(reply))
    return PlainTextResponse(f"Title: {reply.title}\n\nURL Source: {reply.url}\n\nMarkdown Content:\n{reply.text}\n")


def _json(reply: VisitReply) -> dict[str, object]:
    data = {"title": reply.title, "description": "", "url": reply.url, "content": reply.text}
    return {"code": 200, "status": 20000, "data": data}


DIALECT = Dialect(
    "jina",
    "Pages as Jina Reader gives them.",
    (
        DialectRoute("GET", "/r/{url:path}", _read),
        DialectRoute("POST", "/", _read_body),
        DialectRoute("GET", "/{url:path}", _read_at_root),
    ),
)
