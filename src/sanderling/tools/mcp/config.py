"""Settings of a tool server that speaks MCP, and opening those that an agent uses."""

import asyncio
import os
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import Field, model_validator

from sanderling.core.config import Frozen
from sanderling.core.errors import UserError, need
from sanderling.runs.files import or_cannot
from sanderling.runs.work import all_of
from sanderling.tools.contract import ToolOutageError

if TYPE_CHECKING:
    from sanderling.tools.mcp.client import Connection
    from sanderling.tools.mcp.server import ToolServer

DOCK_TOKEN = "SANDERLING_DOCK_TOKEN"


class ServerConfig(Frozen):
    """A tool server: a command that speaks MCP over its standard input and output, or an address."""

    command: tuple[str, ...] = ()
    """Program and arguments; it is started here."""
    url: str = ""
    """Of a server that runs already, with streamable HTTP: ``http://127.0.0.1:9000/mcp``."""
    tools: tuple[str, ...] = ()
    """The tools that may be used, by name or with ``*``; empty: all of them."""
    env: dict[str, str] = Field(default_factory=dict)
    """Variables of its environment, beside ``PATH``, ``HOME`` and the like."""
    secrets: dict[str, str] = Field(default_factory=dict)
    """Variables whose value stands elsewhere: ``env:NAME`` here, or ``file:PATH``."""
    token: str = ""
    """What an address asks for: ``env:NAME`` or ``file:PATH``."""
    directory: Path | None = None
    """Where the command runs."""
    start_s: float = Field(default=30.0, gt=0)
    """How long it may take to start, or to be reached."""
    memory_mb: int | None = Field(default=None, ge=1)
    """Most memory of the command's process."""
    reply_mb: int = Field(default=16, ge=1)
    """Most of one reply: a server that writes more is ended."""

    @model_validator(mode="after")
    def _is_one(self) -> "ServerConfig":
        if bool(self.command) == bool(self.url):
            raise ValueError("a tool server needs either a command or a url")
        return self

    @model_validator(mode="after")
    def _fits_its_url(self) -> "ServerConfig":
        if self.url and not self.url.startswith(("http://", "https://")):
            raise ValueError(f"the url {self.url!r} has to begin with http:// or https://")
        if self.token and not self.url:
            raise ValueError("a token is for a url: give a command what it needs in env or secrets")
        return self


def secret(place: str) -> str:
    """What stands at ``env:NAME`` or ``file:PATH``, stripped. Raises UserError."""
    kind, _, where = place.partition(":")
    if kind not in ("env", "file") or not where:
        raise UserError("A secret is written env:NAME or file:PATH, never as it is.")
    if kind == "env":
        found, without = os.environ.get(where, ""), f"The environment variable {where} is not set"
    else:
        with or_cannot(f"read the secret in {where}", "check the file"):
            found, without = Path(where).read_text(encoding="utf-8", errors="replace"), f"The file {where} is empty"
    if not found.strip():
        raise UserError(f"{without}: put the secret there.")
    return found.strip()


def connection_to(name: str, config: ServerConfig) -> "Connection":
    """A connection that is not open yet. Raises UserError for a secret that is not there."""
    from sanderling.tools.mcp.client import Address, Connection
    from sanderling.tools.mcp.process import Child

    most = config.reply_mb << 20
    if config.url:
        server = Address(config.url, secret(config.token) if config.token else "", most)
    else:
        secrets = {variable: secret(place) for variable, place in config.secrets.items()}
        memory = None if config.memory_mb is None else config.memory_mb << 20
        given = {**config.env, **secrets}
        server = Child(config.command, given, tuple(secrets.values()), config.directory, memory, most)
    return Connection(name, server, start_s=config.start_s)


@asynccontextmanager
async def opened_servers(configs: Mapping[str, ServerConfig], dock: str = "") -> "AsyncIterator[list[ToolServer]]":
    """Servers by name, and a dock, all of them open; closed at the end. Raises UserError for one that does not come up."""
    asked = dict(configs)
    if dock:
        token = f"env:{DOCK_TOKEN}" if os.environ.get(DOCK_TOKEN) else ""
        asked["dock"] = ServerConfig(url=f"{dock.rstrip('/').removesuffix('/mcp')}/mcp", token=token)
    servers = [server_to(name, config) for name, config in asked.items()]
    try:
        try:
            await all_of(server.open() for server in servers)
        except ToolOutageError as error:
            raise UserError(f"A tool server does not come up. {error}") from error
        yield servers
    finally:
        await asyncio.gather(*(server.close() for server in servers))


def server_to(name: str, config: ServerConfig) -> "ToolServer":
    """A server that is not open yet. Raises UserError where `mcp` is not installed, or a secret not there."""
    need("serve")
    from sanderling.tools.mcp.server import ToolServer

    return ToolServer(partial(connection_to, name, config))
