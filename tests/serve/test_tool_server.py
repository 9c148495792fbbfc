"""``sanderling tools serve``: an agent's tools behind MCP are the tools themselves, over stdio and over HTTP."""

import asyncio
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from loopback import free_port
from test_dock import until, up
from typer.testing import CliRunner

pytest.importorskip("mcp", reason="tool servers need the extra serve")

from sanderling.cli.tools import app
from sanderling.core.errors import UserError
from sanderling.core.types import ToolSpec, ToolStatus
from sanderling.serve.app import create_app, listen, serving
from sanderling.serve.dock.config import DockConfig
from sanderling.serve.limits import ServerSettings
from sanderling.serve.mcp import mcp_server
from sanderling.tools.contract import Tool, ToolContext, ToolOutageError, ToolResult, keeper_of
from sanderling.tools.mcp.config import ServerConfig, server_to
from sanderling.tools.mcp.tools import found_in
from sanderling.world.contract import Page, SearchReply, VisitReply, World
from sanderling.world.disk.building import build_world
from sanderling.world.disk.store import open_as_met

TOOLS = '''
import asyncio
from pathlib import Path

from sanderling.core.types import ToolSpec, ToolStatus
from sanderling.tools.contract import Span, ToolContext, ToolOutageError, ToolResult, tool

NOTES = Path(__file__).with_suffix(".notes")


class Shelf:
    """Keeps what it is given for a session."""

    spec = ToolSpec(name="keep", description="Keeps a word.", parameters={"type": "object", "properties": {"word": {}}})

    def __init__(self):
        self.kept = {}

    async def __call__(self, arguments, context):
        words = self.kept.setdefault(context.session, [])
        words.append(arguments.get("word", ""))
        return ToolResult(" ".join(words))

    async def leave(self, session):
        self.kept.pop(session, None)
        NOTES.write_text(f"left {session}")


shelf = Shelf()


@tool
async def long(context: ToolContext) -> str:
    """Takes long, and says so."""
    context.tell("half of it")
    try:
        await asyncio.sleep(0.5 if context.attempt else 60)
    except asyncio.CancelledError:
        NOTES.write_text("cancelled")
        raise
    print("this is no message")
    return "done"


@tool
def whole(context: ToolContext) -> ToolResult:
    """All that a result may have."""
    told = f"{context.question} {context.attempt} {context.ordinal} {context.masked_urls}"
    span = Span(0, 4, "https://w.example/1", "One")
    return ToolResult(told, ToolStatus.NOT_FOUND, 0.5, ("https://w.example/1",), (ToolStatus.GONE, ToolStatus.OK), (span,))


@tool
def down() -> str:
    """Its backend is gone."""
    raise ToolOutageError("the oven is cold")


@tool
def wrong() -> str:
    """Has a mistake in it."""
    raise ZeroDivisionError("by zero")
'''
CONTEXT = ToolContext(3, frozenset({"https://w.example/9"}), 2, question="q", attempt=1, session="s1")


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    file = tmp_path / "mine.py"
    file.write_text(TOOLS)
    return file


def words(mine: Path, *more: str) -> list[str]:
    named = [word for name in ("shelf", "long", "whole", "down", "wrong") for word in ("--tool", f"{mine}:{name}")]
    return [sys.executable, "-m", "sanderling", "tools", "serve", *named, *more]


@asynccontextmanager
async def served(mine: Path, over: str) -> AsyncIterator[Mapping[str, Tool]]:
    """The tools as a client has them, over ``stdio`` or ``http``."""
    if over == "stdio":
        config = ServerConfig(command=tuple(words(mine)))
    else:
        run = await asyncio.create_subprocess_exec(*words(mine, "--port", "0"), stderr=asyncio.subprocess.PIPE)
        assert run.stderr
        said = (await run.stderr.readline()).decode()
        config = ServerConfig(url=said.split()[-1])
    server = server_to("mine", config)
    try:
        await server.open()
        yield {tool.spec.name: tool for tool in found_in(server)[1]}
    finally:
        await server.close()
        if over == "http":
            run.terminate()
            assert await run.wait() == 0


@pytest.mark.parametrize("over", ["stdio", "http"])
async def test_a_tool_behind_a_server_is_the_tool(mine: Path, over: str) -> None:
    notes = mine.with_suffix(".notes")
    async with served(mine, over) as tools:
        assert {*tools} == {"keep", "long", "whole", "down", "wrong"}
        span = (await tools["whole"]({}, CONTEXT)).spans[0]
        assert await tools["whole"]({}, CONTEXT) == ToolResult(
            "q 1 2 frozenset({'https://w.example/9'})", ToolStatus.NOT_FOUND, 0.5, ("https://w.example/1",),
            (ToolStatus.GONE, ToolStatus.OK), (span,),
        )  # fmt: skip
        with pytest.raises(ToolOutageError, match="the oven is cold"):
            await tools["down"]({}, CONTEXT)
        with pytest.raises(ToolOutageError, match="wrong raised ZeroDivisionError: by zero"):
            await tools["wrong"]({}, CONTEXT)
        heard = list[str]()
        spoken = ToolContext(attempt=1, tell=heard.append)
        assert (await tools["long"]({}, spoken)).text == "done" and heard == ["half of it"]
        assert keeper_of(tools["keep"]) is not None and keeper_of(tools["whole"]) is None
        for session, said in (("s1", "a"), ("s1", "a b"), ("s2", "c")):
            assert (await tools["keep"]({"word": said[-1]}, ToolContext(session=session))).text == said
        await tools["keep"].leave("s1")  # type: ignore[attr-defined]
        assert notes.read_text() == "left s1"
        assert (await tools["keep"]({"word": "d"}, ToolContext(session="s1"))).text == "d"
        await tools["keep"].leave("s3")  # type: ignore[attr-defined]
        assert notes.read_text() == "left s1", "who never called is not told of"
        begun = asyncio.Event()  # a call that never came there would not be cancelled there
        long = asyncio.ensure_future(tools["long"]({}, ToolContext(tell=lambda words: begun.set())))
        await asyncio.wait_for(begun.wait(), 60)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(long, 0.1)
        for _ in range(3_000):
            if notes.read_text() == "cancelled":
                break
            await asyncio.sleep(0.01)
        else:
            pytest.fail("the call goes on")


