"""Which web addresses may be read: those of public hosts. Private networks, this machine and clouds' metadata are refused.

A host is read as browsers read it, so that no spelling hides one: numbers in decimal, octal and hexadecimal, full-width digits,
escapes, IPv4 within IPv6. A name is looked up, and all addresses that it has must be public. A reader on another machine looks
it up for itself and may be given other addresses; of its redirections, the address at which they ended is checked.
"""

import asyncio
import ipaddress
import re
import socket
import unicodedata
from collections.abc import Collection
from contextlib import suppress
from urllib.parse import unquote, urlsplit

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
_CARRIERS = tuple(map(ipaddress.IPv6Network, ("64:ff9b::/96", "::/96")))  # of an IPv4 address in their last 32 bits
_METADATA = frozenset({ipaddress.ip_address("168.63.129.16")})  # Azure's; all others are in private ranges
_PRIVATE_NAMES = ("localhost", "local", "internal", "home.arpa")
_NOBODYS = ("example", "invalid")  # names that no resolver knows (RFC 6761)
_FORBIDDEN = re.compile(r"[\x00-\x20\x7f<>^|/?#@]")  # in a host; some readers stop at them
_LOOKUP_S = 10.0


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


async def may_be_read(url: str, allowed: Collection[str] = ()) -> bool:
    """Whether an address leads to public hosts only, or to one that is allowed by its name. Raises TimeoutError."""
    host = host_of(url)
    if not host or host in allowed:
        return bool(host)
    if (address := literal(host)) is not None:
        return is_public(address)
    if "." not in host or host.endswith(tuple(f".{name}" for name in _PRIVATE_NAMES)):
        return False
    if host.endswith(tuple(f".{name}" for name in _NOBODYS)):
        return True
    try:
        async with asyncio.timeout(_LOOKUP_S):
            found = await asyncio.get_running_loop().getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except ValueError:
        return False  # no name at all
    except OSError:
        return True  # unknown here, as where only a proxy leads outside: then it leads nowhere private from here
    return all(is_public(ipaddress.ip_address(str(one[4][0]).partition("%")[0])) for one in found)
