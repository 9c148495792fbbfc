"""The HTTP under a connection to an MCP server: bounded, and each failure of it told as the answer to the request it met.

`mcp`'s client ends altogether where a request meets a closed door, and says of a refusal only that it was one. Here both become
a JSON-RPC error with a sentence, so that other calls go on, and the next finds a server that was started again.
"""

import json
from contextlib import suppress
from typing import Any

import mcp_types as types
from httpx2 import AsyncBaseTransport, AsyncClient, HTTPError, Limits, Request, Response, Timeout
from pydantic_core import from_json

from sanderling.tools.mcp.wire import mended
from sanderling.world.addresses import is_here

NO_REPLY, SESSION_OVER = -32_050, -32_051  # codes of errors that are made here
_CONNECT_S = 10.0
_SESSION = "mcp-session-id"
_PROTOCOL = (400, 404, 405, 409, 422)  # statuses that come with an error of the protocol, in which its client reads
_SAID = {
    401: "it asks for a token, or for another one: name it in the server's setting token, a dock's in SANDERLING_DOCK_TOKEN",
    403: "it does not let us in: look at its token and at its allowed hosts",
    404: "there is nothing at this address: often it ends in /mcp",
    405: "it takes no requests at this address: often it ends in /mcp",
    429: "it has too many requests at once",
}


def http_client(url: str, token: str, most: int) -> AsyncClient:
    """A client for one server; ``most``: bytes of a reply. A call may take as long as the caller lets it."""
    headers = {"Accept-Encoding": "identity"} | ({"Authorization": f"Bearer {token}"} if token else {})
    many = Limits(max_connections=None, max_keepalive_connections=100)  # a long call holds up no other
    no_proxy = is_here(url)
    client = AsyncClient(headers=headers, timeout=Timeout(None, connect=_CONNECT_S), limits=many, trust_env=not no_proxy)
    client._transport = _Told(client._transport, most)
    client._mounts = {pattern: inner and _Told(inner, most) for pattern, inner in client._mounts.items()}
    return client


class _Told(AsyncBaseTransport):
    """A transport whose failures are answers."""

    def __init__(self, inner: AsyncBaseTransport, most: int) -> None:
        self._inner, self._most = inner, most

    async def handle_async_request(self, request: Request) -> Response:
        if request.method != "POST":
            return await self._inner.handle_async_request(request)
        try:
            return await self._read(request, await self._inner.handle_async_request(request))
        except HTTPError as error:
            words = " ".join(str(error).split())[:300] or type(error).__name__
            return _error(NO_REPLY, f"it cannot be reached ({words})")

    async def _read(self, request: Request, response: Response) -> Response:
        """The response with its body, or an error that says what is wrong with it; a stream stays one."""
        kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
        status = response.status_code
        if response.headers.get("content-encoding", "identity").strip().lower() != "identity":
            await response.aclose()
            return _error(NO_REPLY, "it compresses its replies, unasked")
        if status < 300 and kind == "text/event-stream":
            return response  # whose events are bounded by whoever reads them
        body = await self._body(response)
        if body is None:
            return _error(NO_REPLY, f"it sent more than {self._most:,} bytes")
        if status >= 400:
            error, said = _said_of(body)
            if _SESSION in request.headers and (status == 404 or (status == 400 and "session" in said.lower())):
                return _error(SESSION_OVER, "its session is over: it was started again, or waited too long")
            if error and status in _PROTOCOL:
                return _answer(error)
            if status == 413:
                return _error(types.INVALID_PARAMS, said or "The arguments are too long: send less at a time")
            if request.url.path.rstrip("/").endswith("/sse"):
                return _error(NO_REPLY, f"it answers {status}: addresses in /sse are of 2024; start it with streamable HTTP")
            told = (status != 401 and said) or _SAID.get(status, "its log may say why")
            return _error(NO_REPLY, f"it answers {status}: {told}")
        if status == 200 and kind != "application/json":
            what = "a web page" if kind == "text/html" else kind or "something without a type"
            return _error(NO_REPLY, f"it answers {what}, which is no MCP: often the address ends in /mcp")
        if _is_for_another(await request.aread(), body):
            return _error(NO_REPLY, "it answers another request than the one it was sent")
        return Response(status, headers=response.headers, content=mended(body))

    async def _body(self, response: Response) -> bytes | None:
        body = bytearray()
        try:
            async for chunk in response.stream:  # pyright: ignore[reportGeneralTypeIssues]
                body += chunk
                if len(body) > self._most:
                    return None
        finally:
            await response.aclose()
        return bytes(body)

    async def aclose(self) -> None:
        await self._inner.aclose()


def _is_for_another(request: bytes, reply: bytes) -> bool:
    """Whether whoever waits for this reply would wait for ever."""
    with suppress(ValueError, AttributeError):  # it is no message at all, which its reader tells
        asked, answers = from_json(request).get("id"), from_json(reply).get("id")
        return asked is not None and str(asked) != str(answers)
    return False


def _said_of(body: bytes) -> tuple[dict[str, Any], str]:
    """The JSON-RPC error of a refusal, if it is one, and its words; our own servers' and others' JSON has words, too."""
    try:
        found = json.loads(body).get("error")
    except (ValueError, RecursionError, AttributeError):
        return {}, ""
    if isinstance(found, str):
        return {}, " ".join(found.split())[:300]
    if not isinstance(found, dict) or not isinstance(found.get("code"), int):
        return {}, ""
    return found, " ".join(str(found.get("message", "")).split())[:300].rstrip(".")


def _error(code: int, sentence: str) -> Response:
    return _answer({"code": code, "message": sentence})


def _answer(error: dict[str, Any]) -> Response:
    return Response(502, json={"jsonrpc": "2.0", "id": None, "error": error})
