"""One conversation in, one text out: the seam between whoever needs a model's word, such as a judge, and a model."""

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
    """What one reply cost: nothing where it was ``remembered``."""

    model: str
    prompt_tokens: int = 0
    sampled_tokens: int = 0
    cost: float = 0.0
    remembered: bool = False
    is_estimated: bool = False
    """The server did not say: these are the most that it may have been."""


@dataclass(frozen=True, slots=True)
class Reply:
    """A model's word, without its reasoning where the server or the text tells it apart."""

    text: str
    usage: Usage
    cut: bool = False
    """It ended for its length."""


class ModelClient(Protocol):
    """A model that answers conversations; it remembers, retries and keeps to its budget as its maker decided.

    ``place`` tells it from others of its ``name``: a server's address without credentials, a directory; empty: unknown.
    ``sample`` tells apart several replies to one conversation. Asking raises AskingOutageError, BudgetSpentError.
    """

    @property
    def name(self) -> str: ...
    @property
    def place(self) -> str: ...
    async def ask(
        self, messages: Sequence[Message], *, max_tokens: int = 1_024, temperature: float = 0.0, sample: int = 0
    ) -> Reply: ...


def placed(name: str, places: Sequence[str]) -> str | dict[str, Any]:
    """A model, or a judge that asks several, with its places, as JSON."""
    return {"model": name, "at": list(places)} if any(places) else name


@dataclass(frozen=True, slots=True)
class Read(Generic[T]):
    """What was read from the first readable reply (None: from none), and all replies on the way to it."""

    value: T | None
    replies: tuple[Reply, ...]


async def first_readable(
    clients: Sequence[ModelClient],
    messages: Sequence[Message],
    read: Callable[[str], T | None],
    *,
    tries: int = 1,
    max_tokens: int = 1_024,
    temperature: float = 0.0,
    again: Sequence[Message] | None = None,
) -> Read[T]:
    """Ask one after the other, each up to ``tries`` times, until a reply can be read; after the first, ``again`` if given.

    A reply that was cut for its length is not read. Raises BudgetSpentError at once when the budget is spent. When no reply
    could be read it raises AskingOutageError if somebody was not reached, and AskingRefusedError if all refused.
    """
    replies: list[Reply] = []
    failure: AskingOutageError | None = None
    for client in clients:
        for sample in range(tries):
            try:
                asked = messages if sample == 0 or again is None else again
                reply = await client.ask(asked, max_tokens=max_tokens, temperature=temperature, sample=sample)
            except BudgetSpentError:
                raise
            except AskingOutageError as error:
                if failure is None or not isinstance(error, AskingRefusedError):
                    failure = error
                break
            replies.append(reply)
            value = None if reply.cut else read(reply.text)
            if value is not None:
                return Read(value, tuple(replies))
    if not replies or (failure is not None and not isinstance(failure, AskingRefusedError)):
        raise failure or AskingOutageError("There is no model to ask.")
    return Read(None, tuple(replies))
