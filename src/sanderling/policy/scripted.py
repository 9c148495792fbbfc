"""Policies that say what a function or a list tells them: for tests, replays and the teacher.

Text-level: a session keeps its messages, and ids are None, never guessed. A stop string ends a turn as it would for a model.
A reply that wants random numbers keys them by its :class:`SampleKey`.
"""

import asyncio
from collections.abc import Callable, Sequence

from sanderling.core.types import Message, Sampling
from sanderling.policy.contract import (
    Completion,
    Finish,
    MessageSession,
    OnText,
    PolicyOutageError,
    SampleKey,
    Session,
    cut_at_stop,
)

Reply = Callable[[Sequence[Message], SampleKey], str]
"""Everything said on the branch so far, ending with what is new, and the turn's key, to the text of the next turn."""


class ScriptedSession(MessageSession):
    """A branch of messages that a reply function continues."""

    def __init__(self, reply: Reply) -> None:
        super().__init__()
        self._reply = reply

    async def _speak(self, branch: Sequence[Message], sampling: Sampling, key: SampleKey, on_text: OnText) -> Completion:
        await asyncio.sleep(0)  # a model would yield here: others run, and a cancellation arrives
        text, stopped = cut_at_stop(self._reply(branch, key), sampling.stop)
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
        self._reply = reply
        self.name = name
        self.context_length = context_length

    def open(self, key: SampleKey) -> Session:
        return ScriptedSession(self._reply)


class ListPolicy(ScriptedPolicy):
    """A policy whose every session says the given turns in order.

    A rewound turn is not said again: a second attempt gets the list's next entry. At the end comes a PolicyOutageError.
    """

    def __init__(self, turns: Sequence[str], name: str = "list") -> None:
        super().__init__(_read_aloud(turns), name)
        self._turns = tuple(turns)

    def open(self, key: SampleKey) -> Session:
        return ScriptedSession(_read_aloud(self._turns))


def _read_aloud(turns: Sequence[str]) -> Reply:
    """A list of turns from its start, whatever the branch says."""
    left = iter(turns)

    def reply(messages: Sequence[Message], key: SampleKey) -> str:
        for turn in left:
            return turn
        raise PolicyOutageError(f"The script holds {len(turns)} turns, and one more was asked for.")

    return reply
