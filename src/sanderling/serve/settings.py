"""Settings of a server, where it may listen, and who may ask it."""

import base64
import binascii
import hmac
import ipaddress
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit

from pydantic import Field

from sanderling.core.config import Frozen
from sanderling.core.errors import UserError


class ServerSettings(Frozen):
    """Settings of one server."""

    host: str = "127.0.0.1"
    """Where it listens; on a loopback address without a token, requests that name another host are refused."""
    port: int = Field(default=8018, ge=0, le=65_535)
    """0: any free one."""
    token: str | None = Field(default=None, min_length=1)
    """What clients must present; None: anybody who reaches the server may ask."""
    dialects: tuple[str, ...] = ()
    """Names of `dialects.DIALECTS` and ``mcp``; empty: all."""
    max_body_bytes: int = Field(default=1 << 20, ge=1)
    max_concurrent: int = Field(default=256, ge=1)
    """Requests at a time; more are answered 429."""
    timeout_s: float = Field(default=30.0, gt=0)
    """For a whole request, its body's arrival included."""
    grace_s: int = Field(default=10, ge=0)
    """How long requests in flight may take to finish when the server is stopped."""
    threads: int = Field(default=4, ge=1)
    """World calls at a time."""
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
    with suppress(ValueError):
        return ipaddress.ip_address(name).is_loopback
    return name == "localhost"


def check_binding(settings: ServerSettings) -> None:
    """Raises UserError where others would reach a server that asks for no token, and for a key without a certificate."""
    if settings.token is None and not settings.loopback:
        raise UserError(
            f"Listening on {settings.host} lets other machines in: name the variable that holds a token with --token-env, "
            "or listen on 127.0.0.1."
        )
    if settings.key is not None and settings.certificate is None:
        raise UserError("A key was given without its certificate: name that file with --set certificate=FILE.")


def token_matches(headers: Mapping[str, str], token: str) -> bool:
    """Whether a client presents the token; compared in constant time.

    It comes as ``Authorization: Bearer``, as ``X-API-KEY`` (Serper's clients), or as the password in the base URL
    (``http://any:TOKEN@host``, for clients that send no header of their own).
    """
    presented = [headers.get("x-api-key", "")]
    scheme, _, value = headers.get("authorization", "").partition(" ")
    if scheme.lower() == "bearer":
        presented.append(value.strip())
    elif scheme.lower() == "basic":
        with suppress(binascii.Error):
            presented.append(base64.b64decode(value.strip(), validate=True).decode("utf-8", "replace").partition(":")[2])
    wanted = token.encode("utf-8", "surrogatepass")
    return any(hmac.compare_digest(each.encode("utf-8", "surrogatepass"), wanted) for each in presented)


def from_this_machine(headers: Mapping[str, str]) -> bool:
    """Whether ``Host`` and ``Origin`` are this machine: otherwise any web page in a browser here could read the world."""
    origin = headers.get("origin")
    return is_loopback(_host_of(f"//{headers.get('host', '')}")) and (origin is None or is_loopback(_host_of(origin)))


def _host_of(url: str) -> str:
    with suppress(ValueError):
        return urlsplit(url).hostname or ""
    return ""
