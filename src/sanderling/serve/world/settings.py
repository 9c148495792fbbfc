"""What a server of a world may be told, and the one rule about where it may listen. Knows no web library."""

import ipaddress
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field

from sanderling.core.errors import UserError


class ServerSettings(BaseModel):
    """Settings of one server."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    host: str = "127.0.0.1"
    """Where it listens; on a loopback address without a token, requests that name another host are refused."""
    port: int = Field(default=8018, ge=0, le=65_535)
    """0: any free one."""
    token: str | None = Field(default=None, min_length=1)
    """What clients must present; None: anybody who reaches the server may ask."""
    dialects: tuple[str, ...] = ()
    """Names of `registry.DIALECTS` and ``mcp``; empty: all."""
    max_body_bytes: int = Field(default=1 << 20, ge=1)
    max_concurrent: int = Field(default=256, ge=1)
    """Requests at a time; more are answered 429."""
    timeout_s: float = Field(default=30.0, gt=0)
    """For a whole request, its body's arrival included."""
    grace_s: int = Field(default=10, ge=0)
    """How long requests in flight may take to finish when the server is told to stop."""
    threads: int = Field(default=4, ge=1)
    """World calls at a time."""
    pace: float | None = Field(default=None, gt=0)
    """Replies are held back by the world's virtual delays, so many seconds of theirs to a real one; None: only told."""
    page_words: int = Field(default=50_000, ge=1)
    """Most words of a page where a dialect asks for all of it."""
    certificate: Path | None = None
    """A file of PEM certificates: it then speaks HTTPS, which clients with a fixed ``https://`` need."""
    key: Path | None = None
    """The certificate's private key in PEM; None: it stands in the same file."""

    @property
    def loopback(self) -> bool:
        """Whether only this machine reaches the server."""
        return is_loopback(self.host)


def is_loopback(host: str) -> bool:
    """Whether a host is this machine, by name or address."""
    name = host.strip("[]").lower()
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return name == "localhost"


def check_binding(settings: ServerSettings) -> None:
    """Raises UserError where others would reach a server that asks for no token, and for a key without a certificate."""
    if settings.token is None and not settings.loopback:
        raise UserError(
            f"Listening on {settings.host} lets other machines in: name the variable that holds a token with --token-env, "
            "or listen on 127.0.0.1."
        )
    if settings.key is not None and settings.certificate is None:
        raise UserError("A key was given without its certificate: name that file with --certificate.")
