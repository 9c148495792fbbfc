"""MCP servers at an address: sessions, streams, and what is said where there is none, or none that lets us in."""

import asyncio
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar

import pytest
from loopback import Quiet, listening

pytest.importorskip("mcp", reason="tool servers need the extra serve")

from sanderling.agent.opening import AgentConfig, opened_agent
from sanderling.core.record import Question
from sanderling.core.types import ToolStatus
from sanderling.tools.contract import ToolContext, ToolOutageError
from sanderling.tools.mcp.config import ServerConfig, server_to
from sanderling.tools.mcp.server import ToolServer
from sanderling.tools.mcp.tools import McpTool, found_in
from sanderling.world.together import Outgoing

TEXT = {"type": "object", "properties": {"text": {"type": "string"}}}


class Server(Quiet):
    """A server of the protocol's older versions, with sessions; ``how`` says what it does to a call."""

    how = "good"
    sessions: frozenset[str] = frozenset({"s1"})
    seen: ClassVar[list[str]] = []
    refused: ClassVar[threading.Event] = threading.Event()
    """Its question was, by an error."""
    version = "2025-06-18"

    def do_POST(self) -> None:
        message = self.body()
        method, id = message.get("method"), message.get("id")
        self.seen.append(f"{method} {self.headers.get('mcp-session-id')}")
        if method == "initialize":
            about = {"capabilities": {"tools": {}}, "serverInfo": {"name": "odd", "version": "1"}}
            type(self).sessions = frozenset({f"s{len(self.seen)}"})
            name = {"mcp-session-id": next(iter(self.sessions))}
            self.answer(id, {"protocolVersion": self.version, **about}, **name)
        elif self.headers.get("mcp-session-id") not in self.sessions:
            self.say({"jsonrpc": "2.0", "id": id, "error": {"code": -32000, "message": "No valid session ID"}}, 400)
        elif method == "tools/list":
            cursor = (message.get("params") or {}).get("cursor")
            tools = [{"name": f"echo{cursor or ''}", "inputSchema": TEXT}]
            self.answer(id, {"tools": tools, **({} if cursor == "3" else {"nextCursor": str(int(cursor or 0) + 1)})})
        elif method == "tools/call":
            self.call(id, message["params"]["arguments"])
        else:
            if id == 9 and "error" in message:
                self.refused.set()
            self.say(b"", 202)

    def do_DELETE(self) -> None:
        self.seen.append(f"DELETE {self.headers.get('mcp-session-id')}")
        self.say(b"")

    def do_GET(self) -> None:
        self.say({}, 405)

    def answer(self, id: Any, result: dict[str, Any], **headers: str) -> None:
        self.say({"jsonrpc": "2.0", "id": id, "result": result}, **headers)

    def event(self, message: dict[str, Any]) -> None:
        self.wfile.write(f"event: message\ndata: {json.dumps(message)}\n\n".encode())

    def call(self, id: Any, arguments: dict[str, Any]) -> None:
        result = {"content": [{"type": "text", "text": arguments.get("text", "")}]}
        if self.how == "stream":
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream")
            self.send_header("Connection", "close")
            self.end_headers()
            asked = {
                "jsonrpc": "2.0",
                "id": 9,
                "method": "elicitation/create",
                "params": {"message": "?", "requestedSchema": {}},
            }
            self.event(asked)
            if self.refused.wait(30):  # as a server does that needs the answer
                self.event({"jsonrpc": "2.0", "id": id, "result": result})
        elif self.how == "cut":
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", "1000")
            self.end_headers()
            self.wfile.write(b'{"jsonrpc": ')
            self.close_connection = True
        elif self.how == "huge":
            self.answer(id, {"content": [{"type": "text", "text": "x" * 5_000_000}]})
        elif self.how == "page":
            self.say(b"<html>Log in</html>", **{"Content-Type": "text/html; charset=utf-8"})
        elif self.how == "zip":
            self.say(b"\x1f\x8b", **{"Content-Encoding": "gzip"})
        elif self.how == "nonsense":
            self.say({"hello": 1})
        elif self.how == "moved":
            self.say(b"", 302, Location="http://192.0.2.1/mcp?key=secret")
        elif self.how == "other":
            self.answer(999, result)
        elif self.how.isdigit():
            self.say({"error": "No entry today."} if self.how == "418" else b"", int(self.how))
        else:
            self.answer(id, result)


