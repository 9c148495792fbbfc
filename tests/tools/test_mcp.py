"""Tools of MCP servers as an agent has them: worlds and tools whole, other servers' with whatever they are."""

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from loopback import Quiet, listening

pytest.importorskip("mcp", reason="tool servers need the extra serve")

from sanderling.agent.opening import AgentConfig, opened_agent
from sanderling.cli.options import servers
from sanderling.core.errors import UserError
from sanderling.core.record import Question
from sanderling.core.types import Ending, ToolStatus
from sanderling.tools.contract import ToolContext, ToolOutageError, keeper_of, settings_of
from sanderling.tools.mcp.config import ServerConfig, connection_to, opened_servers, server_to
from sanderling.tools.mcp.server import ToolServer
from sanderling.tools.mcp.tools import McpTool, RemoteWorld, found_in
from sanderling.world.contract import Occasion, Page
from sanderling.world.disk.building import build_world
from sanderling.world.disk.store import open_as_met

ODD = Path(__file__).parent.parent / "odd_server.py"
PAGES = [
    Page(url=f"https://w.example/{n}", title=f"Page {n}", text=f"The river Kent passes town {n}.\n\n" * 40) for n in range(9)
]
MODEL = """
def model(messages, key):
    if key.turn == 0:
        return '<think>x</think><tool_call>{"name": "search", "arguments": {"query": ["Kent"]}}</tool_call>'
    if key.turn == 1:
        return '<think>x</think><tool_call>{"name": "visit", "arguments": {"url": ["https://w.example/3"]}}</tool_call>'
    return "<think>x</think><answer>Kent</answer>"
"""


def odd(how: str, *more: str, **config: object) -> ServerConfig:
    return ServerConfig.model_validate({"command": (sys.executable, str(ODD), how, *more), **config})


def served(world: Path, **config: object) -> ServerConfig:
    words = (sys.executable, "-m", "sanderling", "tools", "serve", "--world", str(world))
    return ServerConfig.model_validate({"command": words, **config})


@asynccontextmanager
async def opened(config: ServerConfig, name: str = "odd") -> AsyncIterator[ToolServer]:
    server = server_to(name, config)
    try:
        await server.open()
        yield server
    finally:
        await server.close()


@asynccontextmanager
async def tools(config: ServerConfig) -> AsyncIterator[dict[str, McpTool]]:
    async with opened(config) as server:
        yield {tool.spec.name: tool for tool in found_in(server)[1]}


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    build_world(tmp_path_factory.mktemp("mcp") / "w", PAGES, name="w", source="test")
    return tmp_path_factory.getbasetemp() / "mcp0" / "w"


async def test_a_world_behind_a_server_is_the_world(world: Path) -> None:
    here = open_as_met(world)
    async with opened(served(world)) as server:
        (there,), others = found_in(server)
        assert isinstance(there, RemoteWorld) and not others
        told = there.name, there.fingerprint, there.page_count, there.offline
        assert told == (here.name, here.fingerprint, here.page_count, here.offline)
        occasion = Occasion(masked=frozenset({"https://w.example/0"}), question="q", occurrence=2)
        for query in ("Kent", "town 3", "", "zzz"):
            asked = {"limit": 4, "snippet_words": 9, "occasion": occasion}
            assert await there.search(query, **asked) == await here.search(query, **asked)
        many, asked = [f"town {n % 9}" for n in range(250)], {"limit": 1_000, "snippet_words": 9}
        assert await there.search_many(many, **asked) == await here.search_many(many, **asked)
        for url in ("https://w.example/1", "https://w.example/0", "https://w.example/1#page=2", "nowhere"):
            asked = {"max_words": 40, "occasion": occasion}
            assert await there.visit(url, "town", **asked) == await here.visit(url, "town", **asked)


async def test_an_episode_is_the_same_in_process_and_behind_a_server(world: Path, tmp_path: Path) -> None:
    (tmp_path / "m.py").write_text(MODEL)
    records = []
    for place in ({"worlds": (world,)}, {"mcp": {"far": served(world)}}):
        config = AgentConfig.model_validate({"model": f"{tmp_path / 'm.py'}:model", **place})
        async with opened_agent(config) as agent:
            record = await agent.run(Question(id="q", text="Which river?"))
        assert record.ending is Ending.ANSWERED
        records.append(record.model_dump_json(exclude={"seconds": True, "nodes": {"__all__": {"seconds"}}}))
    assert records[0] == records[1]


