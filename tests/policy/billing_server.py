"""A chat server on loopback that answers by a function, counts words as tokens, and remembers what it billed."""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from loopback import Quiet, listening

Say = Callable[[list[dict[str, str]], int], "str | int | bytes | None"]
"""``(messages, how often this conversation was asked before)`` to a text, a status, a raw body, or None: it hangs up."""


@dataclass
class Billing:
    """What the server has seen."""

    url: str
    say: Say
    bills: bool = True
    asked: list[list[dict[str, str]]] = field(default_factory=list)
    tokens: int = 0
    """Prompt and completion tokens of all that was answered."""
    lock: threading.Lock = field(default_factory=threading.Lock)

    def reply(self, body: dict[str, Any]) -> tuple[int, bytes] | None:
        messages = body["messages"]
        with self.lock:
            before = self.asked.count(messages)
            self.asked.append(messages)
        said = self.say(messages, before)
        if said is None:
            return None
        if isinstance(said, int):
            return said, b'{"error": {"message": "not now"}}'
        if isinstance(said, bytes):
            return 200, said
        words = said.split()[: body["max_tokens"]]
        usage = {"prompt_tokens": words_of(messages), "completion_tokens": len(words)}
        with self.lock:
            self.tokens += sum(usage.values())
        found: dict[str, Any] = {"choices": [{"message": {"content": said}, "finish_reason": "stop"}]}
        return 200, json.dumps(found | ({"usage": usage} if self.bills else {})).encode()


def words_of(messages: list[dict[str, str]]) -> int:
    return sum(len(message["content"].split()) + 3 for message in messages)


@contextmanager
def billing(say: Say, *, bills: bool = True) -> Iterator[Billing]:
    class Handler(Quiet):
        def do_POST(self) -> None:
            found = state.reply(self.body())
            if found is None:
                self.close_connection = True
                return
            status, said = found
            self.say(said, status, **({"Retry_After": "0.001"} if status == 429 else {}))

    with listening(Handler) as url:
        state = Billing(f"{url}/v1", say, bills)
        yield state
