"""Servers on loopback for tests that speak HTTP."""

import json
import secrets
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any


class Quiet(BaseHTTPRequestHandler):
    """Logs nothing; keeps connections."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    """Else a body waits 40 ms for word that its head has arrived."""

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""

    def body(self) -> Any:
        """The JSON that was sent."""
        return json.loads(self.rfile.read(int(self.headers.get("Content-Length") or 0)) or "{}")

    def say(self, said: Any, status: int = 200, **headers: str) -> None:
        """Answer with JSON, or with bytes as they are."""
        data = said if isinstance(said, bytes) else json.dumps(said).encode()
        self.send_response(status)
        for name, value in {"Content-Type": "application/json", "Content-Length": str(len(data)), **headers}.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(data)


@contextmanager
def listening(handler: type[BaseHTTPRequestHandler]) -> Iterator[str]:
    """A server's address, while it is there."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def free_port() -> int:
    """A port at which nobody listens: not of those (from 32,768 on) that tests beside this one get when they want any."""
    while True:
        port = 20_000 + secrets.randbelow(12_000)
        with socket.socket() as tried, suppress(OSError):
            tried.bind(("127.0.0.1", port))
            return port


@contextmanager
def world_served(directory: Path) -> Iterator[str]:
    """A world's address, which its own command serves."""
    command = [sys.executable, "-m", "sanderling", "world", "serve", str(directory), "--port", "0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        try:
            yield process.stderr.readline().split()[-1]
        finally:
            process.terminate()