async def test_a_server_s_tools_are_called_with_checked_arguments(tmp_path: Path) -> None:
    async with tools(odd("good", str(tmp_path / "n"))) as found:
        assert sorted(found) == ["count", "die", "echo", "env", "pid", "sleep"]
        assert keeper_of(found["echo"]) is None, "a journal would call it again after a kill"
        said = await found["echo"]({"text": "hi"}, ToolContext())
        assert (said.text, said.status) == ("hi", ToolStatus.OK)
        failed = await found["echo"]({"text": "fail"}, ToolContext())
        assert (failed.text, failed.status) == ("fail", ToolStatus.FAILED)
        wrong = await found["echo"]({"text": 3}, ToolContext())
        assert wrong.status is ToolStatus.BAD_ARGUMENTS and "text" in wrong.text


async def test_a_call_may_take_longer_than_others_wait_and_is_stopped_on_time(tmp_path: Path) -> None:
    async with tools(odd("good")) as found:
        assert all(settings_of(tool) == [sys.executable, str(ODD), "good"] for tool in found.values())  # another is another
        assert (await found["sleep"]({"seconds": 0.4}, ToolContext())).text == "slept"
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.2):
                await found["sleep"]({"seconds": 5}, ToolContext())
    async with opened(odd("good")) as server:
        heard: list[float] = []

        async def progress(done: float, total: float | None, words: str | None) -> None:
            heard.append(done)

        await server.call("sleep", {"seconds": 0.3}, progress=progress)
        assert heard == sorted(heard) and len(heard) >= 2


@pytest.mark.parametrize(
    ("how", "start_s", "sentence"),
    [
        ("die", 60.0, "exit status 3 (cannot start: the disk is full)"),
        ("hang", 1.0, "did not answer within 1 seconds"),
    ],
)
async def test_a_server_that_does_not_come_up_says_why(how: str, start_s: float, sentence: str) -> None:
    with pytest.raises(UserError, match="does not come up") as error:
        async with opened_servers({"odd": odd(how, start_s=start_s)}):
            pass
    assert sentence in str(error.value)
    with pytest.raises(UserError, match="no command or folder"):
        async with opened_servers({"odd": ServerConfig(command=("no-such-command",))}):
            pass


