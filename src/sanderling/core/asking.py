"""One conversation in, one text out: the seam between whoever needs a model's word (judges, makers of questions) and a model.

An :class:`Asker` remembers, retries and keeps to its budget as its maker decided; who asks sees replies, an outage, or a spent
budget. A reply that cannot be read, or was cut for its length, is asked of the next asker, never taken for a verdict.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from sanderling.core.types import Message

T = TypeVar("T")


class AskingOutageError(Exception):
    """Nobody answered, after all retries: what was asked stays open, and may be asked again later."""


class BudgetSpentError(AskingOutageError):
    """The limit of tokens or money is reached: nothing more is asked in this run."""


class AskingRefusedError(AskingOutageError):
    """The server will not take this conversation, most likely because it is too long; others it may take."""


@dataclass(frozen=True, slots=True)
class Usage:
    """What one reply cost; ``cost`` is in the currency of the prices, and 0 for what was ``remembered``."""

    model: str
    prompt_tokens: int = 0
    sampled_tokens: int = 0
    cost: float = 0.0
    remembered: bool = False
    is_estimated: bool = False
    """The server did not say what it took: tokens and cost are the most that the texts may have come to."""


@dataclass(frozen=True, slots=True)
class Reply:
    """A model's word, without its reasoning where the server or the text tells it apart."""

    text: str
    usage: Usage
    cut: bool = False
    """It ended for its length: perhaps in the middle of its reasoning."""


class Asker(Protocol):
    """A model that answers conversations."""

    @property
    def name(self) -> str:
        """The model's."""
        ...

    @property
    def place(self) -> str:
        """Tells the model from others of its name: a server's address without credentials, a directory; empty: unknown."""
        ...

    async def ask(
        self, messages: Sequence[Message], *, max_tokens: int = 1_024, temperature: float = 0.0, sample: int = 0
    ) -> Reply:
        """The model's reply; ``sample`` tells apart several to one conversation. Raises AskingOutageError, BudgetSpentError."""
        ...


def placed(name: str, places: Sequence[str]) -> str | dict[str, Any]:
    """A model, or a judge that asks several, with its places, as JSON; its name alone where there are none."""
    return {"model": name, "at": list(places)} if any(places) else name


@dataclass(frozen=True, slots=True)
class Read(Generic[T]):
    """What was read from the first readable reply (None: from none), and all replies on the way to it."""

    value: T | None
    replies: tuple[Reply, ...]


async def first_readable(
    askers: Sequence[Asker],
    messages: Sequence[Message],
    read: Callable[[str], T | None],
    *,
    tries: int = 1,
    max_tokens: int = 1_024,
    temperature: float = 0.0,
    again: Sequence[Message] | None = None,
) -> Read[T]:
    """Ask one after the other, each up to ``tries`` times, until a reply can be read; after the first, ``again`` if given.

    Raises BudgetSpentError at once when the budget is spent. When no reply could be read it raises AskingOutageError if
    somebody was not reached, and may reply another time; AskingRefusedError if all refused.
    """
    replies: list[Reply] = []
    outage: AskingOutageError | None = None
    refused: AskingRefusedError | None = None
    for asker in askers:
        for sample in range(tries):
            try:
                asked = messages if sample == 0 or again is None else again
                reply = await asker.ask(asked, max_tokens=max_tokens, temperature=temperature, sample=sample)
            except BudgetSpentError:
                raise
            except AskingRefusedError as error:
                refused = error
                break
            except AskingOutageError as error:
                outage = error
                break
            replies.append(reply)
            value = None if reply.cut else read(reply.text)
            if value is not None:
                return Read(value, tuple(replies))
    if outage is not None or not replies:
        raise outage or refused or AskingOutageError("There is no model to ask.")
    return Read(None, tuple(replies))
