"""What hostile and odd pages become when they are read from here, and how long the event loop stood still meanwhile.

    python benchmarks/fetch.py --out benchmarks/results/fetch.json

A socket server on loopback, in a process of its own, writes each case's bytes as they are (`fetch_cases`). Each has a host of
its own, by a resolver that is handed in; all are read by one `LiveWeb`, some at a time, while a task wakes every 5 ms and notes
how late it is, and how much processor time the loop's thread took since: other processes of the machine make it late, too.
"""

import argparse
import asyncio
import gc
import json
import multiprocessing
import os
import platform
import tempfile
import time
from collections import Counter
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

from fetch_cases import Case, cases, http

AT_ONCE = 8


def serve(port: "multiprocessing.Queue[int]", known: list[Case]) -> None:
    """Write what the host of a request is to get; whatever its client does."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, ValueError):
            asked = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            host = asked.lower().partition("\r\nhost:")[2].split()[0].partition(":")[0]
            case = known[int(host[1:-5])] if host.removesuffix(".test")[1:].isdigit() else Case("", "", http())
            reply = case.robots if asked.startswith("GET /robots.txt ") else case.reply
            if isinstance(reply, bytes):
                writer.write(reply.replace(b"PPPPP", str(server.sockets[0].getsockname()[1]).encode()))
                await writer.drain()
            else:
                async for piece in reply():
                    writer.write(piece)
                    await asyncio.wait_for(writer.drain(), 10)
        with suppress(OSError):
            writer.close()

    async def run() -> None:
        nonlocal server
        server = await asyncio.start_server(answer, "127.0.0.1", 0)  # a port of five digits, as the placeholder has
        port.put(server.sockets[0].getsockname()[1])
        await server.serve_forever()

    server: asyncio.Server
    asyncio.run(run())


async def measured(port: int, known: list[Case], cache: Path) -> dict[str, object]:
    """What becomes of all cases, and how long the loop stood still."""
    from sanderling.world.web.config import LiveConfig
    from sanderling.world.web.live import LiveWeb

    late, done, under_way = list[tuple[float, float, list[str]]](), False, dict[int, str]()

    async def watch() -> None:
        while not done:
            before, worked = time.perf_counter(), time.thread_time()
            await asyncio.sleep(0.005)
            late.append((time.perf_counter() - before - 0.005, time.thread_time() - worked, list(under_way.values())))

    private = {"metadata.test": ["169.254.169.254"], "both.test": ["8.8.8.8", "127.0.0.1"], "mapped.test": ["::ffff:a00:1"]}

    async def look_up(host: str) -> list[str]:
        if host == "unknown.test":
            raise OSError("unknown")
        return private.get(host, ["127.0.0.1"])

    hosts = (*(f"c{n}.test" for n in range(len(known))), "fine.test")
    config = LiveConfig(
        urls={"serper": "http://127.0.0.1:1"}, readers=("direct",), allowed_hosts=hosts, timeout_s=8, pause_s=0.1, cache=cache
    )
    found, raised = dict[int, str](), list[str]()
    async with LiveWeb(config, {}, look_up=look_up) as web:
        left = iter(enumerate(known))

        async def read() -> None:
            for number, case in left:
                under_way[number] = f"{case.kind}: {case.name}"
                try:
                    reply = await web.visit(f"http://c{number}.test:{port}/", "herring")
                    assert bool(reply.text) is (reply.status.value == "ok"), "text goes with ok alone"
                    found[number] = reply.status.value
                except Exception as error:
                    found[number] = "exception"
                    raised.append(f"{case.kind}: {case.name}: {type(error).__name__}: {error}")
                del under_way[number]

        watching = asyncio.create_task(watch())
        await asyncio.sleep(2)
        idle = max(seconds for seconds, _, _ in late)
        late.clear()
        await web.visit(f"http://fine.test:{port}/", "herring")  # brings what is imported and started once
        first = max(seconds for seconds, _, _ in late)
        gc.collect()
        gc.freeze()  # all cases are in this process, and the collector would walk through them again and again
        late.clear()
        began = time.perf_counter()
        await asyncio.gather(*(read() for _ in range(AT_ONCE)))
        seconds, done = time.perf_counter() - began, True
        await watching
    times = sorted(late, key=lambda one: one[0])
    own = sorted(seconds for _, seconds, _ in late)
    kinds = {
        kind: Counter(found[n] for n, case in enumerate(known) if case.kind == kind) for kind in sorted({c.kind for c in known})
    }
    other = [
        f"{c.kind}: {c.name[:60]}: {found[n]}, not {' or '.join(c.wanted)}"
        for n, c in enumerate(known)
        if c.wanted and found[n] not in c.wanted
    ]
    late_ms = {
        "longest": ms(times[-1][0]),
        "99.9%": ms(times[int(0.999 * len(times))][0]),
        "median": ms(times[len(times) // 2][0]),
    }
    return {
        "pages": len(known),
        "seconds": round(seconds, 1),
        "exceptions": raised,
        "with an expected status": sum(bool(case.wanted) for case in known),
        "otherwise than expected": other,
        "loop late, ms": late_ms | {"longest when idle": ms(idle), "longest at the first page": ms(first)},
        "loop's own work meanwhile, ms": {"longest": ms(own[-1]), "99.9%": ms(own[int(0.999 * len(own))])},
        "latest five": [[ms(late), ms(worked), *names] for late, worked, names in reversed(times[-5:])],
        "what became of each kind": {kind: dict(counts.most_common()) for kind, counts in kinds.items()},
    }


def ms(seconds: float) -> float:
    """Seconds in milliseconds."""
    return round(seconds * 1e3, 1)


def main() -> None:
    """Read every case once."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    port: multiprocessing.Queue[int] = multiprocessing.Queue()
    known, load = cases(), os.getloadavg()[0]
    server = multiprocessing.get_context("fork").Process(target=serve, args=(port, known), daemon=True)
    server.start()
    with tempfile.TemporaryDirectory() as place:
        found = asyncio.run(measured(port.get(), known, Path(place) / "web.db"))
    server.terminate()
    made: dict[str, object] = {"command": "python benchmarks/fetch.py", "date": datetime.now(UTC).date().isoformat()}
    machine = f"{platform.machine()}, {os.cpu_count()} cores, load {load:.1f} before"
    made |= {"machine": machine, "python": platform.python_version()}
    text = json.dumps(made | found, indent=1, ensure_ascii=False)
    print(text)
    if given.out:
        given.out.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
