"""What serving a world costs over asking it in the process: p50 and p99 of one connection, requests/s of eight, by dialect.

    python benchmarks/world_serving.py WORLD [--requests 1000] [--out benchmarks/results/world_serving.json]

The server is a process of its own, kept to one core where the system allows it; the client (plain ``http.client``, connections
kept open, one thread each) stays on another. Queries are the first ten words of the world's pages, drawn with a fixed seed.
"""

import argparse
import http.client
import json
import os
import random
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

import sanderling
from sanderling.runs.files import replace_file
from sanderling.runs.progress import machine
from sanderling.world.contract import answered
from sanderling.world.disk.store import open_world
from sanderling.world.local import LocalWorld

CONNECTIONS = 8
WARM_UP = 100
SEEDS = ("river town", "poet", "school", "museum", "born", "founded")


@dataclass(frozen=True)
class Call:
    """One request."""

    method: str
    path: str
    body: str | None = None


def inputs(world: LocalWorld, count: int) -> tuple[list[str], list[str]]:
    """Queries and addresses, found by searching the world itself."""
    urls = sorted({hit.url for seed in SEEDS for hit in answered(world.search(seed, limit=200)).hits})
    texts = [answered(world.visit(url, max_words=10)).text for url in urls]
    rng = random.Random(0)
    return [rng.choice(texts) for _ in range(count)], [rng.choice(urls) for _ in range(count)]


def routes(queries: list[str], urls: list[str]) -> dict[str, list[Call]]:
    """The same questions in several dialects."""
    calls: dict[str, Callable[[str, str], Call]] = {
        "native search": lambda q, _: Call("POST", "/v1/search", json.dumps({"queries": [q]})),
        "native visit": lambda q, u: Call("POST", "/v1/visit", json.dumps({"urls": [u], "goal": q})),
        "Serper search": lambda q, _: Call("POST", "/search", json.dumps({"q": q})),
        "Jina page": lambda _, u: Call("GET", f"/r/{u}"),
        "LiteResearcher search": lambda q, _: Call("POST", "/search", json.dumps({"query": q})),
        "LiteResearcher browse": lambda q, u: Call("POST", "/query", json.dumps({"url": u, "goal": q})),
        "Search-R1 retrieve, 3 passages": lambda q, _: Call("POST", "/retrieve", json.dumps({"queries": [q]})),
        "MCP search": lambda q, _: Call("POST", "/mcp", json.dumps(_mcp("search", {"queries": [q]}))),
    }
    return {name: [make(q, u) for q, u in zip(queries, urls, strict=True)] for name, make in calls.items()}


def _mcp(tool: str, arguments: dict[str, object]) -> dict[str, object]:
    return {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": tool, "arguments": arguments}}


def ask(place: tuple[str, int], calls: list[Call]) -> list[float]:
    """Seconds of each request over one connection. Raises RuntimeError for a refusal."""
    connection = http.client.HTTPConnection(*place)
    headers = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
    seconds = []
    for call in calls:
        began = time.perf_counter()
        connection.request(call.method, call.path, call.body, headers)
        reply = connection.getresponse()
        body = reply.read()
        seconds.append(time.perf_counter() - began)
        if reply.status != 200:
            raise RuntimeError(f"{call}: {reply.status} {body[:200]!r}")
    connection.close()
    return seconds


def measure(place: tuple[str, int], calls: list[Call]) -> tuple[float, float, float]:
    """p50 and p99 in milliseconds over one connection, then requests/s over several."""
    ask(place, calls[:WARM_UP])
    alone = ask(place, calls)
    parts = [calls[i::CONNECTIONS] for i in range(CONNECTIONS)]
    began = time.perf_counter()
    with ThreadPoolExecutor(CONNECTIONS) as pool:
        list(pool.map(lambda part: ask(place, part), parts))
    return *_percentiles(alone), len(calls) / (time.perf_counter() - began)


def _percentiles(seconds: list[float]) -> tuple[float, float]:
    cuts = statistics.quantiles(seconds, n=100)
    return cuts[49] * 1e3, cuts[98] * 1e3


def in_process(call: Callable[[int], object], count: int) -> list[float]:
    """Seconds of each call without a server."""
    seconds = []
    for i in range(count):
        began = time.perf_counter()
        call(i)
        seconds.append(time.perf_counter() - began)
    return seconds


def start(directory: Path, core: int | None) -> tuple[subprocess.Popen[str], tuple[str, int]]:
    """A server, and where it listens."""
    code = "from sanderling.cli.main import main; main()"
    command = [sys.executable, "-c", code, "world", "serve", str(directory), "--port", "0", "--set", "threads=1"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    if core is not None:
        os.sched_setaffinity(process.pid, {core})
    assert process.stderr is not None
    line = process.stderr.readline()
    found = re.search(r"http://([\d.]+):(\d+)", line)
    if found is None:
        raise RuntimeError(line + process.stderr.read())
    return process, (found[1], int(found[2]))


@dataclass(frozen=True)
class Row:
    """What one kind of call took."""

    p50_ms: float
    p99_ms: float
    requests_s: float


def show(name: str, row: Row) -> None:
    """A line of the Markdown table."""
    print(f"| {name} | {row.p50_ms:.2f} | {row.p99_ms:.2f} | {row.requests_s:,.0f} |", flush=True)


def keep(out: Path, world: LocalWorld, requests: int, rows: dict[str, Row]) -> None:
    """Write the figures of this world beside those of others."""
    worlds = json.loads(out.read_text(encoding="utf-8"))["worlds"] if out.exists() else {}
    worlds[world.name] = {
        "pages": world.page_count,
        "requests": requests,
        "machine": machine(),
        "date": datetime.now(UTC).date().isoformat(),
        "calls": {name: {key: round(value, 3) for key, value in asdict(row).items()} for name, row in rows.items()},
    }
    command = "python benchmarks/world_serving.py WORLD --out benchmarks/results/world_serving.json"
    data = {"command": command, "version": sanderling.__version__, "connections": CONNECTIONS, "worlds": worlds}
    replace_file(out, json.dumps(data, indent=1) + "\n")


def main() -> None:
    """Measure, print a Markdown table, and keep it if a file is named."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("world", type=Path)
    parser.add_argument("--requests", type=int, default=1_000)
    parser.add_argument("--out", type=Path, help="JSON file; figures of other worlds in it stay")
    options = parser.parse_args()
    world = open_world(options.world)
    queries, urls = inputs(world, options.requests)
    rows: dict[str, Row] = {}
    cores = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
    two = len(cores) > 1
    process, place = start(options.world, cores[0] if two else None)
    try:
        if two:
            os.sched_setaffinity(0, {cores[1]})
        print(f"{world.name}: {world.page_count:,} pages; {options.requests:,} requests each, {CONNECTIONS} connections\n")
        print("| | p50 ms | p99 ms | requests/s |\n|---|---|---|---|")
        for name, call in (
            ("in the process: search", lambda i: answered(world.search(queries[i]))),
            ("in the process: visit", lambda i: answered(world.visit(urls[i], queries[i]))),
        ):
            in_process(call, WARM_UP)
            seconds = in_process(call, options.requests)
            rows[name] = Row(*_percentiles(seconds), len(seconds) / sum(seconds))
            show(name, rows[name])
        for name, calls in routes(queries, urls).items():
            rows[name] = Row(*measure(place, calls))
            show(name, rows[name])
    finally:
        process.terminate()
        process.wait(20)
    if options.out is not None:
        keep(options.out, world, options.requests, rows)


if __name__ == "__main__":
    main()
