"""Models that are asked in conversations, as judges, page readers and writers of questions are: each reply is paid, and kept.

:func:`opened_clients` opens them by their specifications (`load`), on the account of a run (`budget`).
"""

import asyncio
import hashlib
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, nullcontext
from pathlib import Path
from weakref import WeakValueDictionary

from sanderling.core.chat import conversation_ids
from sanderling.core.config import Frozen
from sanderling.core.types import AskingOutageError, AskingRefusedError, Message, Reply, Sampling, Usage
from sanderling.policy.budget import Ledger, MeteredPolicy, Prices, Spending, read_prices
from sanderling.policy.contract import Delta, Policy, PolicyOutageError, SampleKey
from sanderling.policy.load import close_policy, open_policy, place_of
from sanderling.runs.files import close_directory, or_cannot, user_cache
from sanderling.runs.run import Database, Table


class Kept(Frozen, extra="ignore"):  # a cache outlives versions
    """A reply, and what it took when it was made."""

    reply: str
    prompt_tokens: int = 0
    sampled_tokens: int = 0
    cut: bool = False  # it ended for its length


class ReplyCache:
    """Replies in a directory's database, which processes may share."""

    def __init__(self, directory: Path, *, private: bool = False) -> None:
        """``private``: the directory is for its owner alone from now on. Raises UserError when it cannot be written."""
        with or_cannot(f"keep replies in {directory}", "choose another directory"):
            directory.mkdir(parents=True, exist_ok=True)
            if private:
                close_directory(directory)
        self._replies = Table(Database(directory / "replies.db"), "reply")

    def get(self, key: str) -> Kept | None:
        """The reply that is kept under a key, if there is one."""
        text = self._replies.blob(key)
        return None if text is None else Kept(reply=text.decode(), **self._replies.get(key))

    def put(self, key: str, kept: Kept) -> None:
        """Keep a reply. Raises UserError when the disk does not take it."""
        record, text = kept.model_dump(exclude={"reply"}), kept.reply.encode(errors="replace")
        self._replies.put(key, record, blob=text, durable=False)


class RequestClient:
    """A model that answers conversations (`core.types.ModelClient`); ``concurrency``: replies waited for at the same time."""

    def __init__(
        self,
        policy: Policy,
        *,
        ledger: Ledger | None = None,
        prices: Prices | None = None,
        cache: ReplyCache | None = None,
        concurrency: int = 8,
        place: str = "",
    ) -> None:
        self.name, self.place, self.context_length = policy.name, place, policy.context_length
        self._policy = MeteredPolicy(policy, ledger or Ledger(), prices or Prices())
        self._cache, self._turns = cache, asyncio.Semaphore(concurrency)
        self._identity = f"{policy.name} at {place}" if place else policy.name
        self._alike: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        """Of conversations under way: one that is asked twice at the same time is paid once."""

    async def ask(
        self, messages: Sequence[Message], *, max_tokens: int = 1_024, temperature: float = 0.0, sample: int = 0
    ) -> Reply:
        """The model's reply, remembered or sampled. Raises AskingOutageError, AskingRefusedError and BudgetSpentError."""
        record = [1, self._identity, [[message.role.value, message.content] for message in messages]]
        key = hashlib.sha256(json.dumps([*record, temperature, max_tokens, sample]).encode("ascii")).hexdigest()
        alike = self._alike.setdefault(key, asyncio.Lock())
        async with nullcontext() if self._cache is None else alike, self._turns:
            kept = None if self._cache is None else self._cache.get(key)
            remembered = kept is not None
            if kept is None:
                kept = await self._sampled(messages, Sampling(temperature=temperature, max_tokens=max_tokens), sample)
                if self._cache is not None:
                    self._cache.put(key, kept)
        prompt, sampled = kept.prompt_tokens, kept.sampled_tokens
        cost = 0.0 if remembered else self._policy.prices.of(prompt, sampled)
        usage = Usage(self.name, prompt, sampled, cost, remembered)
        _, closed, after = kept.reply.rpartition("</think>")
        said = after if closed else after.partition("<think>")[0]  # nothing where the reasoning never ended
        return Reply(said.strip(), usage, kept.cut)

    async def _sampled(self, messages: Sequence[Message], sampling: Sampling, sample: int) -> Kept:
        from sanderling.policy.endpoint import RefusedError

        text = "\x1e".join(f"{message.role.value}\x1f{message.content}" for message in messages)
        asked = hashlib.sha256(text.encode("utf-8", errors="replace")).hexdigest()
        key = SampleKey(seed=0, question=asked, attempt=sample, turn=0)
        tokenizer = self._policy.tokenizer
        ids = None if tokenizer is None else tuple(conversation_ids(tokenizer, messages))
        session = self._policy.open(key)
        try:
            done = await session.generate(Delta(tuple(messages), ids), sampling, key)
        except PolicyOutageError as error:
            raise AskingOutageError(str(error)) from error
        except RefusedError as error:
            raise AskingRefusedError(str(error)) from error
        finally:
            session.close()
        return Kept(
            reply=done.text,
            prompt_tokens=session.prompt_tokens,
            sampled_tokens=session.sampled_tokens,
            cut=done.is_cut,
        )


@asynccontextmanager
async def opened_clients(
    specs: Sequence[str], prices: Sequence[str], spending: Spending, *, concurrency: int = 8
) -> AsyncIterator[list[RequestClient]]:
    """Models as clients on the account of a run; at the end their connections are closed. Raises UserError.

    ``prices``: one for all, or one for each.
    """
    each = read_prices(prices, len(specs), spending.config.max_cost)
    if not specs:
        yield []
        return
    cache = ReplyCache(spending.config.cache or user_cache() / "replies", private=spending.private)
    async with AsyncExitStack() as stack:
        stack.enter_context(spending.alone())
        clients: list[RequestClient] = []
        for spec, price in zip(specs, each, strict=True):
            policy = open_policy(spec)
            stack.push_async_callback(close_policy, policy)
            client = RequestClient(
                policy, ledger=spending.ledger, prices=price, cache=cache, concurrency=concurrency, place=place_of(spec)
            )
            clients.append(client)
        yield clients
