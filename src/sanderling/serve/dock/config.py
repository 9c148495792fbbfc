"""Settings of a dock, as its TOML has them.

[pools.notes]
command = ["sanderling", "tools", "serve", "--docs", "notes"]
replicas = 2

[tokens.trainer]
token = "env:TRAINER_TOKEN"
pools = ["notes"]
"""

import re
from functools import partial
from pathlib import Path
from typing import Any

from pydantic import Field, model_validator

from sanderling.core.config import Frozen
from sanderling.core.errors import UserError, check_all
from sanderling.tools.mcp.config import ServerConfig, secret

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,39}")


class Check(Frozen):
    """A real call that shows whether a replica works."""

    tool: str = ""
    """Name of the tool; empty: the list of tools is asked for instead."""
    arguments: dict[str, Any] = Field(default_factory=dict)
    """What it is called with."""
    every_s: float = Field(default=15.0, gt=0)
    """Pause between two checks of a replica that has nothing to do."""
    within_s: float = Field(default=10.0, gt=0)
    """A replica that takes longer is started anew."""


class PoolConfig(ServerConfig):
    """One tool server, so many times."""

    image: str = ""
    """An OCI image that docker or podman runs, with the command as its own."""
    sandbox: bool = False
    """The command reads the system's programs, this Python, its directory and ``readable`` alone, and writes to ``writable``
    and a /tmp of its own (bubblewrap)."""
    network: bool = True
    """Whether an image or a sandbox has the network."""
    readable: tuple[Path, ...] = ()
    """Further folders that an image or a sandbox may read."""
    writable: tuple[Path, ...] = ()
    """Folders that an image or a sandbox may write to."""
    replicas: int = Field(default=1, ge=1, le=256)
    """Processes of the command, or connections to the url."""
    warm: bool = True
    """Started with the dock; otherwise with the first call."""
    idle_s: float = Field(default=600.0, gt=0)
    """A pool that is not warm is stopped when it was not called for so long."""
    at_once: int = Field(default=8, ge=1)
    """Calls that one replica has at the same time."""
    waiting: int = Field(default=256, ge=0)
    """Calls that may wait for a free replica; further ones are refused at once."""
    wait_s: float = Field(default=30.0, gt=0)
    """Longest wait for a replica."""
    call_s: float = Field(default=180.0, gt=0)
    """Longest time of a call."""
    idempotent: tuple[str, ...] = ()
    """Tools that may be called again when a replica is lost, beside those whose server says so."""
    sticky: bool = False
    """Calls of one session go to one replica; always so for tools that keep something for a session."""
    check: Check = Check()

    @model_validator(mode="after")
    def _is_one(self) -> "PoolConfig":
        if bool(self.url) == bool(self.command or self.image):
            raise ValueError("a pool needs either a command, an image or a url")
        if self.sandbox and (self.url or self.image):
            raise ValueError("sandbox is for a command")
        if not (self.sandbox or self.image) and (self.readable or self.writable or not self.network):
            raise ValueError("network, readable and writable are of a sandbox or an image: give sandbox = true")
        return self


class TokenConfig(Frozen):
    """Who may ask for what."""

    token: str
    """The secret: ``env:NAME`` or ``file:PATH``."""
    pools: tuple[str, ...] = ()
    """Pools whose tools may be listed and called."""
    admin: bool = False
    """May see the dashboard, metrics and logs, and start, drain and kill; and call everything."""


class DockConfig(Frozen):
    """Settings of ``sanderling dock up``."""

    host: str = "127.0.0.1"
    """Address to listen on; other than this machine's needs tokens."""
    port: int = Field(default=8020, ge=0, le=65_535)
    """0: any free port."""
    state: Path = Path("runs/dock")
    """Directory of the audit log, which begins anew every 64 MB; one dock at a time has it."""
    max_body_mb: int = Field(default=1, ge=1)
    """Larger requests are refused: while one is read, others wait."""
    grace_s: float = Field(default=10.0, ge=0)
    """Time that calls in flight have when the dock is stopped."""
    pools: dict[str, PoolConfig] = Field(default_factory=dict)
    """Tool servers by name."""
    tokens: dict[str, TokenConfig] = Field(default_factory=dict)
    """Who may call what, by a name for the audit log: ``token``, ``pools``, ``admin``."""

    @model_validator(mode="after")
    def _fits_together(self) -> "DockConfig":
        wrong = [
            f"{name!r} is no name for a pool or token: use letters, digits, - and _"
            for name in (*self.pools, *self.tokens)
            if not _NAME.fullmatch(name)
        ]
        wrong += [
            f"the token {name!r} names a pool {pool!r} that is not there"
            for name, token in self.tokens.items()
            for pool in token.pools
            if pool not in self.pools
        ]
        if wrong:
            raise ValueError("; ".join(wrong))
        return self


def check_dock(config: DockConfig) -> None:
    """What cannot be seen in the settings alone: whether there is something to do, and every secret. Raises UserError."""
    if not config.pools:
        raise UserError("The dock has no pools: name at least one, such as [pools.notes] with its command.")
    places = [place for pool in config.pools.values() for place in (*pool.secrets.values(), pool.token) if place]
    check_all(*(partial(secret, place) for place in places))
