"""What the sessions of remote and scripted policies have in common: the branch so far, marks, and all-or-nothing turns.

A subclass says only how one turn is spoken. Whatever that raises, cancellation included, the branch is then as it was before.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence

from sanderling.core.types import Message, Role, Sampling
from sanderling.policy.contract import Completion, Delta, SampleKey

OnText = Callable[[str], None] | None


class MessageSession(ABC):
    """A branch of messages, for text-level policies."""

    def __init__(self) -> None:
        self._messages: list[Message] = []
        self._closed = False

    @abstractmethod
    async def _speak(self, messages: Sequence[Message], sampling: Sampling, key: SampleKey, on_text: OnText) -> Completion:
        """Continue the messages by one turn."""

    async def generate(self, delta: Delta, sampling: Sampling, key: SampleKey, on_text: OnText = None) -> Completion:
        """Append the delta's messages and one spoken turn."""
        _check_open(self._closed)
        seen = [*self._messages, *delta.messages]
        completion = await self._speak(tuple(seen), sampling, key, on_text)
        self._messages = [*seen, Message(role=Role.ASSISTANT, content=completion.text)]
        return completion

    def mark(self) -> int:
        """Number of messages on the branch."""
        return len(self._messages)

    def rewind(self, mark: int) -> None:
        """Forget the messages after ``mark``."""
        _check_mark(mark, len(self._messages))
        del self._messages[mark:]

    def close(self) -> None:
        self._messages.clear()
        self._closed = True


class TokenSession(ABC):
    """A branch of token ids, for token-level policies whose cache is elsewhere."""

    def __init__(self) -> None:
        self._ids: list[int] = []
        self._closed = False

    @abstractmethod
    async def _speak(self, ids: Sequence[int], sampling: Sampling, key: SampleKey, on_text: OnText) -> Completion:
        """Continue the ids by one turn, with its ids."""

    async def generate(self, delta: Delta, sampling: Sampling, key: SampleKey, on_text: OnText = None) -> Completion:
        """Append the delta's ids and one sampled turn."""
        _check_open(self._closed)
        if delta.token_ids is None:
            raise ValueError("A token-level session needs the delta's token ids: render the messages with its tokenizer.")
        seen = [*self._ids, *delta.token_ids]
        completion = await self._speak(tuple(seen), sampling, key, on_text)
        self._ids = [*seen, *(completion.token_ids or ())]
        return completion

    def mark(self) -> int:
        """Number of tokens on the branch."""
        return len(self._ids)

    def rewind(self, mark: int) -> None:
        """Forget the tokens after ``mark``."""
        _check_mark(mark, len(self._ids))
        del self._ids[mark:]

    def close(self) -> None:
        self._ids.clear()
        self._closed = True


def _check_open(closed: bool) -> None:
    if closed:
        raise RuntimeError("The session was closed: open another one.")


def _check_mark(mark: int, size: int) -> None:
    if not 0 <= mark <= size:
        raise ValueError(f"mark {mark} is not on this branch of length {size}")
