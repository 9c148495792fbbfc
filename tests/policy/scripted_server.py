"""A real HTTP server on loopback that answers from a script: what each request gets, in order."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from loopback import Quiet, listening

Answer = Callable[[Quiet], None]


class Scripted:
    """What was asked, and what is still to be answered."""

    def __init__(self, url: str, answers: list[Answer]) -> None:
        self.url = url
        self.answers = answers
        self.asked: list[tuple[str, dict[str, Any], dict[str, str]]] = []


def plain(body: Any, status: int = 200, **headers: str) -> Answer:
    return lambda handler: handler.say(body, status, **headers)


def stream(*events: Any, finished: bool = True) -> Answer:
    def answer(handler: Quiet) -> None:
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


def hang_up(handler: Quiet) -> None:
    handler.close_connection = True


@contextmanager
def serve(*answers: Answer) -> Iterator[Scripted]:
    class Handler(Quiet):
        def do_POST(self) -> None:
            scripted.asked.append((self.path, self.body(), dict(self.headers)))
            scripted.answers.pop(0)(self)

        do_GET = do_POST

    with listening(Handler) as url:
        scripted = Scripted(f"{url}/v1", list(answers))
        yield scripted