@pytest.mark.parametrize(
    ("how", "tool", "sentence"),
    [
        ("good", "die", "exit status 7 (asked to die)"),
        ("broken", "echo", "wrote a reply that cannot be read"),
        ("unread", "echo", "wrote a reply that cannot be read"),
        ("heir", "die", "exit status 7 (asked to die)"),
        ("huge", "echo", "a line of more than 1,048,576 bytes"),
    ],
)
async def test_a_server_that_breaks_is_an_outage_with_its_reason_and_started_again_for_the_next_call(
    how: str, tool: str, sentence: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if how == "heir":  # the others end by themselves, and how is known in that time
        monkeypatch.setattr("sanderling.tools.mcp.process._GRACE_S", 0.2)
    async with tools(odd(how, reply_mb=1)) as found:
        with pytest.raises(ToolOutageError) as error:
            await found[tool]({"text": "x"}, ToolContext())
        assert sentence in str(error.value)
        said = await found["env"]({"text": "HOME"}, ToolContext())
        assert said.status is ToolStatus.OK


async def test_only_what_does_no_harm_is_called_again(tmp_path: Path) -> None:
    """A child that dies at its second call: an idempotent tool's call is made again, another's never."""
    async with tools(odd("mortal", str(tmp_path / "n"))) as found:
        assert (await found["count"]({}, ToolContext())).text == "1"
        with pytest.raises(ToolOutageError, match="killed by SIGKILL"):
            await found["count"]({}, ToolContext())
        assert (tmp_path / "n").read_text() == "2"
        assert (await found["echo"]({"text": "a"}, ToolContext())).text == "a"
        assert (await found["echo"]({"text": "b"}, ToolContext())).text == "b"


async def test_a_server_that_does_not_come_back_is_not_started_at_every_call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sanderling.tools.mcp.server._FIRST_PAUSE_S", 600.0)  # longer than nine calls take anywhere
    async with tools(odd("once", str(tmp_path / "n"))) as found:
        for _ in range(9):
            with pytest.raises(ToolOutageError, match=r"asked to die|only once"):
                await found["die"]({}, ToolContext())
        assert int((tmp_path / "n").read_text()) <= 3


async def test_an_episode_that_is_cancelled_while_a_server_starts_leaves_nothing() -> None:
    server = server_to("odd", odd("hang"))
    opening = asyncio.create_task(server.open())
    async with asyncio.timeout(20):  # of the 30 that it may take to start
        while not (server.process and server.process.pid):  # noqa: ASYNC110 - nothing tells us
            await asyncio.sleep(0.01)
    opening.cancel()
    with pytest.raises(asyncio.CancelledError):
        await opening
    with pytest.raises(ProcessLookupError):
        os.kill(server.process.pid, 0)
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_arguments_that_no_reader_takes_harm_nobody() -> None:
    async with tools(odd("good")) as found:
        assert (await found["echo"]({"text": "a\ud800b\u2028c"}, ToolContext())).text == "a?b\u2028c"
        assert (await found["echo"]({"text": "y", "more": float("nan")}, ToolContext())).status is ToolStatus.BAD_ARGUMENTS
        deep: list[object] = []
        for _ in range(100_000):
            deep = [deep]
        assert (await found["echo"]({"text": "y", "more": deep}, ToolContext())).status is ToolStatus.BAD_ARGUMENTS
        assert (await found["echo"]({"text": "z" * 3_000_000}, ToolContext())).text.startswith("zzz")
    async with tools(odd("half")) as found:
        assert (await found["echo"]({"text": "x"}, ToolContext())).text == "? is half a pair"


async def test_a_child_that_hangs_costs_one_call(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sanderling.tools.mcp.server._LOOK_S", 0.5)
    monkeypatch.setattr("sanderling.tools.mcp.process._GRACE_S", 0.2)
    async with tools(odd("good")) as found:
        before = (await found["pid"]({}, ToolContext())).text
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.2):
                await found["sleep"]({"seconds": 60}, ToolContext())
        assert (await found["pid"]({}, ToolContext())).text != before
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.1):
                await found["sleep"]({"seconds": 0.3}, ToolContext())
        before = (await found["pid"]({}, ToolContext())).text
        assert (await found["pid"]({}, ToolContext())).text == before, "it answers"


async def test_names_that_no_model_s_server_takes() -> None:
    async with opened(odd("names")) as server:
        found = found_in(server, taken=("search", "echo"))[1]
        names = [tool.spec.name for tool in found]
        assert len(set(names)) == len(names) == 12, "one that is listed twice is one"
        assert not {"search", "echo"} & {*names}
        assert all(re.fullmatch(r"[A-Za-z0-9_-]{1,64}", name) for name in names)
        assert [(await tool({"text": "x"}, ToolContext())).text for tool in found] == ["x"] * len(found)


@pytest.mark.parametrize(
    ("how", "told"), [("names", "odd_search (its search), echo, a_search (its search), b_search"), ("good", "")]
)
async def test_other_names_of_tools_than_their_server_s_are_told(tmp_path: Path, how: str, told: str) -> None:
    (tmp_path / "m.py").write_text("def model(messages, key):\n    return '<answer>x</answer>'\n")
    config = AgentConfig(model=f"{tmp_path / 'm.py'}:model", profile="general", mcp={"odd": odd(how)})
    lines = list[str]()
    async with opened_agent(config, notice=lines.append):
        assert told in "".join(lines) and len(lines) == bool(told)


async def test_a_schema_that_refers_elsewhere_opens_no_connection() -> None:
    reached = list[str]()

    class Elsewhere(Quiet):
        def do_GET(self) -> None:
            reached.append(self.path)
            self.say({"type": "string"})

    with listening(Elsewhere) as url:
        async with tools(odd("elsewhere", f"{url}/schema")) as found:
            assert (await found["echo"]({"text": "x"}, ToolContext())).text == "x"
    assert not reached


