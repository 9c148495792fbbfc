"""What hostile and long pages cost the live web: seconds, memory, and the longest time for which the event loop stood still.

    python benchmarks/world_live.py --out benchmarks/results/world_live.json

A page service on loopback, in a process of its own, answers each address with another reply. Each is read in a fresh process by
`LiveWeb`, with a goal, while a task wakes every 5 ms and notes how late it is.
"""

import argparse
import asyncio
import gzip
import json
import multiprocessing
import os
import platform
import subprocess
import sys
import time
import zlib
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

WORDS = "The tide carved [flats](https://web.example/flats) for the herring, and a keeper wrote of it in the year 1873. "
BOMB = 6 << 30  # bytes that come out of it


def page(characters: int) -> bytes:
    """A page service's reply."""
    text = "\n\n".join([WORDS * 6] * (characters // (6 * len(WORDS) + 2) + 1))[:characters]
    return json.dumps({"data": {"url": "", "title": "A page", "content": text}}).encode()


def replies() -> dict[str, tuple[bytes, str]]:
    """Bodies by name, with the encoding that the header gives."""
    packing, spaces = zlib.compressobj(6, zlib.DEFLATED, 31), b" " * (1 << 24)
    parts = [packing.compress(b'{"data": {"title": "t", "content": "x')]
    parts += [packing.compress(spaces) for _ in range(BOMB // len(spaces))]
    bomb = b"".join([*parts, packing.compress(b'"}}'), packing.flush()])
    return {
        "a page of 0.4 MB": (page(400_000), ""),
        "a page of 1 MB": (page(1_000_000), ""),
        "a page of 7 MB": (page(7_000_000), ""),
        "a page of 30 MB": (page(30_000_000), ""),
        "gzip of 6 GB": (bomb, "gzip"),
        "gzip of gzip of 6 GB": (gzip.compress(bomb), "gzip, gzip"),
    }


def serve(port: "multiprocessing.Queue[int]") -> None:
    """The page service; its port is told in the queue."""
    known = {str(number): reply for number, reply in enumerate(replies().values())}

    class Reader(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["url"]
            body, encoding = known[asked.rpartition("/")[2]]
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            if encoding:
                self.send_header("Content-Encoding", encoding)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    class Server(ThreadingHTTPServer):
        def handle_error(self, *_: object) -> None:
            """A client that has read enough hangs up."""

    server = Server(("127.0.0.1", 0), Reader)
    port.put(server.server_port)
    server.serve_forever()


def peak(*, anew: bool = False) -> int:
    """The most memory held so far, or from now on, in KiB."""
    if anew:
        Path("/proc/self/clear_refs").write_text("5")
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0])


async def measured(reader: str, url: str) -> dict[str, object]:
    """What one visit costs."""
    from sanderling.world.web.config import LiveConfig
    from sanderling.world.web.live import LiveWeb

    latest, done = 0.0, False

    async def watch() -> None:
        nonlocal latest
        while not done:
            before = time.perf_counter()
            await asyncio.sleep(0.005)
            latest = max(latest, time.perf_counter() - before - 0.005)

    config = LiveConfig(urls={"serper": reader, "jina": reader}, attempts=1, timeout_s=300.0, age_h=0)
    async with LiveWeb(config, {}) as web:
        watching = asyncio.create_task(watch())
        await asyncio.sleep(0.05)
        rss = peak(anew=True)
        latest, began = 0.0, time.perf_counter()
        status = (await web.visit(url, "herring")).status.value
        seconds, done = time.perf_counter() - began, True
        await watching
    return {"status": status, "seconds": round(seconds, 2), "MB": (peak() - rss) // 1024, "stall_ms": round(latest * 1000)}


def main() -> None:
    """Measure each reply, one after another."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--one", nargs=2, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        print(json.dumps(asyncio.run(measured(*given.one))))
        return
    port: multiprocessing.Queue[int] = multiprocessing.Queue()
    server = multiprocessing.Process(target=serve, args=(port,), daemon=True)
    server.start()
    reader, rows = f"http://127.0.0.1:{port.get()}", {}
    for number, name in enumerate(replies()):
        command = [sys.executable, __file__, "--one", reader, f"https://web.example/{number}"]
        rows[name] = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
        print(name, rows[name], flush=True)
    server.terminate()
    if given.out:
        made = {"command": "python benchmarks/world_live.py", "date": datetime.now(UTC).date().isoformat()}
        made |= {"machine": f"{platform.machine()}, {os.cpu_count()} cores", "python": platform.python_version()}
        given.out.write_text(json.dumps(made | {"rows": rows}, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
