"""Which addresses may be read: those of public hosts. Private networks, this machine and clouds' metadata are refused.

A host is read as browsers read it, so that no spelling hides one: numbers in decimal, octal and hexadecimal, full-width digits,
escapes, IPv4 within IPv6. A name is looked up, and all addresses that it has must be public. What is fetched from here goes to
the very addresses that were checked (`Pinned`). A service on another machine looks a name up for itself, and may be given other
addresses; of its redirections, the one at which they ended is checked.
"""

import asyncio
import ipaddress
import re
import socket
import unicodedata
from collections.abc import Awaitable, Callable, Collection
from contextlib import suppress
from urllib.parse import unquote, urlsplit

import httpx

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Resolve = Callable[[str], Awaitable[list[str]]]
"""The addresses of a name. Raises OSError where nobody knows it."""
_CARRIERS = tuple(map(ipaddress.IPv6Network, ("64:ff9b::/96", "64:ff9b:1::/48", "::/96")))
"""Of an IPv4 address in their last 32 bits."""
_METADATA = frozenset({ipaddress.ip_address("168.63.129.16")})  # Azure's; all others are in private ranges
_PRIVATE_NAMES = ("localhost", "local", "internal", "home.arpa")
_NOBODYS = ("example", "invalid")  # names that no resolver knows (RFC 6761)
_FORBIDDEN = re.compile(r"[\x00-\x20\x7f<>^|/?#@]")  # in a host; some readers stop at them
_LOOKUP_S = 10.0
_MOST_TRIED = 3  # addresses of one name


class NotAllowedError(Exception):
    """An address that is not read from here: it is not public, is none of the web, or its site forbids it in robots.txt."""


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
        if any(address in network for network in _CARRIERS):
            within = ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
        if within is not None:
            return is_public(within)
    return address.is_global and not address.is_multicast and address not in _METADATA


async def resolve(host: str) -> list[str]:
    """The addresses that this machine's resolver gives."""
    found = await asyncio.get_running_loop().getaddrinfo(host, None, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(one[4][0]).partition("%")[0] for one in found))


async def looked_up(host: str, allowed: Collection[str] = (), resolve: Resolve = resolve) -> list[str]:
    """The addresses of a host, all of them public unless it is allowed by its name.

    Raises NotAllowedError, UnknownHostError, and TimeoutError where nobody says in time.
    """
    if not host:
        raise NotAllowedError(host)
    if (address := literal(host)) is not None:
        if host not in allowed and not is_public(address):
            raise NotAllowedError(host)
        return [str(address)]
    if host not in allowed:
        if "." not in host or host.endswith(tuple(f".{name}" for name in _PRIVATE_NAMES)):
            raise NotAllowedError(host)
        if host.endswith(tuple(f".{name}" for name in _NOBODYS)):
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


class Pinned(httpx.AsyncBaseTransport):
    """Requests that go to the addresses which were checked, while certificates and ``Host`` stay those of the name.

    Each redirection is a request of its own, and checked again. Connections are not kept: two names may share an address.
    """

    def __init__(self, allowed: Collection[str], resolve: Resolve = resolve) -> None:
        self._allowed, self._resolve = allowed, resolve
        self._inner = httpx.AsyncHTTPTransport(limits=httpx.Limits(max_keepalive_connections=0))

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Raises NotAllowedError, UnknownHostError, and what httpx raises."""
        found = await looked_up(host_of(str(request.url)), self._allowed, self._resolve)
        failed = httpx.ConnectError("it has no address", request=request)
        for address in found[:_MOST_TRIED]:
            url = request.url.copy_with(host=address)
            extensions = request.extensions | {"sni_hostname": request.url.raw_host.decode("ascii")}
            try:
                return await self._inner.handle_async_request(
                    httpx.Request(request.method, url, headers=request.headers, stream=request.stream, extensions=extensions)
                )
            except httpx.ConnectError as error:
                failed = error
        raise failed

    async def aclose(self) -> None:
        await self._inner.aclose()
