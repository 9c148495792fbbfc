"""Who may ask, how many at a time; every dialect answers its own clients; whatever is sent, one sentence in JSON."""

import asyncio
import json
import os
import re
import socket
import subprocess
import sys

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from serving import FailingWorld
from typer.testing import CliRunner

from sanderling.agent.places import PlaceConfig, opened_places
from sanderling.cli.ask import ask
from sanderling.cli.world import app
from sanderling.core.errors import UserError
from sanderling.core.profiles import get_profile
from sanderling.core.types import Ending, ToolStatus
from sanderling.policy.contract import ScriptedPolicy
from sanderling.runs.jsonl import TrajectoryStore
from sanderling.serve.app import create_app, listen
from sanderling.serve.dialects import DIALECTS, choose, target_url
from sanderling.serve.limits import ServerSettings
from sanderling.tools.recording import read_recording
from sanderling.world.addresses import is_loopback
from sanderling.world.contract import SearchReply
from sanderling.world.disk.building import build_world
from sanderling.world.disk.store import open_world
from sanderling.world.web.live import LIVE_WEB

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
    async with asgi(held, timeout_s=3.0, threads=1) as client:  # in which a thread begins anywhere
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


FILM = "https://en.example/wiki/Alien_(film)"
SHIPS = "https://sea.example/ships"


def sentence(reply) -> str:
    assert set(reply.json()) == {"error"}
    text = reply.json()["error"]
    assert text.endswith(".") and "\n" not in text and "Traceback" not in text
    return text


# native


# Serper


# Jina Reader


def test_target_url_keeps_what_was_sent():
    assert target_url("/r/https://a.example/b%2Fc%20d", "q=%26&r=(1)") == "https://a.example/b%2Fc%20d?q=%26&r=(1)"
    assert target_url("/https%3A%2F%2Fa.example%2Fb%252Fc", "") == "https://a.example/b%2Fc"
    assert target_url("/https://a.example/r/jina/r/x", "") == "https://a.example/r/jina/r/x"
    assert target_url("/local://notes/a%20b.md", "") == "local://notes/a%20b.md"


# LiteResearcher


def test_clients_that_know_no_parts_ask_for_none(client):
    """A fragment such as a link into a PDF has is dropped, as the live services do."""
    assert "Paragraph 0" in client.post("/", json={"url": f"{SHIPS}#page=40"}).text
    assert client.post("/web_parser", json={"url": f"{SHIPS}#page=40"}).json()["found"] is True
    assert client.post("/check_url", json={"url": f"{SHIPS}#page=40"}).json()["exists"] is True
    browsed = client.post("/query", json={"url": f"{SHIPS}#page=40", "goal": "year 1777"}).json()
    assert browsed["success"] is True and "1777" in browsed["result"]


# Search-R1


# what dialects share


def test_one_fault_in_a_batch_costs_only_its_own_query(client_with, world):
    class Flaky(FailingWorld):
        async def search(self, query, **options):
            if query == "ripley":
                return SearchReply(query=query, hits=(), status=ToolStatus.TIMEOUT)
            return await world.search(query, **options)

    client = client_with(Flaky())
    batch = {"queries": ["ripley", "honey"]}
    first, second = client.post("/retrieve", json=batch).json()["result"]
    assert first == [] and second[0]["id"] == "https://b.example/x?y=1&z=a%2Fb"
    assert [r["total"] for r in client.post("/batch_search", json=batch).json()["query_results"]] == [0, 1]
    assert client.post("/batch_search", json={"queries": ["ripley"] * 2}).status_code == 504


def test_a_world_that_cannot_be_read_is_503_and_a_bug_is_500(client_with):
    for error, code in ((OSError("disk"), 503), (RuntimeError("secret"), 500)):
        client = client_with(FailingWorld(error=error))
        for reply in (client.post("/v1/search", json={"queries": ["x"]}), client.get(f"/r/{FILM}")):
            assert reply.status_code == code
            assert "disk" not in sentence(reply) and "secret" not in reply.text


POSTS = {
    "/v1/search": "queries", "/v1/visit": "urls", "/search": "q", "/serper/search": "q",
    "/literesearcher/search": "query", "/batch_search": "queries", "/check_url": "url", "/batch_check_url": "urls",
    "/web_parser": "url", "/query": "url", "/retrieve": "queries", "/": "url",
}  # fmt: skip


