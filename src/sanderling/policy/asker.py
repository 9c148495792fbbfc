"""Any policy as an asker: one conversation in, one reply out, remembered, paid for, and never too many at a time.

Retries are the policy's own. A reply is remembered under the model, the conversation, the temperature, the length and the
sample; asked again, it costs nothing and is the same. After several calls in a row that met no server only one a minute is
made, since each would wait for it in vain; once one is answered all are made again. Knows no prompt and reads no reply, but
takes reasoning off.
"""

import asyncio
import hashlib
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from weakref import WeakValueDictionary

from sanderling.core.asking import AskingOutageError, AskingRefusedError, Reply, Usage
from sanderling.core.chat import conversation_ids
from sanderling.core.types import Message, Sampling
from sanderling.policy.contract import Delta, Finish, Policy, PolicyOutageError, SampleKey
from sanderling.policy.http_client import RefusedError
from sanderling.policy.ledger import Ledger
from sanderling.policy.metered import MeteredPolicy, Till
from sanderling.policy.reply_cache import Kept, ReplyCache

_MOST_OUTAGES = 5
_AGAIN_S = 60.0
"""How long a server that was not reached so often is left alone before it is tried again."""
_OPEN, _CLOSE = "<think>", "</think>"


class PolicyAsker:
    """See `protocol.asking.Asker`.

    Args:
        policy: whose word it is; text-level or token-level.
        till: where it is paid; without one, nowhere.
        cache: where replies are kept; None: nowhere.
        concurrency: replies waited for at the same time.
        place: what tells this model from others of its name.
        monotonic: seconds, by which a server that is away is tried again.

    """

    def __init__(
        self,
        policy: Policy,
        *,
        till: Till | None = None,
        cache: ReplyCache | None = None,
        concurrency: int = 8,
        place: str = "",
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._till = till or Till(Ledger())
        self._policy = MeteredPolicy(policy, self._till)
        self._cache = cache
        self._turns = asyncio.Semaphore(concurrency)
        self._place = place
        self._identity = f"{policy.name} at {place}" if place else policy.name
        self._outages = 0
        self._monotonic, self._next_try = monotonic, 0.0
        self._alike: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        """Of conversations under way: one that is asked twice at the same time is paid once."""

    @property
    def name(self) -> str:
        return self._policy.name

    @property
    def place(self) -> str:
        return self._place

    async def ask(
        self, messages: Sequence[Message], *, max_tokens: int = 1_024, temperature: float = 0.0, sample: int = 0
    ) -> Reply:
        """The model's reply, remembered or sampled. Raises as `protocol.asking.Asker` says, AskingRefusedError too."""
        settings = (temperature, max_tokens, sample)
        alike = self._alike.setdefault(f"{_digest(messages)} {settings}", asyncio.Lock())
        async with nullcontext() if self._cache is None else alike, self._turns:
            known = None if self._cache is None else self._cache.find(self._identity, messages, *settings)
            if known is not None:
                return self._reply(known, remembered=True)
            kept = await self._sampled(messages, Sampling(temperature=temperature, max_tokens=max_tokens), sample)
            if self._cache is not None:
                self._cache.keep(self._identity, messages, kept, *settings)
        return self._reply(kept, remembered=False)

    def _reply(self, kept: Kept, *, remembered: bool) -> Reply:
        prompt, sampled = kept.prompt_tokens, kept.sampled_tokens
        cost = 0.0 if remembered else self._till.prices.of(prompt, sampled)
        usage = Usage(self.name, prompt, sampled, cost, remembered, kept.is_estimated)
        return Reply(without_reasoning(kept.text), usage, kept.cut)

    async def _sampled(self, messages: Sequence[Message], sampling: Sampling, sample: int) -> Kept:
        if self._outages >= _MOST_OUTAGES:
            if self._monotonic() < self._next_try:
                raise AskingOutageError(
                    f"{self.name} was not reached {self._outages} times in a row: it is asked once a minute."
                )
            self._next_try = self._monotonic() + _AGAIN_S  # nobody else meanwhile
        key = SampleKey(seed=0, question=_digest(messages), attempt=sample, turn=0)
        tokenizer = self._policy.tokenizer
        ids = None if tokenizer is None else tuple(conversation_ids(tokenizer, messages))
        session = self._policy.open(key)
        try:
            done = await session.generate(Delta(tuple(messages), ids), sampling, key)
        except PolicyOutageError as error:
            self._outages += 1
            self._next_try = self._monotonic() + _AGAIN_S
            raise AskingOutageError(str(error)) from error
        except RefusedError as error:
            self._outages = 0  # a server that refuses was reached
            raise AskingRefusedError(str(error)) from error
        finally:
            session.close()
        self._outages = 0
        taken = session.last
        assert taken is not None, "a turn that was sampled took something"
        return Kept(done.text, taken.prompt_tokens, taken.sampled_tokens, done.finish is Finish.LENGTH, taken.is_estimated)


def without_reasoning(text: str) -> str:
    """What was said after the reasoning; nothing when the reasoning never ended."""
    _, closed, after = text.rpartition(_CLOSE)
    if closed:
        return after.strip()
    return after.partition(_OPEN)[0].strip()


def _digest(messages: Sequence[Message]) -> str:
    text = "\x1e".join(f"{message.role.value}\x1f{message.content}" for message in messages)
    return hashlib.sha256(text.encode("utf-8", errors="replace")).hexdigest()
