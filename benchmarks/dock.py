"""What a dock costs and what it withstands: calls at a steady rate beside the server's own, and many while replicas are killed.

    python benchmarks/dock.py [--calls 100000] [--rate 100] [--seconds 60] [--out benchmarks/results/dock.json]

Sessions are connections that stay open and have the calls in turn; calls are sent when their time has come, whatever earlier
ones do. The server is `tests/odd_server.py` behind the dock; without it, the same tool behind an HTTP server of the same
library. Direct and docked calls take turns. Then calls of a tool that may be made again, and of one that may not, are sent by
24 clients while a replica is killed every few seconds.
"""

import argparse
import asyncio
import datetime
import json
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

import httpx

from sanderling.runs.progress import machine

ROOT = Path(__file__).parent.parent
ODD = ROOT / "tests" / "odd_server.py"
META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": {"name": "benchmark", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}
DIRECT = """
import sys
import mcp_types as t
import uvicorn
from mcp.server.lowlevel.server import Server
SCHEMA = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
async def listed(context, params):
    return t.ListToolsResult(tools=[t.Tool(name="echo", description="Says it again.", input_schema=SCHEMA)])
async def called(context, params):
    return t.CallToolResult(content=[t.TextContent(text=params.arguments["text"])])
server = Server("direct", on_list_tools=listed, on_call_tool=called, get_tool_input_schema=lambda name: SCHEMA)
app = server.streamable_http_app(streamable_http_path="/mcp", json_response=True, stateless_http=True)
uvicorn.run(app, port=int(sys.argv[1]), log_level="warning", access_log=False, timeout_keep_alive=3_600)
"""


class Session:
    """One connection that is kept, and as little work of our own as can be."""

    def __init__(self, port: int) -> None:
        self._port, self._lock = port, asyncio.Lock()
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def post(self, path: str, body: Any, headers: str = "") -> tuple[int, Any]:
        async with self._lock, asyncio.timeout(60):
            if self._streams is None:
                self._streams = await asyncio.open_connection("127.0.0.1", self._port)
            read, write = self._streams
            data = json.dumps(body).encode()
            head = f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1:{self._port}\r\nContent-Type: application/json\r\n{headers}"
            write.write(f"{head}Content-Length: {len(data)}\r\n\r\n".encode() + data)
            head = (await read.readuntil(b"\r\n\r\n")).decode()
            size = int(re.search(r"content-length: (\d+)", head, re.IGNORECASE)[1])  # type: ignore[index]
            return int(head.split(" ", 2)[1]), json.loads(await read.readexactly(size))

    async def mcp(self, tool: str, arguments: Any) -> tuple[int, Any]:
        params = {"name": tool, "arguments": arguments, "_meta": META}
        headers = "Accept: application/json, text/event-stream\r\nMCP-Protocol-Version: 2026-07-28\r\n"
        headers += f"Mcp-Method: tools/call\r\nMcp-Name: {tool}\r\n"
        return await self.post("/mcp", {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}, headers)

    async def plain(self, tool: str, arguments: Any) -> tuple[int, Any]:
        return await self.post(f"/mcpapi/tool/{tool}", arguments)

    def close(self) -> None:
        if self._streams is not None:
            self._streams[1].close()


def toml(pools: dict[str, Any], state: Path, port: int) -> str:
    """A dock's settings."""
    lines = [f"port = {port}", f"state = {json.dumps(str(state))}"]
    for name, pool in pools.items():
        lines += [f"[pools.{name}]", *(f"{key} = {json.dumps(value)}" for key, value in pool.items())]
    return "\n".join(lines)


