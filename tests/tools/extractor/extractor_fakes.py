"""A model that answers from a script, and a page to read."""

import asyncio
import json
from collections.abc import Callable, Sequence

from sanderling.core.types import Message
from sanderling.world.contract import VisitReply

TEXT = (
    "# Orlo\n\nOrlo is a town by the sea.\n\n## History\n\nAnna Bel founded the town hall in 1903 "
    "with [Ivo Kern](https://w.example/Ivo_(mason)). It burnt down in 1911 — and was “rebuilt” by 1920.\n\n"
    "## Trade\n\n| Year | Boats |\n|---|---|\n| 1903 | 12 |\n| 1911 | 7 |\n\nHerring   is\nsold at the café."
)
PAGE = VisitReply("https://w.example/Orlo", "Orlo", TEXT)


def said(*evidence: str, summary: str = "A summary.", rationale: str = "Because.") -> str:
    return json.dumps({"rationale": rationale, "evidence": list(evidence), "summary": summary})


class Model:
    """Answers in order, or by a function; keeps what it was asked."""

    def __init__(self, *replies: str | Exception, by: Callable[[str], str | Exception] | None = None) -> None:
        self.replies = list(replies)
        self.by = by
        self.asked: list[Sequence[Message]] = []

    async def __call__(self, messages: Sequence[Message]) -> str:
        self.asked.append(messages)
        await asyncio.sleep(0)
        reply = self.by(messages[-1].content) if self.by else self.replies.pop(0)
        if isinstance(reply, Exception):
            raise reply
        return reply
