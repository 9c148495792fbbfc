"""Where tokens come from: the contract between the agent loop and any model.

A policy opens sessions; a session is one branch of one conversation. The loop hands a session only what is *new* (the delta),
so an in-process model keeps its keys and values and prefills nothing twice. Token-level policies take and return ids, which are
then the truth; text-level ones (chat endpoints, scripts) take messages and return text, and their ids are None, never guessed.
A policy knows nothing of tools, budgets or rewards.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

from sanderling.core.chat import Tokenizer
from sanderling.core.types import Message, Sampling


class PolicyOutageError(Exception):
    """The model's backend is broken or unreachable: the episode ends unscored, and may be tried again."""


@dataclass(frozen=True)
class SampleKey:
    """What keys the random numbers of one turn: the same key draws the same numbers, whatever else is running."""

    seed: int
    question: str
    attempt: int
    turn: int
    retry: int = 0


class Finish(StrEnum):
    """Why one generation stopped."""

    END = "end"
    """The end-of-turn token was sampled."""
    STOP = "stop"
    """A stop string appeared."""
    LENGTH = "length"
    """``max_tokens`` or the model's context was reached."""


@dataclass(frozen=True)
class Delta:
    """What is new since the session's last generation.

    Messages are for text-level policies. ``token_ids`` are for token-level ones, and include the template's scaffold and the
    generation prompt, so that the session's ids, concatenated, are exactly what the model sees. None for text-level policies.
    """

    messages: tuple[Message, ...]
    token_ids: tuple[int, ...] | None = None
    recalled: int = 0
    """Leading ids that an earlier process had computed for this branch. A session whose cache is its own has to compute them
    again, and does not count them as prefilled: an episode that was interrupted costs what the others cost."""


@dataclass(frozen=True)
class Completion:
    """One sampled turn."""

    text: str
    """The turn's text without the end token. With ids present it is their decoding, to be read and never encoded again."""
    finish: Finish
    token_ids: tuple[int, ...] | None = None
    """Sampled ids, the end token included when it was sampled."""
    logprobs: tuple[float, ...] | None = None
    """Under the distribution that was sampled from; as long as ``token_ids``."""
    versions: tuple[int, ...] | None = None
    """Policy version of each sampled token; as long as ``token_ids``."""
    prefilled_tokens: int = 0
    """Prompt tokens that had to be computed for this turn (the new ones only, where the cache is kept), whether by itself or by
    another session that says the same. Of a first prompt that an open session has too, all but the last token are copied."""
    prompt_tokens: int = 0
    """Prompt tokens the model saw in all."""
    sampled_tokens: int = 0
    """Sampled tokens as a text-level server counts them, its hidden reasoning included; 0 where it does not say, and where ids
    are there to be counted."""
    compute_seconds: float = field(default=0.0, compare=False)
    """Its share of the seconds that an in-process engine computed; 0 where nobody knows. No part of what was said."""


class Session(Protocol):
    """One branch of one conversation."""

    async def generate(
        self, delta: Delta, sampling: Sampling, key: SampleKey, on_text: Callable[[str], None] | None = None
    ) -> Completion:
        """Append the delta, sample one turn, keep both. ``on_text`` receives text as it comes.

        Cancellable at any await. Raises PolicyOutageError when the backend is broken.
        """
        ...

    def mark(self) -> int:
        """A position to which :meth:`rewind` can return."""
        ...

    def rewind(self, mark: int) -> None:
        """Forget everything after ``mark`` (a rejected attempt); the cache before it is kept."""
        ...

    def close(self) -> None:
        """Free the session's cache; closing twice is allowed."""
        ...


class Policy(Protocol):
    """Something that can speak the next turn."""

    @property
    def name(self) -> str:
        """What a report calls this model."""
        ...

    @property
    def tokenizer(self) -> Tokenizer | None:
        """The tokenizer whose ids this policy takes, or None for a text-level policy."""
        ...

    @property
    def context_length(self) -> int | None:
        """Most tokens the model can see, or None where nobody knows."""
        ...

    @property
    def version(self) -> int:
        """How many weight updates this policy has seen."""
        ...

    def open(self, key: SampleKey) -> Session:
        """A fresh, empty session."""
        ...
