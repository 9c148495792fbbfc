"""Who may ask, how many at a time, and for how long; what is counted."""

import asyncio
import socket

import httpx
import pytest

from sanderling.core.errors import UserError
from sanderling.serve.app import create_app, listen
from sanderling.serve.dialects import DIALECTS, choose
from sanderling.serve.limits import ServerSettings, is_loopback

SEARCH = {"queries": ["film"]}


def error(reply, status: int) -> str:
    assert reply.status_code == status and set(reply.json()) == {"error"}
    return reply.json()["error"]


def test_listening_elsewhere_needs_a_token(world):
    for host in ("0.0.0.0", "192.0.2.7", "::", "world.example"):
        assert not is_loopback(host)
        with pytest.raises(UserError, match="--token-env"):
            create_app(world, ServerSettings(host=host))
        create_app(world, ServerSettings(host=host, token="t"))
    for host in ("127.0.0.1", "127.8.8.8", "localhost", "::1", "[::1]"):
        assert is_loopback(host)


def test_an_unknown_dialect_is_refused(world):
    with pytest.raises(UserError, match="serper"):
        create_app(world, ServerSettings(dialects=("serpr",)))
    dialects, mcp = choose(())
    assert list(dialects) == list(DIALECTS) and mcp


def asgi(world, **settings) -> httpx.AsyncClient:
    app = create_app(world, ServerSettings(**settings))
    return httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://127.0.0.1")


async def test_too_many_at_once_are_429_and_health_answers_all_the_same(held):
    async with asgi(held, max_concurrent=2, threads=2) as client:
        first = [asyncio.create_task(client.post("/v1/search", json=SEARCH)) for _ in range(2)]
        await asyncio.to_thread(lambda: [held.asked.acquire(timeout=20) for _ in range(2)])
        reply = await client.post("/v1/search", json=SEARCH)
        assert "Too many" in error(reply, 429) and reply.headers["retry-after"] == "1"
        assert (await client.get("/health")).status_code == 200
        held.released.set()
        assert [reply.status_code for reply in await asyncio.gather(*first)] == [200, 200]
        assert (await client.post("/v1/search", json=SEARCH)).status_code == 200


async def test_too_slow_is_503_and_what_was_not_begun_is_dropped(held):
    async with asgi(held, timeout_s=0.1, threads=1) as client:
        reply = await client.post("/v1/search", json={"queries": ["a"] * 24})
        assert "too long" in error(reply, 503)
        held.released.set()
        assert (await client.post("/v1/search", json=SEARCH)).status_code == 200
        assert held.calls == 8 + 1, "one part of the queries, and the new one"


async def test_replies_are_sent_at_once():
    """Nagle's algorithm is off on accepted connections: with it on, every reply took 44 ms."""
    no_delay = asyncio.Queue()

    async def accepted(_, writer):
        await no_delay.put(writer.get_extra_info("socket").getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
        writer.close()

    listening = listen(ServerSettings(port=0))
    async with await asyncio.start_server(accepted, sock=listening) as server:
        _, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
        assert await no_delay.get() != 0
        writer.close()
