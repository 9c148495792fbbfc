"""What serving a world costs over asking it in the process: p50 and p99 of one connection, requests/s of eight, by dialect.

    python benchmarks/world_serving.py WORLD [--requests 1000]

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
from dataclasses import dataclass
from pathlib import Path

from sanderling.world.local import LocalWorld
from sanderling.world.store import open_world

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
    urls = sorted({hit.url for seed in SEEDS for hit in world.search(seed, limit=200).hits})
    texts = [world.visit(url, max_words=10).text for url in urls]
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
    command = [sys.executable, "-c", code, "world", "serve", str(directory), "--port", "0", "--threads", "1"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    if core is not None:
        os.sched_setaffinity(process.pid, {core})
    assert process.stderr is not None
    line = process.stderr.readline()
    found = re.search(r"http://([\d.]+):(\d+)", line)
    if found is None:
        raise RuntimeError(line + process.stderr.read())
    return process, (found[1], int(found[2]))


def main() -> None:
    """Measure and print a Markdown table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("world", type=Path)
    parser.add_argument("--requests", type=int, default=1_000)
    options = parser.parse_args()
    world = open_world(options.world)
    queries, urls = inputs(world, options.requests)
    cores = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
    two = len(cores) > 1
    process, place = start(options.world, cores[0] if two else None)
    try:
        if two:
            os.sched_setaffinity(0, {cores[1]})
        print(f"{world.name}: {world.page_count:,} pages; {options.requests:,} requests each, {CONNECTIONS} connections\n")
        print("| | p50 ms | p99 ms | requests/s |\n|---|---|---|---|")
        for name, call in (
            ("in the process: search", lambda i: world.search(queries[i])),
            ("in the process: visit", lambda i: world.visit(urls[i], queries[i])),
        ):
            in_process(call, WARM_UP)
            seconds = in_process(call, options.requests)
            p50, p99 = _percentiles(seconds)
            print(f"| {name} | {p50:.2f} | {p99:.2f} | {len(seconds) / sum(seconds):,.0f} |", flush=True)
        for name, calls in routes(queries, urls).items():
            p50, p99, rate = measure(place, calls)
            print(f"| {name} | {p50:.2f} | {p99:.2f} | {rate:,.0f} |", flush=True)
    finally:
        process.terminate()
        process.wait(20)


if __name__ == "__main__":
    main()
