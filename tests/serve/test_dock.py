"""A dock of tool servers over its own address: what clients get, and what becomes of calls when replicas do not do well."""

import asyncio
import importlib.util
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager, suppress
from html import unescape
from pathlib import Path
from typing import Any

import httpx
import pytest
import uvicorn

pytest.importorskip("mcp", reason="a dock needs the extra serve")

from mcp import Client

from sanderling.agent.opening import AgentConfig, opened_agent
from sanderling.core.config import read_config
from sanderling.core.errors import UserError
from sanderling.core.record import Question
from sanderling.core.types import Ending, ToolStatus
from sanderling.runs.files import locked
from sanderling.serve.app import listen
from sanderling.serve.dock.app import dock_app, run_dock
from sanderling.serve.dock.config import DockConfig
from sanderling.serve.dock.dock import Dock
from sanderling.serve.dock.pool import DockError
from sanderling.serve.limits import ServerSettings
from sanderling.tools.contract import ToolContext, ToolOutageError
from sanderling.tools.mcp.config import ServerConfig, connection_to, opened_servers, server_to
from sanderling.tools.mcp.tools import found_in
from sanderling.tools.python.rungs import find_bwrap

ROOT = Path(__file__).parent.parent.parent
ODD = ROOT / "tests" / "odd_server.py"
AGENTCPM = Path(os.environ.get("SANDERLING_AGENTCPM") or "no checkout")


def pool(how: str = "good", *more: object, **settings: Any) -> dict[str, Any]:
    return {"command": [sys.executable, str(ODD), how, *map(str, more)], "check": {"within_s": 30}, **settings}


def dock_of(tmp_path: Path, pools: dict[str, Any], **settings: Any) -> DockConfig:
    return DockConfig.model_validate({"state": tmp_path / "state", "grace_s": 20.0, "pools": pools, **settings})


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(120):
        while not holds():  # noqa: ASYNC110 - nothing tells us
            await asyncio.sleep(0.02)


@contextmanager
def held(pid: int) -> Iterator[None]:
    """A replica's process stands still: what it is asked does not end meanwhile, however slow we are."""
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


class Served:
    """A dock that runs, and a client of its plain routes."""

    def __init__(self, dock: Dock, url: str, client: httpx.AsyncClient) -> None:
        self.dock, self.url, self._client = dock, url, client

    async def get(self, path: str, **more: Any) -> httpx.Response:
        return await self._client.get(path, **more)

    async def post(self, path: str, arguments: object = None, **more: Any) -> httpx.Response:
        return await self._client.post(path, json=arguments or {}, **more)

    async def call(self, tool: str, arguments: object = None, **more: Any) -> httpx.Response:
        return await self.post(f"/mcpapi/tool/{tool}", arguments, **more)

    async def ready(self, pool: str) -> None:
        with suppress(DockError):
            await self.dock.pools[pool].listed()

    def pids(self, pool: str) -> list[int]:
        return [replica.pid for replica in self.dock.pools[pool].replicas]


@asynccontextmanager
async def up(config: DockConfig) -> AsyncIterator[Served]:
    settings, dock = ServerSettings(port=0, timeout_s=60), Dock(config)
    with locked(config.state), listen(settings) as listening:
        server = uvicorn.Server(uvicorn.Config(dock_app(dock, settings), log_level="warning", lifespan="on"))
        task = asyncio.create_task(server.serve(sockets=[listening]))
        url = f"http://127.0.0.1:{listening.getsockname()[1]}"
        async with httpx.AsyncClient(base_url=url, timeout=60) as client:
            await until(lambda: server.started)
            try:
                yield Served(dock, url, client)
            finally:
                server.should_exit = True
                await task


