"""Clients that answer from a function: the seam at which tests stand in for a language model."""

import asyncio
from collections.abc import Callable, Sequence

from sanderling.core.types import AskingOutageError, Message, Reply, Usage


class ScriptedClient:
    """Answers with what ``say`` returns of the conversation's last message; None: an outage."""

    def __init__(self, say: Callable[[str, str, int], str | None], name: str = "scripted", place: str = "") -> None:
        self.say = say
        self.name = name
        self.place = place
        self.asked: list[tuple[str, str]] = []
        """System prompt and material of every conversation."""

    async def ask(
        self, messages: Sequence[Message], *, max_tokens: int = 1_024, temperature: float = 0.0, sample: int = 0
    ) -> Reply:
        await asyncio.sleep(0)
        self.asked.append((messages[0].content, messages[-1].content))
        text = self.say(messages[0].content, messages[-1].content, sample)
        if text is None:
            raise AskingOutageError("nobody is there")
        return Reply(text, Usage(self.name, prompt_tokens=10, sampled_tokens=2, cost=0.5))
