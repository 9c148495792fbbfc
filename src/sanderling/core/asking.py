"""One conversation in, one text out: the seam between whoever needs a model's word (judges, makers of questions) and a model.

An :class:`Asker` remembers, retries and keeps to its budget as its maker decided; who asks sees replies, an outage, or a spent
budget. A reply that cannot be read, or was cut for its length, is asked of the next asker, never taken for a
verdict.
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
    """What one reply cost, and whose it is."""

    model: str
    prompt_tokens: int = 0
    """As the server counts them; where it does not say, an estimate."""
    sampled_tokens: int = 0
    cost: float = 0.0
    """In the currency of the prices that were given; 0 without prices, and for what was remembered."""
    remembered: bool = False
    """The reply came from a cache: nothing was asked."""
    is_estimated: bool = False
    """The server did not say what it took: tokens and cost are the most that the texts may have come to."""


@dataclass(frozen=True, slots=True)
class Reply:
    """A model's word."""

    text: str
    """Without its reasoning, where the server or the text tells it apart."""
    usage: Usage
    cut: bool = False
    """It ended for its length: perhaps in the middle of its reasoning, never where its last word can be told."""


class Asker(Protocol):
    """A model that answers conversations."""

    @property
    def name(self) -> str:
        """For provenance: the model's name."""
        ...

    @property
    def place(self) -> str:
        """Tells the model from others of its name: a server's address without credentials, a directory; empty: unknown."""
        ...

    async def ask(
        self, messages: Sequence[Message], *, max_tokens: int = 1_024, temperature: float = 0.0, sample: int = 0
    ) -> Reply:
        """The model's reply. ``sample`` tells apart replies that are wanted several times to one conversation.

        Raises AskingOutageError when nobody answered, BudgetSpentError when nothing may be asked any more.
        """
        ...


def placed(name: str, places: Sequence[str]) -> str | dict[str, Any]:
    """A model, or a judge that asks several, with its places, as JSON; its name alone where there are none."""
    return {"model": name, "at": list(places)} if any(places) else name


@dataclass(frozen=True, slots=True)
class Read(Generic[T]):
    """What was read from the first readable reply, and all that was spent on the way to it."""

    value: T | None
    """None: no reply could be read."""
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
    """Ask one after the other, each up to ``tries`` times, until a reply can be read.

    ``again``: what is asked after a reply that could not be read; the same as before if left out.

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