async def test_every_kind_of_client_lists_and_calls_the_same_tools(tmp_path: Path) -> None:
    async with up(dock_of(tmp_path, {"one": pool(tools=["echo"]), "two": pool()})) as served:
        assert (await served.get("/mcpapi/servers")).json() == {"servers": ["one", "two"]}
        listed = [tool["function"]["name"] for tool in (await served.get("/mcpapi/tools")).json()["tools"]]
        assert listed == ["one.echo", *(f"two.{name}" for name in ("echo", "count", "env", "sleep", "die", "pid"))]
        own = (await served.get("/mcpapi/server/one/tools")).json()
        assert own["server"] == "one" and own["tools"][0]["function"]["name"] == "echo"
        assert (await served.call("one.echo", {"text": "hi"})).json() == {"content": "hi"}
        assert (await served.call("one.echo", {"text": '{"a": 1}'})).json() == {"content": {"a": 1}}
        assert (await served.call("one.echo", {"text": "fail"})).json() == {"content": "fail", "is_error": True}
        assert (await served.call("sleep", {"seconds": 0})).json() == {"content": "slept"}
        asked = {"id": "c1", "type": "function", "function": {"name": "two.echo", "arguments": '{"text": "hi"}'}}
        said = {"role": "tool", "tool_call_id": "c1", "content": "hi"}
        assert (await served.post("/call_tool", asked)).json() == said
        for wrong in ({}, {"name": "two.pid", "arguments": "[[1, 2]]"}):
            assert (await served.post("/call_tool", {"function": wrong})).status_code == 400
        for mode in ("auto", "legacy"):
            async with Client(f"{served.url}/mcp", mode=mode) as client:
                assert [tool.name for tool in (await client.list_tools()).tools] == listed
                result = await client.call_tool("two.echo", {"text": "hi"})
                assert result.content[0].text == "hi" and not result.is_error  # type: ignore[union-attr]
                heard: list[float] = []

                async def progress(done: float, total: float | None, words: str | None, heard: list[float] = heard) -> None:
                    heard.append(done)

                await client.call_tool("two.sleep", {"seconds": 0.4}, progress_callback=progress)
                assert len(heard) >= 3 and heard == sorted(heard)
        connection = server_to("dock", ServerConfig(url=f"{served.url}/mcp"))
        await connection.open()
        _, tools = found_in(connection)
        assert [tool.spec.name for tool in tools] == ["echo", "two_echo", "count", "env", "sleep", "die", "pid"]
        said = await tools[1]({"text": "hi"}, ToolContext())
        assert (said.text, said.status) == ("hi", ToolStatus.OK)
        with pytest.raises(ToolOutageError, match=r"exit status 7 \(asked to die\)"):
            await tools[-2]({}, ToolContext())
        await connection.close()


