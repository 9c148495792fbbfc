"""A real HTTP server on loopback that answers from a script: what each request gets, in order."""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Answer = Callable[[BaseHTTPRequestHandler], None]


class Scripted:
    """What was asked, and what is still to be answered."""

    def __init__(self, url: str, answers: list[Answer]) -> None:
        self.url = url
        self.answers = answers
        self.asked: list[tuple[str, dict[str, Any], dict[str, str]]] = []


def plain(body: Any, status: int = 200, **headers: str) -> Answer:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()

    def answer(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(status)
        for name, value in {"Content-Type": "application/json", "Content-Length": str(len(data)), **headers}.items():
            handler.send_header(name.replace("_", "-"), value)
        handler.end_headers()
        handler.wfile.write(data)

    return answer


def stream(*events: Any, finished: bool = True) -> Answer:
    def answer(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.send_header("Content-Type", "text/event-stream; charset=utf-8")
        handler.send_header("Connection", "close")
        handler.end_headers()
        handler.wfile.write(b": a comment\n\n")
        for event in events:
            handler.wfile.write(b"data: " + json.dumps(event).encode() + b"\n\n")
            handler.wfile.flush()
        if finished:
            handler.wfile.write(b"data: [DONE]\n\n")
        handler.close_connection = True

    return answer


def hang_up(handler: BaseHTTPRequestHandler) -> None:
    handler.close_connection = True


class Quiet(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""

    def body(self) -> dict[str, Any]:
        return json.loads(self.rfile.read(int(self.headers.get("Content-Length", 0))) or "{}")


@contextmanager
def listening(handler: type[Quiet]) -> Iterator[str]:
    """A server's address, while it is there."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/v1"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@contextmanager
def serve(*answers: Answer) -> Iterator[Scripted]:
    class Handler(Quiet):
        def do_POST(self) -> None:
            scripted.asked.append((self.path, self.body(), dict(self.headers)))
            scripted.answers.pop(0)(self)

        do_GET = do_POST

    with listening(Handler) as url:
        scripted = Scripted(url, list(answers))
        yield scripted
