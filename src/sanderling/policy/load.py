"""A policy from one line of text, as the command line takes it.

- a directory: a local Hugging Face model, in this process
- ``http(s)://host:port/v1#model``: a chat endpoint
- ``http(s)://host:port/v1?tokenizer=DIRECTORY#model``: vLLM token by token, with the served model's tokenizer
- ``file.py:name`` or ``package.module:name``: a policy, or a function from messages and key to the text of the next turn

Options of an endpoint: ``key_env`` (environment variable with the API key; otherwise ``OPENAI_API_KEY``, if set), ``context``
(most tokens the model sees), ``tokenizer``, ``timeout`` (longest silence, in seconds) and ``retries`` (further attempts).
"""

import asyncio
import hashlib
import json
import os
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, aclosing, asynccontextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import SplitResult, parse_qsl, urlsplit
from weakref import WeakValueDictionary

from pydantic import Field

from sanderling.core.chat import conversation_ids, load_tokenizer
from sanderling.core.config import Frozen, check_config
from sanderling.core.errors import UserError, need
from sanderling.core.plugins import is_outside, load_outside
from sanderling.core.types import AskingOutageError, AskingRefusedError, Message, Reply, Sampling, Usage
from sanderling.policy.budget import Ledger, MeteredPolicy, Prices, Spending, read_prices
from sanderling.policy.contract import Delta, Finish, Policy, PolicyOutageError, SampleKey, ScriptedPolicy
from sanderling.runs.files import close_directory
from sanderling.runs.run import Database, Table

if TYPE_CHECKING:
    from sanderling.policy.endpoint import HttpClient


class _Options(Frozen):
    """Of an endpoint's address."""

    key_env: str = ""
    context: int | None = Field(default=None, ge=1)
    tokenizer: Path | None = None
    timeout: int = Field(default=600, ge=1)
    retries: int = Field(default=5, ge=0)


def is_endpoint(spec: str) -> bool:
    """Whether a specification names a server; every other one is a directory."""
    return spec.partition(":")[0].lower() in ("http", "https")


def names_model(spec: str) -> bool:
    """Whether a word means a model, by address or path, where rules may stand too: ``exact``, or ``mine/judge.py:lenient``."""
    return ("/" in spec or spec.startswith(".")) and not is_outside(spec)


def check_model(spec: str) -> None:
    """Raise UserError now for what :func:`open_policy` would refuse, as far as can be told without loading or asking."""
    if is_endpoint(spec):
        _endpoint(spec)
    elif is_outside(spec):
        _outside(spec)
    elif not (Path(spec) / "config.json").is_file():
        raise UserError(f"There is no model at {spec!r}: give a directory with its config.json, or http://host:port/v1#model.")


def open_policy(spec: str, **how: Any) -> Policy:
    """Open what a specification names: a server, or a model (`TransformersPolicy.load`)."""
    if is_endpoint(spec):
        return _endpoint(spec)
    if is_outside(spec):
        return _outside(spec)
    if not Path(spec).exists():
        raise UserError(f"There is no model at {spec!r}: give a model directory, or an endpoint as http://host:port/v1#model.")
    need("local")
    from sanderling.policy.transformers_policy import TransformersPolicy  # brings torch

    return TransformersPolicy.load(Path(spec), **how)


def _outside(spec: str) -> Policy:
    found = load_outside(spec)
    if isinstance(found, type) or not (hasattr(found, "open") or callable(found)):
        raise UserError(f"{spec} is no policy: name a function of messages and key, or an object with open and name.")
    return cast(Policy, found) if hasattr(found, "open") else ScriptedPolicy(cast(Any, found), name=spec)


def weights_of(spec: str) -> str:
    """What tells a model from others of its name: a directory's place and its files' sizes and times; an endpoint's address."""
    if is_endpoint(spec) or is_outside(spec):
        return spec
    root = Path(spec).resolve()
    stats = {file.name: file.stat() for file in sorted(root.iterdir()) if file.is_file()}
    return f"{root} {[(name, stat.st_size, stat.st_mtime_ns) for name, stat in stats.items()]}"


def place_of(spec: str) -> str:
    """Where a model is, to be written down: without an endpoint's options and credentials, a directory as it is now."""
    if is_outside(spec):
        return spec
    if not is_endpoint(spec):
        return f"{Path(spec).resolve()} as of {hashlib.sha256(weights_of(spec).encode()).hexdigest()[:12]}"
    parts, _ = _split(spec)
    host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname
    port = "" if parts.port in (None, {"http": 80, "https": 443}[parts.scheme]) else f":{parts.port}"
    return f"{parts.scheme}://{host}{port}{parts.path.rstrip('/')}"


