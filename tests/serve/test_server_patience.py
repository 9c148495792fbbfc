"""A head that never ends, and a reply that is never read, cost a client the connection, and nobody else anything."""

import asyncio
import json
import socket

import pytest
import uvicorn

from sanderling.serve import server as patience
from sanderling.serve.app import create_app
from sanderling.serve.server import listen
from sanderling.serve.settings import ServerSettings

WHOLE = b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"


@pytest.fixture
async def port(world, monkeypatch):
    monkeypatch.setattr(patience, "HEAD_S", 0.2)
    settings = ServerSettings(port=0)
    listening = listen(settings)
    config = uvicorn.Config(
        create_app(world, settings), http=patience.TimedProtocol, log_level="error", timeout_graceful_shutdown=1
    )
    server = uvicorn.Server(config)
    running = asyncio.create_task(server.serve(sockets=[listening]))
    yield listening.getsockname()[1]  # it listens: who comes before it is ready waits in the backlog
    server.should_exit = True
    await running


async def rest(reader: asyncio.StreamReader) -> bytes:
    """All that comes until the server closes the connection; a server that never does fails the test."""
    try:
        return await asyncio.wait_for(reader.read(), 30)
    except ConnectionError:  # closed with bytes of ours unread
        return b""


@pytest.mark.parametrize("begun", [b"", b"GET /health HT", WHOLE[:-2]])
async def test_a_head_that_does_not_come_is_given_up(port, begun):
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(begun)
    assert b"200" not in await rest(reader)
    writer.close()


async def test_dribbling_does_not_wind_the_clock_back(port):
    reader, writer = await asyncio.open_connection("127.0.0.1", port)

    async def dribble():
        writer.write(WHOLE[:-2] + b"X-A: ")
        while not writer.is_closing():
            writer.write(b"a")
            await asyncio.sleep(0.02)

    dribbling = asyncio.create_task(dribble())
    try:
        assert b"200" not in await rest(reader)
    finally:
        dribbling.cancel()
        writer.close()


async def test_a_kept_connection_is_served_again_and_its_second_head_has_its_time_too(port, monkeypatch):
    monkeypatch.setattr(patience, "HEAD_S", 1_000.0)  # no clock that was started for the first head ends early
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    for _ in range(2):
        writer.write(WHOLE)
        assert (await asyncio.wait_for(reader.readline(), 30)).startswith(b"HTTP/1.1 200")
        while (await asyncio.wait_for(reader.readline(), 30)) not in (b"\r\n", b""):
            pass
        await reader.readexactly(len(b'{"status":"ok","world":"small"}'))
        monkeypatch.setattr(patience, "HEAD_S", 0.05)  # a head that comes in one piece never waits for the rest
        await asyncio.sleep(0.3)  # idle between requests: that is another limit's affair
    writer.write(WHOLE[:20])
    assert b"200" not in await rest(reader)
    writer.close()


async def test_a_reply_that_is_never_read_is_given_up(port, monkeypatch):
    """Its bytes wait in the server's memory; the request's own time is long over then."""
    monkeypatch.setattr(patience, "UNREAD_S", 0.2)
    monkeypatch.setattr(patience, "HEAD_S", 1_000.0)
    aborted = asyncio.Event()
    lost = patience.TimedProtocol.connection_lost

    def watched(self, exc):
        lost(self, exc)
        aborted.set()

    monkeypatch.setattr(patience.TimedProtocol, "connection_lost", watched)
    connection = socket.socket()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
    connection.setblocking(False)
    loop = asyncio.get_running_loop()
    await loop.sock_connect(connection, ("127.0.0.1", port))
    body = json.dumps({"urls": ["https://sea.example/ships"] * 100, "max_words": 1_000_000}).encode()
    head = b"POST /v1/visit HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % len(body)
    for _ in range(12):  # one after the other, as many as the system's own buffers hold and more
        await loop.sock_sendall(connection, head + body)
    await asyncio.wait_for(aborted.wait(), 30)
    assert aborted.is_set()
    connection.close()