class Dock:
    """A dock in a process of its own."""

    def __init__(self, directory: Path, pools: dict[str, Any], port: int) -> None:
        (directory / "dock.toml").write_text(toml(pools, directory / "state", port))
        words = [sys.executable, "-m", "sanderling", "dock", "up", str(directory / "dock.toml")]
        self.process = subprocess.Popen(words, stderr=subprocess.PIPE, text=True)
        self.port = port
        assert self.process.stderr
        self.process.stderr.readline()
        self.url = f"http://127.0.0.1:{port}"
        while not all(pool["tools"] for pool in self.state()["pools"]):
            time.sleep(0.1)

    def state(self) -> Any:
        return httpx.get(f"{self.url}/dock/state", trust_env=False).json()

    def replicas(self, pool: str) -> list[Any]:
        return next(one["replicas"] for one in self.state()["pools"] if one["name"] == pool)

    def memory_mb(self) -> float:
        return int(Path(f"/proc/{self.process.pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20

    def files(self) -> int:
        return len(list(Path(f"/proc/{self.process.pid}/fd").iterdir()))

    def zombies(self) -> int:
        found = 0
        for child in Path("/proc").glob("[0-9]*/stat"):
            try:
                state, parent = child.read_text().rpartition(")")[2].split()[:2]
            except OSError:
                continue
            found += state == "Z" and int(parent) == self.process.pid
        return found

    def stop(self) -> None:
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(30)


def shares(times: list[float]) -> dict[str, float]:
    """Milliseconds below which so many of a hundred lie."""
    times = sorted(times)
    return {f"p{p}": round(times[min(len(times) - 1, len(times) * p // 100)] * 1_000, 3) for p in (50, 90, 99)}


async def steady(sessions: list[Session], how: str, tool: str, rate: float, seconds: float) -> list[float]:
    """Times of calls that begin at a steady rate, each in the session whose turn it is."""
    times: list[float] = []
    began, running = time.perf_counter(), list[asyncio.Task[None]]()

    async def one(number: int) -> None:
        at = time.perf_counter()
        status, reply = await getattr(sessions[number % len(sessions)], how)(tool, {"text": f"call {number}"})
        assert status == 200 and f"call {number}" in json.dumps(reply), reply
        times.append(time.perf_counter() - at)

    for number in range(int(rate * seconds)):
        await asyncio.sleep(max(0.0, began + number / rate - time.perf_counter()))
        running.append(asyncio.create_task(one(number)))
    await asyncio.gather(*running)
    return times


async def overhead(rate: float, seconds: float, rounds: int) -> dict[str, Any]:
    """Times of calls to the server itself, and through a dock over MCP and over the plain route."""
    with tempfile.TemporaryDirectory() as directory:
        direct = await asyncio.to_thread(subprocess.Popen, [sys.executable, "-c", DIRECT, "9170"])
        dock = Dock(Path(directory), {"p": {"command": [sys.executable, str(ODD), "good"], "replicas": 2}}, 9171)
        arms = {"direct": (9170, "mcp", "echo"), "dock, MCP": (9171, "mcp", "p.echo"), "dock, plain": (9171, "plain", "p.echo")}
        sessions = {name: [Session(port) for _ in range(200)] for name, (port, _, _) in arms.items()}
        times: dict[str, list[float]] = {name: [] for name in arms}
        for name, (_, how, tool) in arms.items():  # every connection is open before the first call counts
            await steady(sessions[name], how, tool, rate, 200 / rate)
        for _ in range(rounds):
            for name, (_, how, tool) in arms.items():
                times[name] += await steady(sessions[name], how, tool, rate, seconds / rounds)
        for one in sessions.values():
            for session in one:
                session.close()
        dock.stop()
        direct.terminate()
    found = {name: shares(one) for name, one in times.items()}
    less = found["direct"]
    more = {name: {p: round(one[p] - less[p], 3) for p in one} for name, one in found.items() if name != "direct"}
    return {"ms": found, "overhead_ms": more, "calls": {name: len(one) for name, one in times.items()}}


async def killed(calls: int, every_s: float) -> dict[str, Any]:
    """Calls of a tool that may be made again and of one that may not, while a replica is killed every few seconds."""
    with tempfile.TemporaryDirectory() as directory:
        counted = Path(directory) / "count"
        pool = {"command": [sys.executable, str(ODD), "good", str(counted)], "replicas": 4, "at_once": 8}
        dock = Dock(Path(directory), {"p": pool}, 9172)
        outcomes: dict[str, Counter[str]] = {"echo": Counter(), "count": Counter()}
        numbers, left, kills = set[str](), iter(range(calls)), 0
        memory: list[float] = []
        stop = asyncio.Event()

        async def worker() -> None:
            session = Session(9172)
            for number in left:
                tool = "count" if number % 10 == 0 else "echo"
                status, reply = await session.plain(f"p.{tool}", {"text": str(number)} if tool == "echo" else {})
                if status == 200 and tool == "echo":
                    outcomes[tool]["result" if reply["content"] == number else "WRONG"] += 1
                elif status == 200:
                    outcomes[tool]["TWICE" if reply["content"] in numbers else "result"] += 1
                    numbers.add(reply["content"])
                else:
                    outcomes[tool][f"outage: {reply.get('kind', status)}"] += 1
            session.close()

        async def killer() -> None:
            nonlocal kills
            while not stop.is_set():
                await asyncio.sleep(every_s)
                memory.append(round(dock.memory_mb(), 1))
                if pids := [one["pid"] for one in await asyncio.to_thread(dock.replicas, "p") if one["pid"]]:
                    os.kill(random.Random(kills).choice(pids), signal.SIGKILL)
                    kills += 1

        before = dock.files()
        began, killing = time.perf_counter(), asyncio.create_task(killer())
        await asyncio.gather(*(worker() for _ in range(24)))
        seconds = time.perf_counter() - began
        stop.set()
        await killing
        await asyncio.sleep(5)
        recovery = [await recovered(dock) for _ in range(10)]
        await asyncio.sleep(2)
        told = {
            "calls": calls,
            "outcomes": {name: dict(one) for name, one in outcomes.items()},
            "lost_silently": calls - sum(sum(one.values()) for one in outcomes.values()),
            "effects_of_count": counted.stat().st_size,
            "kills": kills,
            "calls_per_s": round(calls / seconds, 1),
            "memory_mb": {"after a tenth": memory[len(memory) // 10], "half": memory[len(memory) // 2], "end": memory[-1]},
            "open_files": {"before": before, "after": dock.files()},
            "zombies": dock.zombies(),
            "recovery_s": {"median": sorted(recovery)[5], "longest": max(recovery)},
        }
        pids = [one["pid"] for one in dock.replicas("p")]
        dock.stop()
        return {**told, "processes_left": sum(Path(f"/proc/{pid}").exists() for pid in pids)}  # noqa: ASYNC240


async def recovered(dock: Dock) -> float:
    """Seconds from the death of a replica until it is ready again."""
    await asyncio.sleep(3)  # so often it is killed
    before = (await asyncio.to_thread(dock.replicas, "p"))[0]
    os.kill(before["pid"], signal.SIGKILL)
    began = time.perf_counter()
    while True:
        now = (await asyncio.to_thread(dock.replicas, "p"))[0]
        if now["state"] == "ready" and now["pid"] != before["pid"]:
            return round(time.perf_counter() - began, 2)
        await asyncio.sleep(0.02)


async def beside_slow(rate: float, seconds: float) -> dict[str, Any]:
    """A pool's times alone, and beside another whose every replica sleeps and whose queue is full."""
    with tempfile.TemporaryDirectory() as directory:
        server = {"command": [sys.executable, str(ODD), "good"], "replicas": 2}
        dock = Dock(Path(directory), {"p": server, "slow": {**server, "at_once": 1, "waiting": 64, "wait_s": 300}}, 9173)
        sessions = [Session(9173) for _ in range(50)]
        await steady(sessions, "plain", "p.echo", rate, 1)
        alone = await steady(sessions, "plain", "p.echo", rate, seconds)
        slow = [asyncio.create_task(Session(9173).plain("slow.sleep", {"seconds": 1.0})) for _ in range(60)]
        beside = await steady(sessions, "plain", "p.echo", rate, seconds)
        for one in slow:
            one.cancel()
        await asyncio.gather(*slow, return_exceptions=True)
        dock.stop()
        return {"alone_ms": shares(alone), "beside_ms": shares(beside)}


async def main() -> None:
    """All three, printed as they come."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=100_000)
    parser.add_argument("--rate", type=float, default=100.0)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--every", type=float, default=3.0)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    found: dict[str, Any] = {
        "command": f"python benchmarks/dock.py --calls {given.calls} --rate {given.rate:g} --seconds {given.seconds:g}",
        "machine": machine(),
        "date": datetime.date.today().isoformat(),
        "overhead": {"rate": given.rate, "sessions": 200, **await overhead(given.rate, given.seconds, 4)},
    }
    print(json.dumps(found["overhead"], indent=1))
    found["slow"] = await beside_slow(given.rate, given.seconds / 4)
    print(json.dumps(found["slow"], indent=1))
    found["killed"] = await killed(given.calls, given.every)
    print(json.dumps(found["killed"], indent=1))
    if given.out:
        given.out.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    asyncio.run(main())
