"""A policy that says what a function tells it: for tests, replays and the teacher. Text-level."""

import asyncio
from collections.abc import Callable, Sequence

from sanderling.core.types import Message, Sampling
from sanderling.policy.contract import Completion, Finish, MessageSession, OnText, SampleKey, Session, cut_at_stop

Reply = Callable[[Sequence[Message], SampleKey], str]
"""Everything said on the branch so far, ending with what is new, and the turn's key, to the text of the next turn."""


class ScriptedSession(MessageSession):
    """A branch of messages that a reply function continues; a stop string ends a turn as it would for a model."""

    _policy: "ScriptedPolicy"

    async def _speak(self, branch: Sequence[Message], sampling: Sampling, key: SampleKey, on_text: OnText) -> Completion:
        await asyncio.sleep(0)  # a model would yield here: others run, and a cancellation arrives
        text, stopped = cut_at_stop(self._policy.reply(branch, key), sampling.stop)
        if on_text is not None:
            on_text(text)
        return Completion(text=text, finish=Finish.STOP if stopped else Finish.END)


class ScriptedPolicy:
    """A policy that asks a function for every turn.

    Example: ``ScriptedPolicy(lambda messages, key: "<think>easy</think><answer>Paris</answer>")``
    """

    tokenizer = None
    version = 0

    def __init__(self, reply: Reply, name: str = "scripted", context_length: int | None = None) -> None:
        self.reply, self.name, self.context_length = reply, name, context_length

    def open(self, key: SampleKey) -> Session:
        return ScriptedSession(self)