async def close_policy(policy: Policy) -> None:
    """Close an endpoint's connections, in the event loop that used them."""
    if (aclose := getattr(policy, "aclose", None)) is not None:
        await aclose()


async def models_at(spec: str) -> dict[str, int | None]:
    """What a server says it serves, by name, with the longest context where it tells. Raises UserError, PolicyOutageError."""
    parts, options = _split(spec)
    async with aclosing(_client(parts, options.model_copy(update={"retries": 0, "timeout": 10}))) as server:
        try:
            told = (await server.json("models")).get("data")
        except UserError:  # a server of models need not list them
            return {}
    told = told if isinstance(told, list) else []
    rooms = {str(one["id"]): one.get("max_model_len") for one in told if isinstance(one, dict) and one.get("id")}
    return {name: room if isinstance(room, int) else None for name, room in rooms.items()}


def _split(spec: str) -> tuple[SplitResult, _Options]:
    """The parts of an endpoint's address, whose port is a number that there is; and its options."""
    try:
        parts = urlsplit(spec)
        if parts.port == 0 or any(char.isspace() for char in parts.netloc):
            raise ValueError("a blank or port 0")
    except ValueError as error:  # brackets that nothing closes, a port that is no number or too large
        raise UserError(f"{spec!r} has no usable host and port ({error}): write http://host:port/v1#model.") from error
    return parts, check_config(_Options, dict(parse_qsl(parts.query)), f"{spec!r}")


def _endpoint(spec: str) -> Policy:
    from sanderling.policy.endpoint import ChatEndpointPolicy, CompletionEndpointPolicy

    parts, options = _split(spec)
    if not parts.hostname or not parts.fragment:
        raise UserError(f"{spec!r} lacks the host or the model's name: write http://host:port/v1#model.")
    client = _client(parts, options)
    if options.tokenizer is None:
        return ChatEndpointPolicy(client, parts.fragment, context_length=options.context)
    tokenizer = load_tokenizer(options.tokenizer)
    return CompletionEndpointPolicy(client, parts.fragment, tokenizer, context_length=options.context)


def _client(parts: SplitResult, options: _Options) -> "HttpClient":
    from sanderling.policy.endpoint import HttpClient

    variable = options.key_env or "OPENAI_API_KEY"
    key = os.environ.get(variable)
    if options.key_env and key is None:
        raise UserError(f"The environment variable {variable} named by key_env is not set: export the API key under that name.")
    if key is not None and not (key.isascii() and key.isprintable()):
        raise UserError(f"The API key in {variable} holds characters that no key has: export it again.")
    url = f"{parts.scheme}://{parts.netloc}{parts.path}"
    return HttpClient(url, key, retries=options.retries, timeout_s=options.timeout)


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
        try:
            directory.mkdir(parents=True, exist_ok=True)
            if private:
                close_directory(directory)
        except OSError as error:
            raise UserError(f"Replies cannot be kept in {directory} ({error.strerror}): choose another directory.") from error
        self._replies = Table(Database(directory / "replies.db"), "reply")

    def get(self, model: str, messages: Sequence[Message], *settings: float) -> Kept | None:
        """The reply that was sampled so, if it is known. ``settings``: temperature, lengths, which of several samples."""
        key = _key(model, messages, settings)
        text = self._replies.blob(key)
        return None if text is None else Kept(reply=text.decode(), **self._replies.get(key))

    def put(self, model: str, messages: Sequence[Message], kept: Kept, *settings: float) -> None:
        """Keep a reply. Raises UserError when the disk does not take it."""
        record, text = kept.model_dump(exclude={"reply"}), kept.reply.encode(errors="replace")
        self._replies.put(_key(model, messages, settings), record, blob=text, durable=False)


def _key(model: str, messages: Sequence[Message], settings: Sequence[float]) -> str:
    record = [1, model, [[message.role.value, message.content] for message in messages], *settings]
    return hashlib.sha256(json.dumps(record).encode("ascii")).hexdigest()


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
        settings = (temperature, max_tokens, sample)
        alike = self._alike.setdefault(_key(self._identity, messages, settings), asyncio.Lock())
        async with nullcontext() if self._cache is None else alike, self._turns:
            kept = None if self._cache is None else self._cache.get(self._identity, messages, *settings)
            remembered = kept is not None
            if kept is None:
                kept = await self._sampled(messages, Sampling(temperature=temperature, max_tokens=max_tokens), sample)
                if self._cache is not None:
                    self._cache.put(self._identity, messages, kept, *settings)
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
            cut=done.finish is Finish.LENGTH,
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
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    cache = ReplyCache(spending.config.cache or home / "sanderling" / "replies", private=spending.private)
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
