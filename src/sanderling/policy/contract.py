"""Where tokens come from: what lies between the agent loop and any model.

A policy opens sessions; a session is one branch of one conversation, and is handed only what is *new*. Token-level policies
take and return ids, which are then the truth; text-level ones take messages and return text, and their ids are None.
A session of one's own extends :class:`MessageSession` or :class:`TokenSession` by ``_speak``.
"""

import asyncio
import hashlib
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import astuple, dataclass
from enum import StrEnum
from typing import Any, Protocol

from sanderling.core.chat import Tokenizer
from sanderling.core.errors import UserError
from sanderling.core.types import Message, Role, Sampling, ToolSpec

END_TOKEN = "<|im_end|>"
OnText = Callable[[str], None] | None  # receives a turn's text as it comes


class PolicyOutageError(Exception):
    """The model's backend is broken or unreachable: the episode ends unscored, and may be tried again."""


class ContextFullError(PolicyOutageError):
    """The conversation is longer than the model's server takes; ``most``: how many tokens those are, where it says so."""

    def __init__(self, reason: str, most: int | None = None) -> None:
        super().__init__(reason)
        self.most = most


@dataclass(frozen=True)
class SampleKey:
    """What keys the random numbers of one turn: the same key draws the same numbers."""

    seed: int
    question: str
    attempt: int
    turn: int
    retry: int = 0

    def digest(self) -> bytes:
        """SHA-256 of the key."""
        return hashlib.sha256("\x1f".join(map(str, astuple(self))).encode("utf-8")).digest()


class Finish(StrEnum):
    """Why one generation stopped."""

    END = "end"
    STOP = "stop"  # a stop string appeared
    LENGTH = "length"  # ``max_tokens`` or the model's context was reached


@dataclass(frozen=True)
class Delta:
    """What is new since the session's last generation."""

    messages: tuple[Message, ...]
    token_ids: tuple[int, ...] | None = None
    """For token-level policies, with the template's scaffold: the session's ids, concatenated, are what the model sees."""
    recalled: int = 0
    """Leading ids that an earlier process had computed for this branch: computed again, they do not count as prefilled."""
    tools: tuple[ToolSpec, ...] = ()
    """For policies that take tools natively: those that the conversation has."""
    must_answer: bool = False  # the next turn may call none of them


@dataclass(frozen=True)
class Completion:
    """One sampled turn."""

    text: str  # without the end token. With ids present it is their decoding, to be read and never encoded again
    finish: Finish
    token_ids: tuple[int, ...] | None = None  # sampled ids, the end token included when it was sampled
    logprobs: tuple[float, ...] | None = None  # under the distribution that was sampled from; as long as ``token_ids``
    versions: tuple[int, ...] | None = None  # policy version of each sampled token
    prefilled_tokens: int = 0  # prompt tokens that had to be computed for it, by this or by another session that says the same
    prompt_tokens: int = 0  # prompt tokens the model saw in all
    sampled_tokens: int = 0
    """As a text-level server counts them, hidden reasoning included; 0 where it does not say, and where ids can be counted."""
    reasoning_field: str | None = None  # where a chat server gave the reasoning that is in the text; it wants it back there

    @property
    def is_cut(self) -> bool:
        """Whether it had no more tokens to go on with."""
        return self.finish is Finish.LENGTH


def sampled_tokens(completion: Completion) -> int:
    """Tokens that a turn sampled; 0 where a server does not say."""
    return completion.sampled_tokens if completion.token_ids is None else len(completion.token_ids)


class Session(Protocol):
    """One branch of one conversation."""

    async def generate(self, delta: Delta, sampling: Sampling, key: SampleKey, on_text: OnText = None) -> Completion:
        """Append the delta, sample one turn, keep both. Cancellable. Raises PolicyOutageError when the backend is broken."""
        ...

    def mark(self) -> int:
        """A position to which :meth:`rewind` can return."""
        ...

    def rewind(self, mark: int) -> None:
        """Forget everything after ``mark`` (a rejected attempt); the cache before it is kept."""

    def close(self) -> None:
        """Free the session's cache; closing twice is allowed."""


class Policy(Protocol):
    """Something that can speak the next turn."""

    @property
    def name(self) -> str: ...
    @property
    def tokenizer(self) -> Tokenizer | None:
        """None: the policy is text-level."""
        ...

    @property
    def context_length(self) -> int | None:
        """Most tokens the model can see; None: nobody knows."""
        ...

    @property
    def version(self) -> int:
        """How many weight updates this policy has seen."""
        ...

    def open(self, key: SampleKey) -> Session: ...


class WeightSync(Protocol):
    """One way for a trained module's weights to reach whoever samples. A version is the number of updates behind them."""

    @property
    def version(self) -> int: ...

    def training(self) -> AbstractAsyncContextManager[None]:
        """Around the computation of an update. Who shares module or device with the trainer lets nobody sample inside."""
        ...

    async def publish(self, weights: Mapping[str, Any] | None, version: int) -> None:
        """Sample with these weights (tensors by parameter name) from the return on. None: another rank hands them over.

        Raises PolicyOutageError when the sampler cannot be reached, UserError when it refuses the weights.
        """