def refused(reply, status: int) -> str:
    assert reply.status_code == status, reply.text
    assert set(reply.json()) == {"error"}
    text = reply.json()["error"]
    assert text.endswith(".") and "\n" not in text and len(text) < 300
    return text


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
KNOWN = st.fixed_dictionaries(
    {},
    optional={
        name: JSON | st.text() | st.lists(st.text(), min_size=1, max_size=3)
        for name in ("q", "query", "queries", "url", "urls", "goal", "question", "num", "page", "limit", "topk", "masked")
    },
)


@settings(deadline=None, max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(path=st.sampled_from(list(POSTS)), body=JSON | KNOWN)
def test_no_json_makes_a_500(client, path, body):
    reply = client.post(path, content=json.dumps(body).encode("utf-8", "surrogatepass"))
    assert reply.status_code in (200, 400, 404)
    if reply.status_code != 200:
        refused(reply, reply.status_code)


# -- The circle: a served world is researched as the live web is, the record becomes a world, and both are compared with it ---

BEES = "https://b.example/x?y=1&z=a%2Fb"
SERVE = "from sanderling.cli.main import main; main()"


def turn(tool: str, **arguments: object) -> str:
    return f"<think>Look.</think>\n<tool_call>\n{json.dumps({'name': tool, 'arguments': arguments})}\n</tool_call>"


TURNS = [
    turn("search", query=["ridley scott film", "honey"]),
    turn("visit", url=[FILM], goal="who plays Ripley"),
    turn("visit", url=["https://no.example/"], goal="nothing"),
    turn("search", query=["外星人"]),
    "<think>Known.</think>\n<answer>Sigourney Weaver</answer>",
]


@pytest.fixture
def served(tmp_path, pages):
    """A world in a directory, and the base URL of a server of it."""
    build_world(tmp_path / "a", pages, name="small", source="test")
    command = [sys.executable, "-c", SERVE, "world", "serve", str(tmp_path / "a"), "--port", "0", "--token-env", "THE_KEY"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=os.environ | {"THE_KEY": "k"})
    try:
        assert process.stderr is not None
        found = re.search(r"at (http://\S+)", process.stderr.readline())
        assert found
        yield tmp_path / "a", found[1]
    finally:
        process.kill()
        process.communicate()


def run(*arguments: object) -> str:
    result = CliRunner().invoke(app, [str(a) for a in arguments], catch_exceptions=False, env={"COLUMNS": "200"})
    assert result.exit_code == 0, result.output
    return result.output


def test_from_a_served_world_to_a_recorded_one_and_back(tmp_path, served, monkeypatch):
    world, url = served
    policy = ScriptedPolicy(lambda messages, key: TURNS[key.turn], "list")
    (tmp_path / "config.json").write_text("{}")  # as a model's directory has it
    monkeypatch.setattr("sanderling.agent.opening.open_policy", lambda model, **how: policy)
    monkeypatch.setenv("SERPER_API_KEY", "k")
    monkeypatch.setenv("JINA_API_KEY", "k")
    log = tmp_path / "calls.jsonl"
    sets = [f"agent.live.urls.serper={url}", f"agent.live.urls.jina={url}"]
    where = {"web": True, "sets": sets, "record": log, "out": tmp_path / "asked.jsonl"}
    ask("Who plays Ripley?", model=str(tmp_path), profile="literesearcher-4b", **where)
    (done,) = TrajectoryStore(tmp_path / "asked.jsonl")
    assert done.ending is Ending.ANSWERED and done.world == LIVE_WEB
    calls = list(read_recording(log))
    assert [call.parts for call in calls] == [(ToolStatus.OK,) * 2, (ToolStatus.OK,), (ToolStatus.NOT_FOUND,), (ToolStatus.OK,)]
    assert all(call.latency_s > 0 and call.elapsed_s > 0 for call in calls)  # real seconds, not a world's

    run("build", "recorded", "--from", log, "--out", tmp_path / "b")
    recorded = open_world(tmp_path / "b")
    page = recorded.page(FILM)
    assert page is not None and "Sigourney Weaver" in page.text and recorded.page(BEES) is not None
    run("fidelity", world, "--against", log, "--out", tmp_path / "report")  # the record of a world, against that world
    compared = json.loads((tmp_path / "report" / "fidelity.json").read_text())["compared"]
    assert compared["label"] == "not known to be held out"
    found = {figure["name"]: figure["value"] for figure in compared["figures"]}
    assert [found[name] for name in ("overlap", "visit_held")] == [1.0, 0.5]


async def test_serper_itself_wants_a_key(monkeypatch):
    monkeypatch.delenv("SERPER_API_KEY", raising=False)
    with pytest.raises(UserError, match="SERPER_API_KEY"):
        async with opened_places(PlaceConfig(web=True), get_profile("tiny")):
            pass
