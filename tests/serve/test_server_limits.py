"""Who may ask, how many at a time, and for how long; what is counted."""

import asyncio
import base64
import socket

import httpx
import pytest

from sanderling.core.errors import UserError
from sanderling.serve.app import create_app
from sanderling.serve.dialects import DIALECTS, choose
from sanderling.serve.server import listen
from sanderling.serve.settings import ServerSettings, is_loopback

SEARCH = {"queries": ["film"]}


def error(reply, status: int) -> str:
    assert reply.status_code == status and set(reply.json()) == {"error"}
    return reply.json()["error"]


def basic(token: str) -> str:
    return "Basic " + base64.b64encode(f"any:{token}".encode()).decode()


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Authorization": "Bearer wrong"},
        {"Authorization": "Bearer s3crét "[:12]},
        {"Authorization": "Bearer"},
        {"Authorization": "s3cret"},
        {"X-API-KEY": "s3cre"},
        {"Authorization": "Basic !!!"},
        {"Authorization": basic("")},
    ],
)
def test_a_token_is_asked_for_everywhere_but_at_health(client_with, headers):
    client = client_with(token="s3cret", host="0.0.0.0")
    headers = {name: value.encode("utf-8") for name, value in headers.items()}
    for method, path in (("POST", "/v1/search"), ("GET", "/metrics"), ("POST", "/mcp"), ("GET", "/r/https://a.example/")):
        reply = client.request(method, path, headers=headers)
        assert "token" in error(reply, 401) and reply.headers["www-authenticate"] == "Bearer"
    assert client.get("/health", headers=headers).json() == {"status": "ok", "world": "small"}


@pytest.mark.parametrize(
    "headers", [{"Authorization": "Bearer s3cret"}, {"X-API-KEY": "s3cret"}, {"Authorization": basic("s3cret")}]
)
def test_a_token_has_three_ways_in(client_with, headers):
    client = client_with(token="s3cret", host="0.0.0.0")
    assert client.post("/v1/search", json=SEARCH, headers=headers).status_code == 200
    assert client.post("/v1/search", json=SEARCH, headers=headers | {"Host": "world.example"}).status_code == 200


@pytest.mark.parametrize("headers", [{"Host": "evil.example"}, {"Origin": "https://evil.example"}, {"Host": "["}])
def test_other_sites_cannot_read_a_world_on_this_machine(client, headers):
    assert "this machine" in error(client.post("/v1/search", json=SEARCH, headers=headers), 403)


@pytest.mark.parametrize("host", ["localhost:8018", "127.0.0.1", "[::1]:8018"])
def test_this_machine_has_several_names(client, host):
    reply = client.post("/v1/search", json=SEARCH, headers={"Host": host, "Origin": "http://localhost:3000"})
    assert reply.status_code == 200


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


async def test_a_body_that_never_ends_is_503(world):
    async def slowly():
        yield b"{"
        await asyncio.sleep(30)

    async with asgi(world, timeout_s=0.1) as client:
        assert error(await client.post("/v1/search", content=slowly()), 503)


def test_everything_is_counted(client_with):
    client = client_with(max_body_bytes=1_000)
    client.post("/v1/search", json={"queries": ["film", "..."]})
    client.get("/r/https://no.example/")
    client.post("/v1/search", content=b"x" * 2_000)
    client.post("/v1/search", content=b"x")
    client.get("/health")
    reply = client.get("/metrics")
    assert reply.headers["content-type"].startswith("text/plain; version=0.0.4")
    samples = dict(line.rsplit(" ", 1) for line in reply.text.splitlines() if not line.startswith("#"))
    seconds = {name: float(samples.pop(f"sanderling_{name}_seconds_total")) for name in ("http_request", "world_call")}
    assert all(value > 0 for value in seconds.values())
    assert samples == {
        'sanderling_http_requests_total{route="/v1/search",status="200"}': "1",
        'sanderling_http_requests_total{route="/v1/search",status="400"}': "1",
        'sanderling_http_requests_total{route="other",status="413"}': "1",
        'sanderling_http_requests_total{route="/r/{url:path}",status="404"}': "1",
        'sanderling_http_requests_total{route="/health",status="200"}': "1",
        'sanderling_http_refused_total{reason="body"}': "1",
        'sanderling_world_calls_total{call="search",status="ok"}': "1",
        'sanderling_world_calls_total{call="search",status="empty"}': "1",
        'sanderling_world_calls_total{call="visit",status="not_found"}': "1",
    }
    types = {line.split()[2]: line.split()[3] for line in reply.text.splitlines() if line.startswith("# TYPE")}
    assert set(types.values()) == {"counter"} and all(name.endswith("_total") for name in types)


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


def test_two_servers_share_nothing(client_with, held):
    one, other = client_with(), client_with(dialects=("native",))
    one.post("/v1/search", json=SEARCH)
    assert "world_calls_total{" not in other.get("/metrics").text
    assert other.post("/search", json={"q": "x"}).status_code in (404, 405)


async def test_bodies_that_are_on_their_way_shut_nobody_out(world):
    """With one place, a body that does not end leaves it to others; four such bodies are all that may wait."""
    app = create_app(world, ServerSettings(max_concurrent=1, timeout_s=30))

    async def slow():
        yield b'{"queries": '
        await asyncio.Event().wait()

    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://127.0.0.1:8018") as client:
        waiting = [asyncio.create_task(client.post("/v1/search", content=slow())) for _ in range(3)]
        for _ in range(50):
            await asyncio.sleep(0)
        assert (await client.post("/v1/search", json=SEARCH)).status_code == 200
        waiting.append(asyncio.create_task(client.post("/v1/search", content=slow())))
        for _ in range(50):
            await asyncio.sleep(0)
        assert (await client.post("/v1/search", json=SEARCH)).status_code == 429
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
        assert (await client.post("/v1/search", json=SEARCH)).status_code == 200
