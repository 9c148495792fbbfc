"""A policy from one line of text, as the command line takes it.

- a directory: a local Hugging Face model, in this process
- ``http(s)://host:port/v1#model``: a chat endpoint
- ``http(s)://host:port/v1?tokenizer=DIRECTORY#model``: vLLM token by token, with the served model's tokenizer
- ``file.py:name`` or ``package.module:name``: a policy, or a function from messages and key to the text of the next turn

Options of an endpoint: ``key_env`` (environment variable with the API key; otherwise ``OPENAI_API_KEY``, if set), ``context``
(most tokens the model sees), ``tokenizer``, ``timeout`` (longest silence, in seconds), ``retries`` (further attempts), and
``tools=text`` for a server that takes no tools: a general model is then told of them in the system prompt.
"""

import hashlib
import os
from contextlib import aclosing
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast
from urllib.parse import SplitResult, parse_qsl, urlsplit

from pydantic import Field

from sanderling.core.chat import load_tokenizer
from sanderling.core.config import Frozen, check_config
from sanderling.core.errors import UserError, need
from sanderling.core.plugins import is_outside, load_outside, takes
from sanderling.policy.contract import Policy, ScriptedPolicy

if TYPE_CHECKING:
    from sanderling.policy.endpoint import HttpClient


class _Options(Frozen):
    """Of an endpoint's address."""

    key_env: str = ""
    context: int | None = Field(default=None, ge=1)
    tokenizer: Path | None = None
    timeout: int = Field(default=600, ge=1)
    retries: int = Field(default=5, ge=0)
    tools: Literal["native", "text"] = "native"


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
        here = "name its function, file.py:model" if spec.endswith(".py") else "give a directory with its config.json"
        raise UserError(f"There is no model at {spec!r}: {here}, or http://host:port/v1#model.")


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
    if not hasattr(found, "open"):
        takes(spec, found, "messages", "key")
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
    async with aclosing(client_of(spec, retries=0, timeout=10)) as server:
        try:
            told = (await server.json("models")).get("data")
        except UserError:  # a server of models need not list them
            return {}
    told = told if isinstance(told, list) else []
    rooms = {str(one["id"]): one.get("max_model_len") for one in told if isinstance(one, dict) and one.get("id")}
    return {name: room if isinstance(room, int) else None for name, room in rooms.items()}


def client_of(spec: str, **options: int) -> "HttpClient":
    """The server of a specification, with some options given; whoever opens it closes it. Raises UserError."""
    parts, given = _split(spec)
    return _client(parts, given.model_copy(update=options))


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
        how = {"context_length": options.context, "takes_tools": options.tools == "native"}
        return ChatEndpointPolicy(client, parts.fragment, **how)
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
