"""Which addresses may be read: those of public hosts. Private networks, this machine and clouds' metadata are refused.

A host is read as browsers read it, so that no spelling hides one: numbers in decimal, octal and hexadecimal, full-width digits,
escapes, IPv4 within IPv6. A name is looked up, and all addresses that it has must be public. What is fetched from here goes to
the very addresses that were checked (`Checked`). A service on another machine looks a name up for itself, and may be given
other addresses; of its redirections, the one at which they ended is checked.
"""

import asyncio
import ipaddress
import re
import socket
import unicodedata
from collections.abc import Awaitable, Callable, Collection
from contextlib import suppress
from typing import Any
from urllib.parse import unquote, urlsplit

import httpcore
import httpx

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Resolve = Callable[[str], Awaitable[list[str]]]
"""The addresses of a name. Raises OSError where nobody knows it."""
_ROUTED = ipaddress.IPv6Network("2000::/3")  # all else is local, reserved, or leads to IPv4 by some translator
_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")  # of an IPv4 address in its last 32 bits
_NOT_PUBLIC = tuple(map(ipaddress.IPv4Network, ("168.63.129.16/32", "192.0.0.0/24")))
"""Metadata of Azure, and of Oracle, whose range Python before 3.11.10 takes for a public one."""
_PRIVATE_NAMES = ("localhost", "local", "internal", "home.arpa")
_NOBODYS = ("example", "invalid")  # names that no resolver knows (RFC 6761)
_FORBIDDEN = re.compile(r"[\x00-\x20\x7f<>^|/?#@]")  # in a host; some readers stop at them
_LOOKUP_S = 10.0
_LAST_PORT = 65_535
_AT_ONCE = 2_048  # bytes of a connection
_MOST_TRIED = 3  # addresses of one name


class NotAllowedError(Exception):
    """An address that is not read from here: it is not public, is none of the web, or its site forbids it in robots.txt."""


class RobotsError(NotAllowedError):
    """An address whose site forbids it in robots.txt."""


class UnknownHostError(Exception):
    """A name that nobody knows; ``asked``: whether somebody could say so."""

    def __init__(self, host: str, asked: bool = True) -> None:
        super().__init__(host)
        self.asked = asked


def host_of(url: str) -> str:
    """The host that a browser would ask, in lower case; empty: there is none."""
    try:
        host = urlsplit(url.strip().replace("\\", "/")).hostname or ""
    except ValueError:
        return ""
    host = unicodedata.normalize("NFKC", unquote(host)).lower().replace("。", ".").rstrip(".")
    return "" if _FORBIDDEN.search(host) else host


def literal(host: str) -> Address | None:
    """The address that a host is, in any spelling that a browser takes; None: it is a name."""
    with suppress(ValueError):
        return ipaddress.ip_address(host.partition("%")[0])
    with suppress(OSError, ValueError):
        return ipaddress.IPv4Address(socket.inet_aton(host)) if host[:1].isdigit() else None
    return None


def is_public(address: Address) -> bool:
    """Whether an address can be reached from everywhere, those that it carries included."""
    if isinstance(address, ipaddress.IPv6Address):
        within = address.ipv4_mapped or address.sixtofour or (address.teredo or (None, None))[1]
        if address in _NAT64:
            within = ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
        if within is not None:
            return is_public(within)
        return address.is_global and address in _ROUTED
    return address.is_global and not address.is_multicast and not any(address in network for network in _NOT_PUBLIC)


def is_written_public(host: str) -> bool:
    """Whether a host may be public by how it is written: private addresses and names are not, nor is a name of one word."""
    if (address := literal(host)) is not None:
        return is_public(address)
    return "." in host and not host.endswith(tuple(f".{name}" for name in _PRIVATE_NAMES))


async def resolve(host: str) -> list[str]:
    """The addresses that this machine's resolver gives."""
    found = await asyncio.get_running_loop().getaddrinfo(host, None, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(one[4][0]).partition("%")[0] for one in found))


async def looked_up(host: str, allowed: Collection[str] = (), resolve: Resolve = resolve) -> list[str]:
    """The addresses of a host, all of them public unless it is allowed by its name.

    Raises NotAllowedError, UnknownHostError, and TimeoutError where nobody says in time.
    """
    if not host or (host not in allowed and not is_written_public(host)):
        raise NotAllowedError(host)
    if (address := literal(host)) is not None:
        return [str(address)]
    if host not in allowed and host.endswith(tuple(f".{name}" for name in _NOBODYS)):
        raise UnknownHostError(host)
    try:
        async with asyncio.timeout(_LOOKUP_S):
            found = await resolve(host)
    except ValueError as error:
        raise NotAllowedError(host) from error  # no name at all
    except TimeoutError:
        raise
    except OSError as error:
        raise UnknownHostError(host, asked=error.errno != socket.EAI_AGAIN) from error
    if host not in allowed and not all(is_public(ipaddress.ip_address(one)) for one in found):
        raise NotAllowedError(host)
    return found


class Checked(httpcore.AsyncNetworkBackend):
    """Connections to the very addresses that were checked, whenever one is opened: after redirections, too.

    They give a little at a time: a site may pack thousands of empty chunks or interim replies into what is read at once, and
    all of them would be parsed before anybody else has a turn.
    """

    def __init__(self, allowed: Collection[str], resolve: Resolve = resolve) -> None:
        self._allowed, self._resolve = allowed, resolve
        self._inner: Any = httpcore.AnyIOBackend()

    async def connect_tcp(self, host: str, port: int, *how: Any, **more: Any) -> httpcore.AsyncNetworkStream:
        """Raises NotAllowedError, UnknownHostError, and what httpcore raises."""
        if port > _LAST_PORT:
            raise NotAllowedError(f"{host}:{port}")
        failed: Exception = httpcore.ConnectError(f"{host} has no address")
        name = host_of(f"//[{host}]" if ":" in host else f"//{host}")
        for address in (await looked_up(name, self._allowed, self._resolve))[:_MOST_TRIED]:
            try:
                return _LittleByLittle(await self._inner.connect_tcp(address, port, *how, **more))
            except (httpcore.ConnectError, httpcore.ConnectTimeout) as error:
                failed = error
        raise failed


class _LittleByLittle(httpcore.AsyncNetworkStream):
    def __init__(self, inner: httpcore.AsyncNetworkStream) -> None:
        self._inner = inner
        self.write, self.aclose, self.get_extra_info = inner.write, inner.aclose, inner.get_extra_info

    async def read(self, max_bytes: int, *how: Any, **more: Any) -> bytes:
        return await self._inner.read(min(max_bytes, _AT_ONCE), *how, **more)

    async def start_tls(self, *how: Any, **more: Any) -> httpcore.AsyncNetworkStream:
        return _LittleByLittle(await self._inner.start_tls(*how, **more))


def checked_transport(allowed: Collection[str], resolve: Resolve = resolve) -> httpx.AsyncHTTPTransport:
    """A transport of httpx whose connections are `Checked`."""
    context = httpx.create_ssl_context()
    transport = httpx.AsyncHTTPTransport(verify=context)
    transport._pool = httpcore.AsyncConnectionPool(
        ssl_context=context,
        max_connections=100,
        keepalive_expiry=15.0,
        network_backend=Checked(allowed, resolve),
    )
    return transport
