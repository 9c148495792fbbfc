"""Policies that say what a function or a list tells them: for tests, replays and the teacher.

Text-level: a session keeps its messages, and ids are None, never guessed. A stop string ends a turn as it would for a model.
Knows no model and draws no random numbers; a reply that wants some keys them by its :class:`SampleKey`.
"""

import asyncio
from collections.abc import Callable, Sequence

from sanderling.core.types import Message, Sampling
from sanderling.policy.branches import MessageSession, OnText
from sanderling.policy.contract import Completion, Finish, PolicyOutageError, SampleKey, Session
from sanderling.policy.turn_text import cut_at_stop

Reply = Callable[[Sequence[Message], SampleKey], str]
"""Everything said on the branch so far, ending with what is new, and the turn's key, to the text of the next turn."""


class ScriptedSession(MessageSession):
    """A branch of messages that a reply function continues."""

    def __init__(self, reply: Reply) -> None:
        super().__init__()
        self._reply = reply

    async def _speak(self, messages: Sequence[Message], sampling: Sampling, key: SampleKey, on_text: OnText) -> Completion:
        await asyncio.sleep(0)  # a model would yield here: others run, and a cancellation arrives
        text, stopped = cut_at_stop(self._reply(messages, key), sampling.stop)
        if on_text is not None:
            on_text(text)
        return Completion(text=text, finish=Finish.STOP if stopped else Finish.END)


class ScriptedPolicy:
    """A policy that asks a function for every turn.

    Example: ``ScriptedPolicy(lambda messages, key: "<think>easy</think><answer>Paris</answer>")``
    """

    def __init__(self, reply: Reply, name: str = "scripted", context_length: int | None = None) -> None:
        self._reply = reply
        self._name = name
        self._context_length = context_length

    @property
    def name(self) -> str:
        return self._name

    @property
    def tokenizer(self) -> None:
        """None: scripts are text-level."""
        return

    @property
    def context_length(self) -> int | None:
        return self._context_length

    @property
    def version(self) -> int:
        """Always 0: a script is never updated."""
        return 0

    def open(self, key: SampleKey) -> Session:
        return ScriptedSession(self._reply)


class ListPolicy(ScriptedPolicy):
    """A policy whose every session says the given turns in order.

    A rewound turn is not said again: a second attempt gets the list's next entry. At the end comes a PolicyOutageError.
    """

    def __init__(self, turns: Sequence[str], name: str = "list") -> None:
        super().__init__(_Reader(turns), name)
        self._turns = tuple(turns)

    def open(self, key: SampleKey) -> Session:
        return ScriptedSession(_Reader(self._turns))


class _Reader:
    """Reads a list of turns from its start, whatever the branch says."""

    def __init__(self, turns: Sequence[str]) -> None:
        self._turns = tuple(turns)
        self._said = 0

    def __call__(self, messages: Sequence[Message], key: SampleKey) -> str:
        if self._said == len(self._turns):
            raise PolicyOutageError(f"The script holds {len(self._turns)} turns, and one more was asked for.")
        self._said += 1
        return self._turns[self._said - 1]