async def test_closing_waits_for_no_server_that_is_being_started_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that was well once, and hangs when it is started again."""
    monkeypatch.setattr("sanderling.tools.mcp.client._CLOSE_S", 0.5)
    monkeypatch.setattr("sanderling.tools.mcp.process._GRACE_S", 0.2)
    fresh = iter([odd("good"), odd("hang"), odd("hang")])
    server = ToolServer(lambda: connection_to("odd", next(fresh)))
    await server.open()
    found = {tool.spec.name: tool for tool in found_in(server)[1]}
    with pytest.raises(ToolOutageError):
        await found["die"]({}, ToolContext())
    waiting = asyncio.create_task(found["env"]({"text": "HOME"}, ToolContext()))
    await asyncio.sleep(0.3)
    async with asyncio.timeout(20):  # of the 30 that it may take to start
        await server.close()
    with pytest.raises(ToolOutageError):
        await waiting


async def test_a_server_that_serves_another_world_than_before_is_an_outage(world: Path, tmp_path: Path) -> None:
    build_world(tmp_path / "other", PAGES[:3], name="w", source="test")
    fresh = iter([served(world), served(tmp_path / "other")])
    server = ToolServer(lambda: connection_to("far", next(fresh)))
    await server.open()
    (there,), _ = found_in(server)
    assert server.process
    os.kill(server.process.pid, signal.SIGKILL)
    await server.process.over.wait()
    with pytest.raises(OSError, match="other worlds than before"):
        await there.search("Kent")
    await server.close()


@pytest.mark.parametrize("how", ["strict", "stray"])
async def test_a_server_that_ends_at_what_is_newer_than_itself_or_prints_between_messages_is_met_as_it_is(how: str) -> None:
    async with tools(odd(how)) as found:
        assert (await found["echo"]({"text": "hi"}, ToolContext())).text == "hi"


async def test_a_result_that_breaks_its_tool_s_promise_is_a_failure() -> None:
    async with tools(odd("promise")) as found:
        said = await found["echo"]({"text": "hi"}, ToolContext())
        assert said.status is ToolStatus.FAILED and "structured" in said.text
        assert (await found["env"]({"text": "HOME"}, ToolContext())).status is ToolStatus.OK


KILLED = """
import asyncio, sys
from sanderling.tools.mcp.config import ServerConfig, server_to

async def main():
    server = server_to("odd", ServerConfig(command=tuple(sys.argv[1:])))
    await server.open()
    print(server.process.pid, flush=True)
    await asyncio.sleep(600)