class Shelf:
    spec = ToolSpec(name="keep", description="Keeps.", parameters={"type": "object"})

    def __init__(self) -> None:
        self.left = list[str]()
        self.went = asyncio.Event()

    async def __call__(self, arguments: dict, context: ToolContext) -> ToolResult:
        return ToolResult("kept")

    async def leave(self, session: str) -> None:
        self.left.append(session)
        self.went.set()


async def test_what_is_kept_for_a_client_that_vanished_goes() -> None:
    from mcp import Client

    shelf = Shelf()
    async with Client(mcp_server(None, [shelf], keep_s=3)) as client:

        async def since() -> str:
            meta: Any = {"sanderling/context": {"session": "s1"}}
            return ((await client.call_tool("keep", {}, meta=meta)).meta or {})["sanderling/kept"]

        first = await since()
        assert await since() == first
        await asyncio.wait_for(shelf.went.wait(), 30)
        assert await since() != first, "or its client takes it for lost by nobody"
    assert shelf.left == ["s1"]


@pytest.mark.parametrize("dock", [False, True])
async def test_a_server_at_an_address_that_lost_what_it_kept_is_an_outage(dock: bool, tmp_path: Path) -> None:
    """It has no sessions of MCP's, so that its clients do not see that it was started again."""

    @asynccontextmanager
    async def shelf(port: int) -> AsyncIterator[int]:
        with listen(ServerSettings(port=port)) as listening:
            server = uvicorn.Server(uvicorn.Config(create_app(None, tools=[Shelf()]), log_level="warning", lifespan="on"))
            running = asyncio.create_task(server.serve(sockets=[listening]))
            yield listening.getsockname()[1]
            server.should_exit = True
            await running

    async with AsyncExitStack() as stack:
        async with shelf(free_port()) as port:
            address = f"http://127.0.0.1:{port}/mcp"
            if dock:
                config = DockConfig.model_validate({"state": tmp_path / "state", "pools": {"p": {"url": address}}})
                served = await stack.enter_async_context(up(config))
                address = f"{served.url}/mcp"
            server = server_to("kept", ServerConfig(url=address))
            await server.open()
            (keep,) = found_in(server)[1]
            for _ in range(2):
                assert (await keep({}, ToolContext(session="s"))).text == "kept"
        async with shelf(port):
            with pytest.raises(ToolOutageError, match="lost when it ended"):
                await keep({}, ToolContext(session="s"))
            assert (await keep({}, ToolContext(session="t"))).text == "kept"
        with pytest.raises(ToolOutageError, match=r"cannot be reached|lost"):
            await keep({}, ToolContext(session="t"))
        if dock:
            await until(lambda: served.dock.pools["p"].replicas[0].state == "waiting")
        await server.close()


class Waiting(World):
    """A world whose answers come from elsewhere."""

    name, fingerprint, page_count, offline, waits = "elsewhere", "1" * 64, 0, False, True

    async def search(self, query: str, **_: object) -> SearchReply:
        await asyncio.sleep(0.001)
        return SearchReply(query, (), ToolStatus.EMPTY)

    async def visit(self, url: str, goal: str = "", **_: object) -> VisitReply:
        await asyncio.sleep(0.001)
        return VisitReply(url, "", "", ToolStatus.GONE)


async def test_a_world_that_waits_can_be_served(monkeypatch: pytest.MonkeyPatch) -> None:
    settings, ready = ServerSettings(port=0, token="t"), asyncio.get_running_loop().create_future()
    running = asyncio.create_task(serving(create_app(Waiting(), settings), settings, ready.set_result))
    url = f"{await ready}/mcp"
    with pytest.raises(ToolOutageError, match=r"401|token"):
        await server_to("w", ServerConfig(url=url)).open()
    monkeypatch.setenv("ITS_TOKEN", "t")
    server = server_to("w", ServerConfig(url=url, token="env:ITS_TOKEN"))
    await server.open()
    (there,), _ = found_in(server)
    assert (await there.search("x")).status is ToolStatus.EMPTY and (await there.visit("y")).status is ToolStatus.GONE
    await server.close()
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


async def test_worlds_and_tools_are_served_together(tmp_path: Path, mine: Path) -> None:
    build_world(tmp_path / "w", [Page(url="https://w.example/1", title="Kent", text="The Kent.")], name="w", source="test")
    server = server_to("all", ServerConfig(command=(*words(mine), "--world", str(tmp_path / "w"))))
    await server.open()
    (there,), tools = found_in(server)
    assert await there.search("Kent") == await open_as_met(tmp_path / "w").search("Kent") and len(tools) == 5
    await server.close()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ([], "Name a place to search"),
        (["--host", "0.0.0.0", "--port", "0", "--web"], "lets other machines in"),
        (["--host", "0.0.0.0"], "leave --host and --token-env out"),
        (["--token-env", "NOT_SET_ANYWHERE"], "NOT_SET_ANYWHERE is not set"),
        (["--tool", "nowhere.py:x"], "nowhere.py"),
    ],
)
def test_a_wrong_wish_is_one_sentence(options: list[str], said: str) -> None:
    done = CliRunner().invoke(app, ["serve", *options])
    assert isinstance(done.exception, UserError) and said in str(done.exception)