@contextmanager
def serving(how: str = "good", **more: Any) -> Iterator[tuple[str, type[Server]]]:
    one = type("One", (Server,), {"how": how, "seen": [], "refused": threading.Event(), **more})
    with listening(one) as url:
        yield f"{url}/mcp", one


async def opened(url: str, **config: Any) -> tuple[ToolServer, McpTool]:
    server = server_to("odd", ServerConfig(url=url, **config))
    await server.open()
    return server, found_in(server)[1][0]


@pytest.mark.parametrize("version", ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"])
async def test_a_server_with_sessions_is_used_and_told_goodbye(version: str) -> None:
    with serving(version=version) as (url, one):
        server, echo = await opened(url)
        assert [tool.name for tool in server.tools] == ["echo", "echo1", "echo2", "echo3"], "all pages of the list"
        assert (await echo({"text": "hi"}, ToolContext())).text == "hi"
        one.sessions = frozenset()  # started again: it knows nobody
        assert (await echo({"text": "again"}, ToolContext())).text == "again"
        await server.close()
        assert one.seen[-1].startswith("DELETE s")
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_a_server_may_answer_with_a_stream_and_its_questions_are_refused() -> None:
    with serving("stream") as (url, one):
        server, echo = await opened(url)
        assert (await echo({"text": "hi"}, ToolContext())).text == "hi"
        assert one.refused.is_set(), "else it would wait for an answer"
        await server.close()


@pytest.mark.parametrize(
    ("how", "sentence"),
    [
        ("401", "asks for a token"),
        ("403", "does not let us in"),
        ("404", "nothing at this address|session is over"),
        ("418", r"answers 418: No entry today"),
        ("429", "too many requests"),
        ("500", "answers 500"),
        ("503", "answers 503"),
        ("page", "answers a web page"),
        ("zip", "compresses"),
        ("cut", "cannot be reached"),
        ("huge", "more than 1,048,576 bytes"),
        ("nonsense", "."),
        ("moved", r"Redirect to http://192\.0\.2\.1/mcp not followed"),
        ("other", "answers another request"),
        ("202", "202 Accepted"),
    ],
)
async def test_what_is_no_answer_is_an_outage_with_its_reason_and_the_next_call_works(how: str, sentence: str) -> None:
    with serving(how) as (url, one):
        server, echo = await opened(url, reply_mb=1)
        with pytest.raises(ToolOutageError, match=sentence) as error:
            await echo({"text": "hi"}, ToolContext())
        assert len(str(error.value)) < 500 and "\n" not in str(error.value)
        one.how = "good"
        assert (await echo({"text": "hi"}, ToolContext())).text == "hi"
        await server.close()


@pytest.mark.parametrize(
    ("status", "sentence"), [(401, "asks for a token"), (404, "often it ends in /mcp"), (500, "answers 500")]
)
async def test_an_address_where_there_is_no_server_says_so_at_once(status: int, sentence: str) -> None:
    class Other(Quiet):
        def do_POST(self) -> None:
            self.body()
            self.say(b"<html>", status, **{"Content-Type": "text/html"})

    with listening(Other) as url, pytest.raises(ToolOutageError, match=sentence):
        await opened(url)


@pytest.mark.parametrize("url", ["http://127.0.0.1:1/mcp", "http://no-such-host.invalid/mcp"])
async def test_an_address_that_nothing_answers_says_so(url: str) -> None:
    with pytest.raises(ToolOutageError, match="cannot be reached"):
        await opened(url)
    with serving() as (plain, _), pytest.raises(ToolOutageError, match=r"cannot be reached.*SSL"):
        await opened(plain.replace("http:", "https:"))


async def test_a_server_that_never_says_goodbye_holds_nobody_up() -> None:
    class Deaf(Server):
        seen: ClassVar[list[str]] = []

        def do_DELETE(self) -> None:
            self.released.wait(60)

    Deaf.released = threading.Event()  # type: ignore[attr-defined]
    with listening(Deaf) as url:
        server, _ = await opened(f"{url}/mcp")
        await server.close()
        Deaf.released.set()  # type: ignore[attr-defined]


async def test_a_call_that_is_given_up_is_cancelled_there() -> None:
    with serving() as (url, one):
        hanging, begun = threading.Event(), threading.Event()

        def call(self: Server, id: Any, arguments: dict[str, Any]) -> None:
            begun.set()
            hanging.wait(60)
            self.answer(id, {"content": []})

        one.call = call  # type: ignore[method-assign]
        server, echo = await opened(url)
        asking = asyncio.create_task(echo({"text": "x"}, ToolContext()))
        await asyncio.to_thread(begun.wait, 30)
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        for _ in range(3_000):
            if any(said.startswith("notifications/cancelled") for said in one.seen):
                break
            await asyncio.sleep(0.01)
        else:
            pytest.fail("the server was not told")
        hanging.set()
        await server.close()


async def test_a_call_that_runs_when_its_session_is_forgotten_is_not_made_again() -> None:
    begun, running, go_on = list[str](), threading.Event(), threading.Event()

    def call(self: Server, id: Any, arguments: dict[str, Any]) -> None:
        begun.append(arguments["text"])
        running.set()
        if arguments["text"] == "slow":
            go_on.wait(60)
        self.answer(id, {"content": []})

    with serving(call=call) as (url, one):
        server, echo = await opened(url)
        slow = asyncio.create_task(echo({"text": "slow"}, ToolContext()))
        await asyncio.to_thread(running.wait, 30)
        one.sessions = frozenset()
        assert (await echo({"text": "never began"}, ToolContext())).status is ToolStatus.OK
        with pytest.raises(ToolOutageError, match="session is over"):
            await slow
        go_on.set()
        await server.close()
    assert begun == ["slow", "never began"]


MODEL = """
def model(messages, key):
    if key.turn == 0:
        call = '{"name": "search", "arguments": {"query": ["harbour"]}}'
    elif key.turn == 1:
        call = '{"name": "echo", "arguments": {"text": "is the harbour master paid in silver bars every spring?"}}'
    elif key.turn == 2:
        call = '{"name": "echo", "arguments": {"text": "who pays whom"}}'
    else:
        return "<think>x</think><answer>Kent</answer>"
    return f"<think>x</think><tool_call>{call}</tool_call>"
"""


@pytest.mark.parametrize("leaks", ["hold", "allow"])
async def test_what_private_documents_say_is_not_sent_to_a_tool_on_another_machine(
    leaks: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other machine is a proxy here, which is asked for it."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "m.py").write_text(MODEL)
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "a.md").write_text("# Harbour\n\nThe harbour master is paid in silver bars every spring.")
    sent, told = list[str](), list[Outgoing]()

    def call(self: Server, id: Any, arguments: dict[str, Any]) -> None:
        sent.append(arguments["text"])
        self.answer(id, {"content": [{"type": "text", "text": "thanks"}]})

    with serving(call=call) as (url, _):
        monkeypatch.setenv("HTTP_PROXY", url.removesuffix("/mcp"))
        place = {"docs": (tmp_path / "docs",), "mcp": {"far": {"url": "http://tools.example/mcp"}}, "leaks": leaks}
        config = AgentConfig.model_validate({"model": f"{tmp_path / 'm.py'}:model", **place})
        async with opened_agent(config, on_outgoing=told.append) as agent:
            record = await agent.run(Question(id="q", text="Who is paid?"))
    private = "is the harbour master paid in silver bars every spring?"
    assert sent == ([private, "who pays whom"] if leaks == "allow" else ["who pays whom"])
    statuses = [event.status for node in record.nodes for event in node.events]
    assert statuses == [ToolStatus.OK, ToolStatus.OK if leaks == "allow" else ToolStatus.HELD, ToolStatus.OK]
    assert [(one.what, one.sent) for one in told] == [("echo", leaks == "allow"), ("echo", True)]