asyncio.run(main())
"""


@pytest.mark.parametrize("path", [os.environ["PATH"], "/nowhere"], ids=["tied", "untied"])
def test_a_server_does_not_outlive_us_however_we_end(path: str) -> None:
    """Where util-linux is not there to tie it to us, it notices that its input has ended."""
    words = [sys.executable, "-c", KILLED, sys.executable, str(ODD), "good"]
    ours = subprocess.Popen(words, stdout=subprocess.PIPE, text=True, env={**os.environ, "PATH": path})
    assert ours.stdout
    pid = int(ours.stdout.readline())
    ours.kill()
    ours.wait()
    ours.stdout.close()
    for _ in range(3_000):
        try:
            if " Z " in Path(f"/proc/{pid}/stat").read_text():
                break
        except OSError:  # it is gone, perhaps while it is looked at
            break
        time.sleep(0.02)
    else:
        pytest.fail("it goes on")


async def test_nothing_is_left_open_when_servers_come_and_go(tmp_path: Path) -> None:
    before = len(os.listdir("/proc/self/fd"))  # noqa: PTH208
    for _ in range(3):
        async with tools(odd("good")) as found:
            for _ in range(2):
                with pytest.raises(ToolOutageError):
                    await found["die"]({}, ToolContext())
            pid = int((await found["pid"]({}, ToolContext())).text)
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)
    for _ in range(1_000):  # streams of one that has ended are closed a moment later
        if (left := len(os.listdir("/proc/self/fd"))) <= before:  # noqa: PTH208
            break
        await asyncio.sleep(0.01)
    assert left <= before
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_a_server_has_the_memory_that_it_was_given_and_no_more() -> None:
    async with tools(odd("huge", memory_mb=90, reply_mb=200)) as found:
        assert (await found["env"]({"text": "PATH"}, ToolContext())).status is ToolStatus.OK
        with pytest.raises(ToolOutageError, match="MemoryError"):
            await found["echo"]({"text": "x"}, ToolContext())
    async with tools(odd("huge", reply_mb=200)) as found:
        assert len((await found["echo"]({"text": "x"}, ToolContext())).text) > 100_000


async def test_a_schema_that_is_none_is_refused_unless_its_tool_is_left_out() -> None:
    async with opened(odd("lie")) as server:
        with pytest.raises(UserError, match="schema that is none"):
            found_in(server)
        assert [tool.spec.name for tool in found_in(server, ("env", "sl*"))[1]] == ["env", "sleep"]
        with pytest.raises(UserError, match=r"no tool 'nothing'"):
            found_in(server, ("nothing",))


async def test_a_server_has_the_secrets_that_it_was_given_and_no_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HERS", "s1")
    monkeypatch.setenv("OTHERS", "s2")
    (tmp_path / "key").write_text("s3\n")
    config = odd(
        "good",
        env={"PLAIN": "p"},
        secrets=dict.fromkeys(("KEY", "SAID"), "env:HERS") | {"FILE": f"file:{tmp_path / 'key'}"},
    )
    async with tools(config) as found:
        values = {name: (await found["env"]({"text": name}, ToolContext())).text for name in ("PLAIN", "KEY", "FILE", "OTHERS")}
        with pytest.raises(ToolOutageError, match=r"\(asked to die\*\*\*\)"):  # its log is shown to others
            await found["die"]({}, ToolContext())
    assert values == {"PLAIN": "p", "KEY": "s1", "FILE": "s3", "OTHERS": "(not set)"}
    with pytest.raises(UserError, match="MISSING is not set"):
        connection_to("odd", odd("good", secrets={"KEY": "env:MISSING"}))
    with pytest.raises(UserError, match="env:NAME or file:PATH"):
        connection_to("odd", odd("good", secrets={"KEY": "sk-123"}))


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({}, "either a command or a url"),
        ({"command": ["x"], "url": "http://x"}, "either a command or a url"),
        ({"url": "ftp://x"}, "http"),
        ({"command": ["x"], "token": "env:T"}, "token"),
    ],
)
def test_wrong_settings_are_told(settings: dict[str, object], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        ServerConfig.model_validate(json.loads(json.dumps(settings)))


def test_servers_are_named_by_their_host_script_or_program() -> None:
    given = ["http://127.0.0.1:9/mcp", "https://a.example/mcp", "npx -y @scope/server@2 'a b'", "/opt/npx server"]
    given += ["python3 -u lib/srv.py", "uv run srv.py", "/opt/notes-server x.py", "python3 -c 'import x; x.run()'"]
    assert servers(given, "agent.mcp") == {
        "agent.mcp.127-0-0-1.url": "http://127.0.0.1:9/mcp",
        "agent.mcp.a-example.url": "https://a.example/mcp",
        "agent.mcp.server.command": ["npx", "-y", "@scope/server@2", "a b"],
        "agent.mcp.server-2.command": ["/opt/npx", "server"],
        "agent.mcp.srv.command": ["python3", "-u", "lib/srv.py"],
        "agent.mcp.srv-2.command": ["uv", "run", "srv.py"],
        "agent.mcp.notes-server.command": ["/opt/notes-server", "x.py"],
        "agent.mcp.python3.command": ["python3", "-c", "import x; x.run()"],
    }
    for odd in ("", "'", "   "):
        with pytest.raises(UserError, match="neither a URL nor a command"):
            servers([odd], "agent.mcp")


async def test_a_dock_is_an_address() -> None:
    with pytest.raises(ValueError, match="begin with http"):
        AgentConfig(dock="127.0.0.1:8020")