@pytest.mark.skipif(not AGENTCPM.is_dir(), reason="SANDERLING_AGENTCPM names no checkout of AgentCPM-Explore")
async def test_agentdock_s_own_client_works_by_another_address(tmp_path: Path) -> None:
    spec = importlib.util.spec_from_file_location("mcp_manager", AGENTCPM / "src" / "mcp_manager.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    async with up(dock_of(tmp_path, {"p": pool()})) as served:
        manager = module.MCPManager(f"{served.url}/mcpapi")
        assert await manager.initialize()
        assert await manager.list_servers() == ["p"]
        assert [tool["function"]["name"] for tool in await manager.get_server_tools("p")][:2] == ["echo", "count"]
        assert await manager.call_tool("p.echo", {"text": "hi"}) == {"content": "hi", "status": "success"}
        assert (await manager.call_tool("p.nothing", {}))["status"] == "error"


async def test_what_came_to_no_result_is_an_error(tmp_path: Path) -> None:
    pools = {"p": pool(call_s=2, wait_s=60), "deaf": pool("deaf", call_s=0.3), "q": pool(at_once=1, waiting=1, wait_s=60)}
    async with up(dock_of(tmp_path, pools)) as served:
        await served.ready("p")

        async def told(tool: str, arguments: object = None) -> tuple[int, str]:
            reply = await served.call(tool, arguments)
            return reply.status_code, reply.json()["detail"]

        assert await told("p.nothing") == (404, "The pool p has no tool 'nothing': /mcpapi/server/p/tools lists them.")
        assert (await told("echo"))[0] == 404  # several pools have it
        assert await told("p.echo", {"text": 3}) == (422, "echo cannot read text: 3 is not of type 'string'.")
        assert await told("q.die") == (503, "q-0: it ended with exit status 7 (asked to die).")
        assert await told("p.sleep", {"seconds": 3}) == (504, "sleep took longer than 2 seconds.")
        assert await told("deaf.echo", {"text": "x"}) == (504, "echo took longer than 0.3 seconds.")
        for body, status in ((b"{", 400), (b"[]", 400)):
            assert (await served._client.post("/mcpapi/tool/p.echo", content=body)).status_code == status
        await until(lambda: served.dock.pools["q"].replicas[0].free)
        with held(served.pids("q")[0]):
            asked = [asyncio.create_task(served.call("q.echo", {"text": "x"})) for _ in range(4)]
            await until(lambda: sum(one.done() for one in asked) == 2)
        statuses = sorted(reply.status_code for reply in await asyncio.gather(*asked))
        assert statuses == [200, 200, 429, 429]  # one runs, one waits


async def test_calls_that_do_no_harm_are_made_again_and_others_never(tmp_path: Path) -> None:
    pools = {"p": pool("good", tmp_path / "n", replicas=3)}
    async with up(dock_of(tmp_path, pools)) as served:
        await served.ready("p")
        stop = asyncio.Event()

        async def killing() -> None:
            while not stop.is_set():
                for pid in filter(None, served.pids("p")[:1]):
                    with suppress(ProcessLookupError):
                        os.kill(pid, 9)
                await asyncio.sleep(0.25)

        killer = asyncio.create_task(killing())
        said = [await served.call("p.echo", {"text": str(n)}) for n in range(120)]
        counted = [await served.call("p.count") for _ in range(60)]
        stop.set()
        await killer
        assert [reply.json() for reply in said] == [{"content": n} for n in range(120)]
        assert {reply.status_code for reply in counted} <= {200, 503}
        results = [reply.json()["content"] for reply in counted if reply.status_code == 200]
        assert len(set(results)) == len(results)  # no count came twice
        assert (tmp_path / "n").stat().st_size <= 60
        assert sum(replica.starts for replica in served.dock.pools["p"].replicas) > 3


async def test_a_session_stays_at_its_replica_and_is_told_once_that_it_was_lost(tmp_path: Path) -> None:
    async with up(dock_of(tmp_path, {"p": pool(replicas=3, sticky=True)})) as served:
        await until(lambda: all(replica.free for replica in served.dock.pools["p"].replicas))

        async def whose(session: str) -> httpx.Response:
            return await served.call("p.pid", headers={"x-session": session})

        first = {session: (await whose(session)).json()["content"] for session in "abcdef"}
        assert len(set(first.values())) == 3
        for session in "fedcba" * 2:
            assert (await whose(session)).json()["content"] == first[session]
        os.kill(int(first["a"]), 9)
        lost = await whose("a")
        assert lost.status_code == 503 and "this session's files was lost" in lost.json()["detail"]
        assert (await whose("a")).json()["content"] != first["a"]
        assert (await whose("b")).status_code == (503 if first["b"] == first["a"] else 200)


async def test_a_call_whose_client_has_left_holds_up_nobody(tmp_path: Path) -> None:
    async with up(dock_of(tmp_path, {"p": pool(at_once=1, waiting=1, wait_s=60)})) as served:
        await served.ready("p")
        pool_ = served.dock.pools["p"]
        await until(lambda: pool_.replicas[0].free)
        with held(served.pids("p")[0]):
            for left in range(1, 5):
                asked = asyncio.create_task(served.call("p.sleep", {"seconds": 0.1}))
                await until(lambda: pool_.replicas[0].calls == 1)
                asked.cancel()  # which closes its connection
                await until(lambda left=left: pool_.outcomes["cancelled"] == left)
        assert (await served.call("p.echo", {"text": "x"})).status_code == 200
        assert pool_.outcomes["cancelled"] == 4


async def test_a_token_opens_its_pools_and_no_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ONE", "t1")
    (tmp_path / "all").write_text("t2\n")
    tokens = {"one": {"token": "env:ONE", "pools": ["one"]}, "boss": {"token": f"file:{tmp_path / 'all'}", "admin": True}}
    async with up(dock_of(tmp_path, {"one": pool(), "two": pool()}, tokens=tokens)) as served:
        hers, all_ = {"headers": {"Authorization": "Bearer t1"}}, {"headers": {"Authorization": "Bearer t2"}}
        assert (await served.get("/mcpapi/tools")).status_code == 401
        assert (await served.call("one.echo", {"text": "x"}, headers={"Authorization": "Bearer t3"})).status_code == 401
        assert (await served.get("/mcpapi/servers", **hers)).json() == {"servers": ["one"]}
        assert (await served.call("one.echo", {"text": "x"}, **hers)).status_code == 200
        assert (await served.call("two.echo", {"text": "x"}, **hers)).status_code == 404
        assert (await served.get("/mcpapi/server/two/tools", **hers)).status_code == 404
        for path in ("/", "/metrics", "/dock/state"):
            assert (await served.get(path, **hers)).status_code == 403
            assert (await served.get(path, **all_)).status_code == 200
        assert (await served.post("/dock/one/kill", **hers)).status_code == 403
        connection = connection_to("dock", ServerConfig(url=f"{served.url}/mcp", token="env:ONE"))
        await connection.open()
        assert {tool.name.partition(".")[0] for tool in connection.tools} == {"one"}
        await connection.close()
        assert (await served.get("/")).headers["www-authenticate"].count("Basic")  # so that a browser asks for it
    lines = [json.loads(line) for line in (tmp_path / "state" / "audit.jsonl").read_text().splitlines()]
    assert [(line["client"], line["pool"], line["tool"], line["outcome"]) for line in lines] == [
        ("one", "one", "echo", "ok"),
        ("one", "", "two.echo", "unknown"),
    ]


@pytest.mark.parametrize(
    ("how", "reason"),
    [
        ("die", "exit status 3 (cannot start: the disk is full)"),
        ("numbers", "tools.0.name: Input should be a valid string"),
        ("hang", "did not answer within 1 seconds"),
        ("no-such-command", "no command or folder no-such-command"),
        ("good", "bad-0 has no tool 'nope': choose of echo, count"),
    ],
)
async def test_a_pool_that_does_not_start_says_why_and_holds_up_nobody(
    tmp_path: Path, how: str, reason: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sanderling.serve.dock.replica._LONGEST_PAUSE_S", 0.1)
    bad: dict[str, Any] = {"command": [how]} if how.startswith("no") else pool(how)
    if how == "good":
        bad["check"]["tool"] = "nope"
    bad |= {"start_s": 1 if how == "hang" else 60, "wait_s": 1}
    async with up(dock_of(tmp_path, {"bad": bad, "p": pool()})) as served:
        assert (await served.call("p.echo", {"text": "x"})).status_code == 200
        lost = await served.call("bad.echo", {"text": "x"})
        assert lost.status_code == 503 and reason in lost.json()["detail"]
        replica = served.dock.pools["bad"].replicas[0]
        await until(lambda: replica.starts > 2)
        assert "lost" not in replica.reason  # of an earlier start
        assert reason.partition(" (")[0] in unescape((await served.get("/")).text)
    assert caplog.text.count("bad has no ready replica") == caplog.text.count(reason) == 1
    assert "not listed" not in caplog.text  # which `mcp` says of a tool that is not there


async def test_a_pool_that_takes_long_to_start_is_named_before_a_client_has_waited_in_vain(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sanderling.serve.dock.dock._LISTED_S", 0.2)
    async with up(dock_of(tmp_path, {"slow": pool("hang"), "p": pool()})) as served:
        await served.ready("p")
        with pytest.raises(UserError, match=r"dock: The pool slow has not come up yet\."):
            async with opened_servers({}, served.url):
                pass


async def test_an_agent_does_not_begin_without_the_tools_of_a_pool_that_is_down(tmp_path: Path) -> None:
    """It would be blamed for calls of tools that nobody has."""
    async with up(dock_of(tmp_path, {"bad": {"command": ["no-such-command"]}, "p": pool()})) as served:
        assert (await served.call("echo", {"text": "others have what there is"})).status_code == 200
        with pytest.raises(UserError, match=r"dock: The pool bad is down: .* no command or folder no-such-command"):
            async with opened_servers({}, served.url):
                pass
        async with up(dock_of(tmp_path / "outer", {"inner": {"url": f"{served.url}/mcp", "start_s": 60}})) as outer:
            lost = await outer.call("inner.p.echo", {"text": "x"})
            assert lost.status_code == 503 and "The pool bad is down" in lost.json()["detail"]
        assert (await served.post("/dock/bad/drain")).status_code == 200  # a person wants it so
        async with opened_servers({}, served.url) as (dock,):
            assert [tool.name for tool in dock.tools if tool.name.endswith("echo")] == ["p.echo"]


@pytest.mark.parametrize(
    ("how", "reason"),
    [("huge", "a line of more than 1,048,576 bytes"), ("unread", "a reply that cannot be read")],
)
async def test_a_server_that_breaks_is_started_anew(tmp_path: Path, how: str, reason: str) -> None:
    async with up(dock_of(tmp_path, {"p": pool(how, reply_mb=1, idempotent=[])})) as served:
        lost = await served.call("p.echo", {"text": "x"})  # says that it is idempotent: tried again, and lost each time
        assert lost.status_code == 503 and reason in lost.json()["detail"]
        assert (await served.call("p.env", {"text": "HOME"})).status_code == 200
        assert served.dock.pools["p"].retried == 3


async def test_a_lying_schema_checks_nothing_and_stray_lines_are_left_out(tmp_path: Path) -> None:
    async with up(dock_of(tmp_path, {"lie": pool("lie"), "stray": pool("stray")})) as served:
        assert (await served.call("lie.echo", {"text": "x"})).json() == {"content": "x"}
        assert (await served.call("stray.echo", {"text": "x"})).json() == {"content": "x"}
        assert "on standard output, which is for messages" in (await served.get("/")).text


async def test_a_pool_on_demand_starts_with_its_first_call_and_stops_when_idle(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sanderling.serve.dock.dock._IDLE_CHECK_S", 0.05)
    async with up(dock_of(tmp_path, {"p": pool(warm=False, idle_s=0.3)})) as served:
        assert served.pids("p") == [0]
        pid = (await served.call("p.pid")).json()["content"]
        await until(lambda: served.pids("p") == [0])
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)
        assert (await served.call("p.echo", {"text": "x"})).status_code == 200


@pytest.mark.skipif(not find_bwrap(), reason="there is no bubblewrap")
async def test_a_sandboxed_server_writes_where_it_may_and_leaves_nothing(tmp_path: Path) -> None:
    (mine := tmp_path / "mine").mkdir()
    boxed = {"sandbox": True, "network": False}
    pools = {
        "shut": pool("good", Path.home() / "n-of-a-test", **boxed),
        "open": pool("good", mine / "n", **boxed, writable=[str(mine)]),
    }
    for one in pools.values():  # its file may lie in /tmp, which is another one in the sandbox
        one["command"][1:2] = ["-c", ODD.read_text()]
    async with up(dock_of(tmp_path, pools)) as served:
        lost = await served.call("shut.count")
        assert lost.status_code == 503 and "Read-only file system" in lost.json()["detail"]
        assert (await served.call("open.count")).json() == {"content": 1}
        assert (mine / "n").read_bytes() == b"x"
        assert (await served.call("open.pid")).json()["content"] < 10  # processes of its own


@pytest.mark.skipif(not find_bwrap(), reason="there is no bubblewrap")
@pytest.mark.parametrize(("readable", "seen"), [([], False), (["/var/tmp"], True)])
async def test_a_sandboxed_server_reads_what_it_may(tmp_path: Path, readable: list[str], seen: bool) -> None:
    command = [sys.executable, "-c", "import os, sys; sys.exit(' '.join(os.listdir('/')))"]
    pools = {"p": {"command": command, "sandbox": True, "directory": tmp_path, "readable": readable}}
    async with up(dock_of(tmp_path, pools)) as served:
        await served.ready("p")
        words = re.split(r"[ ()]", served.dock.pools["p"].replicas[0].reason)
    assert "usr" in words and ("var" in words) is seen


async def test_an_image_needs_what_runs_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda name: None)
    async with up(dock_of(tmp_path, {"p": {"image": "example/tools", "start_s": 1}})) as served:
        lost = await served.call("p.echo", {"text": "x"})
        assert lost.status_code == 503 and "needs docker or podman" in lost.json()["detail"]


async def test_of_two_runners_of_images_the_one_that_answers_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Docker's client without its daemon, and one that runs an image's command here."""
    odd = f"exec {sys.executable} {ODD} good"
    runners = {"docker": "exit 1", "podman": f'[ "$1" = ps ] && exit 0; [ "$1" = run ] && {odd}'}
    for name, does in runners.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{does}\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setattr("shutil.which", lambda name: str(tmp_path / name) if (tmp_path / name).exists() else None)
    async with up(dock_of(tmp_path, {"p": {"image": "example/tools"}})) as served:
        await served.ready("p")
        assert (await served.call("p.echo", {"text": "x"})).json()["content"] == "x"
    (tmp_path / "podman").write_text("#!/bin/sh\nexit 1\n")
    async with up(dock_of(tmp_path, {"p": {"image": "example/tools", "start_s": 1}})) as served:
        lost = await served.call("p.echo", {"text": "x"})
        assert "see that" in lost.json()["detail"] and "podman works (ps fails)" in lost.json()["detail"]


async def test_buttons_drain_start_and_kill(tmp_path: Path) -> None:
    async with up(dock_of(tmp_path, {"p": pool(replicas=2)})) as served:
        await served.ready("p")
        foreign = {"Origin": "http://evil.example"}
        assert (await served.post("/dock/p/drain", headers=foreign)).status_code == 403
        assert (await served.post("/dock/p/explode")).status_code == 404
        assert (await served.post("/dock/q/kill")).status_code == 404
        running = asyncio.create_task(served.call("p.sleep", {"seconds": 0.5}))
        await until(lambda: any(replica.calls for replica in served.dock.pools["p"].replicas))
        assert (await served.post("/dock/p/drain")).status_code == 200
        assert (await running).json() == {"content": "slept"}  # what ran was not lost
        stopped = await served.call("p.echo", {"text": "x"})
        assert stopped.status_code == 503 and "stopped" in stopped.json()["detail"]
        assert (await served.post("/dock/p/start")).status_code == 200
        assert (await served.call("p.echo", {"text": "x"})).status_code == 200
        before = served.pids("p")
        assert (await served.post("/dock/p/kill")).status_code == 200
        assert (await served.call("p.echo", {"text": "x"})).status_code == 200
        await until(lambda: not {*served.pids("p")} & {0, *before})
        metrics = (await served.get("/metrics")).text
        assert 'sanderling_dock_calls_total{outcome="ok",pool="p",tool="echo"} 2.0' in metrics


async def test_a_free_replica_is_not_kept_from_calls_because_others_wait(tmp_path: Path) -> None:
    async with up(dock_of(tmp_path, {"p": pool(replicas=2, at_once=1, sticky=True)})) as served:
        await until(lambda: all(replica.free for replica in served.dock.pools["p"].replicas))

        async def call(session: str) -> httpx.Response:
            return await served.call("p.pid", headers={"x-session": session})

        first, second = [(await call(session)).json()["content"] for session in "ab"]
        with held(first):
            long = [asyncio.create_task(call("a")) for _ in range(2)]
            await until(lambda: len(served.dock.pools["p"].waiting) == 1)
            for session in ("b", ""):
                assert (await call(session)).json() == {"content": second}
            assert not any(one.done() for one in long)
        assert [one.json() for one in await asyncio.gather(*long)] == [{"content": first}] * 2


async def test_calls_of_a_session_that_has_to_wait_for_its_first_replica_share_it(tmp_path: Path) -> None:
    async with up(dock_of(tmp_path, {"p": pool(replicas=3, at_once=1, sticky=True, warm=False)})) as served:
        await served.ready("p")
        await served.post("/dock/p/drain")
        asked = (served.call("p.pid", headers={"x-session": "s"}) for _ in range(6))
        assert len({reply.json()["content"] for reply in await asyncio.gather(*asked)}) == 1


async def test_a_drain_goes_on_when_its_page_was_left_and_a_second_one_is_no_shorter(tmp_path: Path) -> None:
    async with up(dock_of(tmp_path, {"p": pool()}, grace_s=20)) as served:
        await served.ready("p")
        running = asyncio.create_task(served.call("p.sleep", {"seconds": 1}))
        await until(lambda: served.dock.pools["p"].replicas[0].calls == 1)
        with pytest.raises(httpx.ReadTimeout):
            await served.post("/dock/p/drain", timeout=httpx.Timeout(60, read=0.1))
        assert (await served.post("/dock/p/drain")).status_code == 200
        assert (await running).json() == {"content": "slept"}
        assert served.pids("p") == [0]


async def test_a_pool_that_is_started_while_it_stops_runs_afterwards(tmp_path: Path) -> None:
    async with up(dock_of(tmp_path, {"p": pool(wait_s=20)})) as served:
        await served.ready("p")
        await until(lambda: served.dock.pools["p"].replicas[0].free)
        with held(served.pids("p")[0]):
            running = asyncio.create_task(served.call("p.sleep", {"seconds": 0.5}))
            await until(lambda: served.dock.pools["p"].replicas[0].calls == 1)
            drain = asyncio.create_task(served.post("/dock/p/drain"))
            await until(lambda: served.dock.pools["p"].replicas[0].state == "draining")
            stopped = await served.call("p.echo", {"text": "x"})  # at once
            assert stopped.status_code == 503 and "is stopped: start it" in stopped.json()["detail"]
            assert (await served.post("/dock/p/start")).status_code == 200
        assert (await served.call("p.echo", {"text": "x"})).json() == {"content": "x"}
        assert (await running).json() == {"content": "slept"} and (await drain).status_code == 200


async def test_a_call_that_meets_a_pool_on_demand_while_it_stops_starts_it_again(tmp_path: Path) -> None:
    async with up(dock_of(tmp_path, {"p": pool(warm=False)})) as served:
        for _ in range(3):
            assert (await served.call("p.echo", {"text": "x"})).status_code == 200
            drain = asyncio.create_task(served.post("/dock/p/drain"))
            await until(lambda: not served.dock.pools["p"].is_open)
            assert (await served.call("p.echo", {"text": "x"})).status_code == 200
            await drain


async def test_start_ends_the_pause_after_a_loss(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sanderling.serve.dock.replica._FIRST_PAUSE_S", 600.0)
    monkeypatch.setattr("sanderling.serve.dock.replica._LONGEST_PAUSE_S", 600.0)
    async with up(dock_of(tmp_path, {"p": pool()})) as served:
        await served.ready("p")
        await served.call("p.die")
        await until(lambda: served.dock.pools["p"].replicas[0].state == "waiting")
        assert "start now" in (await served.get("/")).text
        await served.post("/dock/p/start")
        assert (await served.call("p.echo", {"text": "x"})).status_code == 200


async def test_a_replica_that_no_longer_lists_a_tool_of_the_pool_is_started_anew(tmp_path: Path) -> None:
    config = pool("fickle", tools=["echo", "pid"], check={"every_s": 0.1})
    async with up(dock_of(tmp_path, {"p": config})) as served:
        replica = served.dock.pools["p"].replicas[0]
        await until(lambda: replica.starts > 2)
        assert "has no tool 'echo': choose of count" in replica.reason
        assert (await served.call("p.echo", {"text": "x"})).status_code == 200


async def test_sessions_are_their_client_s_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tokens = {}
    for name in ("one", "two"):
        monkeypatch.setenv(name.upper(), f"secret of {name}")
        tokens[name] = {"token": f"env:{name.upper()}", "pools": ["p", "q"]}
    pools = {"p": pool("keeper", left := tmp_path / "left"), "q": pool("good", tmp_path / "n", sticky=True)}
    async with up(dock_of(tmp_path, pools, tokens=tokens)) as served:

        async def call(client: str, tool: str, meta: dict[str, Any], **more: str) -> Any:
            headers = {"Authorization": f"Bearer secret of {client}", "Accept": "application/json, text/event-stream", **more}
            about = {"name": tool, "arguments": {}, "_meta": meta}
            asked = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": about}
            reply = (await served.post("/mcp", asked, headers=headers)).json()
            return reply["result"]["content"][0]["text"] if reply.get("result", {}).get("content") else reply

        own = [await call(client, "p.count", {}, **{"X-Session": "s"}) for client in ("one", "two")]
        assert own == ["one/s", "two/s"]  # which is what the server keeps them by
        assert await call("one", "p.count", {"sanderling/context": {"session": "s"}}) == "one/s"
        assert await call("one", "p.count", {"sanderling/context": {"session": "two/s", "ordinal": "?"}}) == "one/"
        assert await call("two", "p.count", {}) == "two/"
        await call("two", "p.count", {"sanderling/leave": "one/s"})
        await call("two", "p.count", {"sanderling/leave": "s"})
        assert left.read_text() == "left two/s\n"
        assert "200 characters" in str(await call("one", "p.count", {}, **{"X-Session": "s" * 201}))
        assert await call("one", "q.count", {}, **{"X-Session": "s"}) == "1"
        await call("one", "q.count", {"sanderling/leave": "s"})  # a tool that knows nothing of it
        assert await call("one", "q.count", {}, **{"X-Session": "s"}) == "2"


async def test_a_call_whose_body_did_not_come_to_its_end_is_not_made(tmp_path: Path) -> None:
    async with up(dock_of(tmp_path, {"p": pool("good", tmp_path / "n")})) as served:
        await served.ready("p")
        for body in (b"", b"{}"):
            _, writer = await asyncio.open_connection("127.0.0.1", int(served.url.rpartition(":")[2]))
            writer.write(b"POST /mcpapi/tool/p.count HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 9\r\n\r\n" + body)
            await writer.drain()
            writer.close()
        for number in range(1, 6):
            assert (await served.call("p.count")).json() == {"content": number}


async def test_a_page_of_others_in_a_browser_that_knows_the_password_may_ask_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("T", "secret")
    tokens = {"t": {"token": "env:T", "admin": True}}
    async with up(dock_of(tmp_path, {"p": pool()}, tokens=tokens)) as served:
        foreign = {"Origin": "http://evil.example", "Content-Type": "text/plain"}
        for path in ("/mcpapi/tool/p.pid", "/mcp", "/dock/p/kill"):
            reply = await served._client.post(path, content=b"{}", headers=foreign, auth=("any", "secret"))
            assert reply.status_code == 403, path
        page = await served.get("/", auth=("any", "secret"))
        assert page.status_code == 200 and page.headers["x-frame-options"] == "DENY"
        own = await served.post("/dock/p/start", headers={"Origin": served.url}, auth=("any", "secret"))
        assert own.status_code == 200


async def test_deep_arguments_are_refused(tmp_path: Path) -> None:
    async with up(dock_of(tmp_path, {"p": pool()})) as served:
        for depth in (*range(100, 1_100, 50), 100_000):
            body = b'{"text": ' + b"[" * depth + b"]" * depth + b"}"
            reply = await served._client.post("/mcpapi/tool/p.env", content=body)
            assert reply.status_code in (400, 422), (depth, reply.text)
            reply = await served._client.post("/mcpapi/tool/p.pid", content=body)
            assert reply.status_code in (200, 400, 422), (depth, reply.text)


async def test_every_call_is_counted_and_written_down_also_where_none_was_made(tmp_path: Path) -> None:
    async with up(dock_of(tmp_path, {"p": pool(), "bad": pool("die")})) as served:
        await served.call("p.echo", {"text": 3})
        await served.call("bad.echo", {"text": "x"})
        lines = [json.loads(line) for line in (tmp_path / "state" / "audit.jsonl").read_text().splitlines()]
        assert [(line["pool"], line["tool"], line["outcome"]) for line in lines] == [
            ("p", "echo", "refused"),
            ("bad", "", "down"),
        ]
        page = (await served.get("/")).text
        assert "1 refused" in page and "1 down" in page


async def test_what_may_be_secret_in_an_address_is_not_shown(tmp_path: Path) -> None:
    address = {"url": "http://me:pass-word@127.0.0.1:9/mcp?key=pass-word", "start_s": 1}
    async with up(dock_of(tmp_path, {"p": address})) as served:
        lost = await served.call("p.echo")
        assert lost.status_code == 503
        page = (await served.get("/")).text
        assert "http://127.0.0.1:9/mcp" in page
        assert "pass-word" not in page + lost.text + (await served.get("/dock/state")).text


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_a_dock_s_process_ends_with_all_that_it_started(tmp_path: Path, how: signal.Signals) -> None:
    if how is signal.SIGKILL and not shutil.which("setpriv"):
        pytest.skip("servers end with a dock that is killed where util-linux has setpriv")
    command = json.dumps(pool()["command"])
    settings = f"state = '{tmp_path / 'state'}'\ngrace_s = 0\n[pools.p]\ncommand = {command}\nreplicas = 2\n"
    settings += f"[pools.hang]\ncommand = {json.dumps(pool('hang')['command'])}"
    (tmp_path / "dock.toml").write_text(settings)
    up = [sys.executable, "-m", "sanderling", "dock", "up", str(tmp_path / "dock.toml"), "--port", "0"]
    env = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    with subprocess.Popen(up, stderr=subprocess.PIPE, text=True, env=env) as dock, ThreadPoolExecutor() as threads:
        try:
            assert dock.stderr
            with httpx.Client(base_url=dock.stderr.readline().split()[0], timeout=60) as client:
                assert client.get("/mcp", headers={"Accept": "text/event-stream"}).status_code == 405
                assert client.post("/mcpapi/tool/p.echo", json={"text": "x"}).status_code == 200
                running = threads.submit(client.post, "/mcpapi/tool/p.sleep", json={"seconds": 60})
                replicas = list[dict[str, Any]]()
                while not any(one["calls"] for one in replicas):
                    replicas = [one for pool in client.get("/dock/state").json()["pools"] for one in pool["replicas"]]
                dock.send_signal(how)
                if how is signal.SIGTERM:
                    reply = running.result()
                    assert reply.status_code == 503 and "is being stopped" in reply.text
                    assert dock.wait() == 0
                    assert "Traceback" not in dock.stderr.read()
        finally:
            dock.kill()
    pids = [one["pid"] for one in replicas if one["pid"]]
    assert len(pids) == 3
    for pid in pids:
        while Path(f"/proc/{pid}").exists():  # of a dock that was killed they may end a moment later
            time.sleep(0.02)


async def test_an_audit_log_that_cannot_be_written_costs_no_call(tmp_path: Path) -> None:
    (tmp_path / "state" / "audit.jsonl").mkdir(parents=True)
    async with up(dock_of(tmp_path, {"p": pool()})) as served:
        assert (await served.call("p.echo", {"text": "x"})).status_code == 200
        assert "The audit log cannot be written" in (await served.get("/")).text


async def test_an_audit_log_that_is_full_begins_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sanderling.serve.dock.dock._MOST_AUDIT", 500)
    async with up(dock_of(tmp_path, {"p": pool()})) as served:
        for number in range(9):
            await served.call("p.echo", {"text": str(number)})
    kept = [len((tmp_path / "state" / name).read_text().splitlines()) for name in ("audit.jsonl", "audit.1.jsonl")]
    assert all(0 < lines <= 4 for lines in kept)


def test_two_docks_cannot_have_one_state_directory(tmp_path: Path) -> None:
    config = dock_of(tmp_path, {"p": pool()}, port=0)
    with locked(config.state), pytest.raises(UserError, match=r"Another process is at work in .* --set state="):
        run_dock(config, lambda url: None)


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ("[pools.p]\ncommand = ['x']\nreplica = 2", ["pools.p.replica", "did you mean pools.p.replicas"]),
        ("[pools.p]\ncommand = ['x']\nreplicas = 0\n[pools.q]\nwarm = 3", ["pools.p.replicas", "pools.q.warm"]),
        (
            "[pools.p]\nurl = 'http://x'\nsandbox = true\n[pools.q]\ncommand = ['x']\nnetwork = false",
            ["p: sandbox", "q: network"],
        ),
        ("[pools.p]\nurl = 'ftp://x'\n[pools.q]\nimage = 'x'\nurl = 'http://x'", ["p: the url", "q: a pool needs either"]),
        ("[pools.'a b']\ncommand = ['x']\n[tokens.t]\ntoken = 'env:T'\npools = ['q']", ["'a b' is no name", "a pool 'q'"]),
    ],
)
def test_all_that_is_wrong_with_a_file_is_told_at_once(tmp_path: Path, text: str, sentences: list[str]) -> None:
    (tmp_path / "dock.toml").write_text(text)
    with pytest.raises(UserError) as error:
        read_config(DockConfig, tmp_path / "dock.toml", [])
    assert all(sentence in str(error.value) for sentence in sentences), str(error.value)


def test_a_dock_without_pools_or_with_one_secret_for_two_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UserError, match="no pools"):
        Dock(dock_of(tmp_path, {}))
    monkeypatch.setenv("ONE", "same")
    tokens = {name: {"token": "env:ONE"} for name in ("a", "b")}
    with pytest.raises(UserError, match="same secret"):
        Dock(dock_of(tmp_path, {"p": pool()}, tokens=tokens))
    with pytest.raises(UserError, match=r"(?s)env:NAME or file:PATH.*MISSING is not set"):
        Dock(dock_of(tmp_path, {"p": pool(secrets={"A": "sk-123"}), "q": pool(secrets={"A": "env:MISSING"})}))
    (tmp_path / "empty").write_text("\n")
    with pytest.raises(UserError, match="empty: put the secret there"):  # or nobody would need one
        Dock(dock_of(tmp_path, {"p": pool()}, tokens={"a": {"token": f"file:{tmp_path / 'empty'}"}}))


RESEARCHER = """
import json


def call(name, **given):
    return "<tool_call>" + json.dumps({"name": name, "arguments": given}) + "</tool_call>"


def model(messages, key):
    return call("count") if key.turn < 3 else call("die") if key.turn == 3 else "It is three. <answer>3</answer>"
"""


async def test_an_episode_whose_call_was_lost_ends_as_an_outage(tmp_path: Path) -> None:
    (tmp_path / "m.py").write_text(RESEARCHER)
    async with up(dock_of(tmp_path, {"p": pool("good", tmp_path / "n")})) as served:
        config = AgentConfig(model=f"{tmp_path / 'm.py'}:model", profile="general", dock=served.url)
        async with opened_agent(config) as agent:
            record = await agent.run(Question(id="q", text="How many?"))
    assert record.ending is Ending.TOOL_OUTAGE and not record.ending.scored
    assert "exit status 7 (asked to die)" in record.detail
    assert [event.status.value for node in record.branch() for event in node.events] == ["ok", "ok", "ok", "outage"]
    assert (tmp_path / "n").stat().st_size == 3