class Gate:
    """Holds back new turns while it is closed; turns under way end as usual."""

    def __init__(self) -> None:
        self._inside = self._holds = 0
        self._changed = asyncio.Event()

    @asynccontextmanager
    async def passing(self) -> AsyncIterator[None]:
        """Be inside, once the gate is open."""
        while self._holds:
            await self._changed.wait()
        self._inside += 1
        try:
            yield
        finally:
            self._inside -= 1
            self._tell()

    @asynccontextmanager
    async def closed(self, *, empty: bool) -> AsyncIterator[None]:
        """Keep everybody out; with ``empty`` the block begins when the last one inside has come out."""
        self._holds += 1
        try:
            while empty and self._inside:
                await self._changed.wait()
            yield
        finally:
            self._holds -= 1
            self._tell()

    def _tell(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()


def takes_tools(policy: Policy) -> bool:
    """Whether a policy's sessions want the tools in their deltas, in place of the system prompt; it says so itself."""
    return bool(getattr(policy, "takes_tools", False))


class WrappedPolicy:
    """A policy around another one, which it describes itself as; whoever extends it writes ``open``."""

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self.name, self.tokenizer, self.context_length = policy.name, policy.tokenizer, policy.context_length
        self.takes_tools = takes_tools(policy)

    @property
    def version(self) -> int:
        return self._policy.version


def tell_reasoning_field(policy: Policy, name: str) -> None:
    """Tell a chat server's policy where that gave its reasoning to an earlier process."""
    inner: Any = policy
    while isinstance(inner, WrappedPolicy):
        inner = inner._policy
    if hasattr(inner, "reasoning_field"):
        inner.reasoning_field = name


class _BranchSession(ABC):
    """A branch, marks on it, and all-or-nothing turns: whatever ``_speak`` raises, the branch is then as it was before."""

    def __init__(self, policy: Any = None) -> None:
        """``policy``: whatever ``_speak`` needs."""
        self._policy = policy
        self._branch: list[Any] = []
        self._closed = False

    @abstractmethod
    async def _speak(self, branch: Sequence[Any], sampling: Sampling, key: SampleKey, on_text: OnText) -> Completion: ...
    @abstractmethod
    def _new(self, delta: Delta) -> Sequence[Any]: ...
    @abstractmethod
    def _spoken(self, completion: Completion) -> Sequence[Any]: ...

    async def generate(self, delta: Delta, sampling: Sampling, key: SampleKey, on_text: OnText = None) -> Completion:
        """Append the delta and one spoken turn."""
        if self._closed:
            raise RuntimeError("The session was closed: open another one.")
        seen = [*self._branch, *self._new(delta)]
        completion = await self._speak(tuple(seen), sampling, key, on_text)
        self._branch = [*seen, *self._spoken(completion)]
        return completion

    def mark(self) -> int:
        return len(self._branch)

    def rewind(self, mark: int) -> None:
        if not 0 <= mark <= len(self._branch):
            raise ValueError(f"mark {mark} is not on this branch of length {len(self._branch)}")
        del self._branch[mark:]

    def close(self) -> None:
        self._branch.clear()
        self._closed = True


class MessageSession(_BranchSession):
    """A branch of messages, for text-level policies."""

    def _new(self, delta: Delta) -> Sequence[Message]:
        return delta.messages

    def _spoken(self, completion: Completion) -> Sequence[Message]:
        return (Message(role=Role.ASSISTANT, content=completion.text),)


class TokenSession(_BranchSession):
    """A branch of token ids, for token-level policies whose cache is elsewhere."""

    def _new(self, delta: Delta) -> Sequence[int]:
        if delta.token_ids is None:
            raise ValueError("A token-level session needs the delta's token ids: render the messages with its tokenizer.")
        return delta.token_ids

    def _spoken(self, completion: Completion) -> Sequence[int]:
        return completion.token_ids or ()


def cut_at_stop(text: str, stops: Sequence[str]) -> tuple[str, bool]:
    """Cut a text before the earliest of the stop strings; says whether one was found."""
    found = [at for stop in stops if stop and (at := text.find(stop)) >= 0]
    return (text[: min(found)], True) if found else (text, False)


Reply = Callable[[Sequence[Message], SampleKey], str]
"""Everything said on the branch so far, ending with what is new, and the turn's key, to the text of the next turn."""


class ScriptedSession(MessageSession):
    """A branch of messages that a reply function continues; a stop string ends a turn as it would for a model."""

    _policy: "ScriptedPolicy"

    async def _speak(self, branch: Sequence[Message], sampling: Sampling, key: SampleKey, on_text: OnText) -> Completion:
        await asyncio.sleep(0)  # a model would yield here: others run, and a cancellation arrives
        found: object = self._policy.reply(branch, key)
        if not isinstance(found, str):
            raise UserError(f"{self._policy.name} gave {type(found).__name__} for a turn: it has to give the turn's text.")
        text, stopped = cut_at_stop(found, sampling.stop)
        if on_text is not None:
            on_text(text)
        return Completion(text=text, finish=Finish.STOP if stopped else Finish.END)


class ScriptedPolicy:
    """A policy that asks a function for every turn.

    Example: ``ScriptedPolicy(lambda messages, key: "<think>easy</think><answer>Paris</answer>")``
    """

    tokenizer = context_length = None
    version = 0

    def __init__(self, reply: Reply, name: str = "scripted") -> None:
        self.reply, self.name = reply, name

    def open(self, key: SampleKey) -> Session:
        return ScriptedSession(self)
