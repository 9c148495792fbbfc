"""A model behind HTTP on loopback that is an agent, a judge, or a writer of questions, by what it is asked."""

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from loopback import Quiet, listening

CALL = '<tool_call>{{"name": "search", "arguments": {{"query": ["{0}"]}}}}</tool_call>'
POINTS = ("independence", "specificity", "unambiguity", "answerability", "closedness", "difficulty", "time")
THINKING_S = 0.02


def reply(messages: list[dict[str, str]]) -> str:
    """What the model says; equal conversations get equal replies."""
    system, last = messages[0]["content"], messages[-1]["content"]
    if "You write quiz questions" in system:
        title = last.partition("Title: ")[2].partition("\n")[0]
        line = next((line for line in last.splitlines() if title in line and line.endswith(".")), title)
        word = line.split()[-1].strip(".")
        asked = {"question": f"What is the last word on {title}?", "answer": word, "quote": line}
        return json.dumps({"questions": [asked]})
    if "You check quiz questions" in system:
        return json.dumps({point: {"pass": True, "reason": "fine"} for point in POINTS})
    if "You check answers" in system:
        return f"reasoning: so it is\ncorrect: {'yes' if len(last) % 3 else 'no'}"
    if "A quiz question has a known answer" in system:
        return '{"other": null}'
    turns = sum(message["role"] == "assistant" for message in messages)
    if (turns and "search" in system and turns >= 3) or "search" not in system:
        return "<think>so</think>\n<answer>unknown</answer>" if "search" in system else "unknown"
    word = last.split()[turns % len(last.split())].strip('".,{}[]')
    return f"<think>turn {turns}</think>\n{CALL.format(word or 'river')}"


class Talker:
    """The server's address, how often it was asked, and at which call it strikes."""

    def __init__(self, url: str) -> None:
        self.url, self.asked = url, 0
        self._at, self._do, self._lock = 0, lambda: None, threading.Lock()

    def strike(self, at: int, do: Callable[[], None] | None) -> None:
        """Do something when call number ``at`` comes in; 0: never."""
        with self._lock:
            self._at, self._do = at, do or (lambda: None)

    def count(self) -> None:
        with self._lock:
            self.asked += 1
            if self._at and self.asked >= self._at:
                self._at = 0
                self._do()


@contextmanager
def talking() -> Iterator[Talker]:
    class Handler(Quiet):
        def do_POST(self) -> None:
            wanted = int(self.headers["Content-Length"])
            sent = self.rfile.read(wanted)
            if len(sent) < wanted:  # whoever asks is dead
                self.close_connection = True
                return
            body: dict[str, Any] = json.loads(sent)
            talker.count()
            time.sleep(THINKING_S)
            said = reply(body["messages"])
            usage = {"prompt_tokens": sum(len(one["content"].split()) for one in body["messages"]), "completion_tokens": 7}
            self.say({"choices": [{"message": {"content": said}, "finish_reason": "stop"}], "usage": usage})

        def handle(self) -> None:
            try:
                super().handle()
            except OSError:  # whoever asked is dead
                self.close_connection = True

    with listening(Handler) as url:
        talker = Talker(f"{url}/v1")
        yield talker
