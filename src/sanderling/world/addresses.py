"""Addresses of pages: one key for the many spellings of one, the parts of a long page, and where links lead.

In a key (`canonical_url`) ``http`` is ``https``; an address without a scheme that starts like a host is taken as ``https``;
scheme and host are lower case; default ports, fragments, dot segments and trailing slashes go; percent-escapes are decoded
where they protect nothing and upper case elsewhere; all outside ASCII is escaped as UTF-8, hosts as ``xn--`` (RFC 3490).
Nothing here raises for any text. A part of a page is asked for by ``#page=N`` (RFC 8118 has this form for PDF).
"""

import ipaddress
import re
from contextlib import suppress
from functools import lru_cache
from urllib.parse import unquote, urlsplit

_ESCAPE_OR_CHAR = re.compile(r"%[0-9A-Fa-f]{2}|[^A-Za-z0-9\-._~!*'(),:@/?#\[\]&=+$;]", re.DOTALL)
_DECODABLE = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~!*'(),:@")
_WITH_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.\-]*)://([^/?]*)([^?]*)(.*)")
_LIKE_HOST = re.compile(r"[^/?:@\s]+\.[A-Za-z][A-Za-z0-9\-]*(:\d*)?(?=[/?]|$)")
_WITHOUT_SCHEME = re.compile(r"//[^/?:@\s]+\.")
_NAME = re.compile(r"[a-z0-9._\-]+")
_LONGEST_HOST = 253
_LONGEST_REMEMBERED = 2_048  # characters; whoever asks for longer ones could fill the memory
_HOST_TAIL = (".", ":", ":80", ":443")


def _escape(match: re.Match[str]) -> str:
    piece = match.group()
    if len(piece) == 3:
        char = chr(int(piece[1:], 16))
        return char if char in _DECODABLE else piece.upper()
    return "".join(f"%{byte:02X}" for byte in piece.encode("utf-8", "replace"))


def _host(host: str, is_web: bool) -> str:
    """A host without default ports, and without dots and colons at its end; on the web, names in any script are ``xn--``."""
    host = host.lower()
    if is_web and "%" in host and len(host) <= _LONGEST_HOST:
        name, colon, port = host.partition(":")
        try:
            asked = unquote(name, errors="strict").encode("idna").decode("ascii").lower()
        except UnicodeError:
            asked = ""
        host = asked + colon + port if _NAME.fullmatch(asked) else host
    end = len(host)
    while tail := next((tail for tail in _HOST_TAIL if host.endswith(tail, 0, end)), ""):
        end -= len(tail)
    return host[:end]


def _key(url: str) -> str:
    text = _ESCAPE_OR_CHAR.sub(_escape, url.strip()).partition("#")[0]
    if _WITHOUT_SCHEME.match(text):
        text = f"https:{text}"
    elif "://" not in text.partition("?")[0] and _LIKE_HOST.match(text):
        text = f"https://{text}"
    found = _WITH_SCHEME.fullmatch(text)
    if found is None:
        return text
    scheme, host, path, query = found.groups()
    scheme = "https" if scheme.lower() == "http" else scheme.lower()
    if "/." in path:
        kept: list[str] = []
        for segment in path.split("/"):
            if segment == "..":
                kept = kept[:-1] if len(kept) > 1 else kept
            elif segment != ".":
                kept.append(segment)
        path = "/".join(kept)
    return f"{scheme}://{_host(host, scheme == 'https')}{path.rstrip('/')}{query.replace('%2F', '/').replace('%3F', '?')}"


_remembered = lru_cache(maxsize=65_536)(_key)


def canonical_url(url: str) -> str:
    """The key of an address; equal for all its spellings, and its own key (idempotent)."""
    return _remembered(url) if len(url) <= _LONGEST_REMEMBERED else _key(url)


@lru_cache(maxsize=256)
def canonical_set(urls: frozenset[str]) -> frozenset[str]:
    """The keys of a set of addresses (a mask), remembered because an episode asks with the same mask at every call."""
    return frozenset(canonical_url(url) for url in urls)


_ASKED = re.compile(r"page=([0-9]{1,9})")


def asked_part(url: str) -> int:
    """Which part an address asks for, from 1; 0: none."""
    if "#" not in url:
        return 0
    options = url.strip().rpartition("#")[2].split("&")
    asked = [int(found[1]) for found in map(_ASKED.fullmatch, options) if found]
    return asked[-1] if asked else 0


def part_address(url: str, part: int) -> str:
    """The address of a part of a page."""
    return f"{url.partition('#')[0]}#page={part}"


def page_address(url: str) -> str:
    """The address of the page that an address asks a part of; every other address is its own."""
    return url.partition("#")[0] if asked_part(url) else url


def same_part(asked: str, url: str) -> str:
    """The address of the part of another page that an address asks for of its own."""
    part = asked_part(asked)
    return part_address(url, part) if part else url


def is_loopback(host: str) -> bool:
    """Whether a host is this machine, by name or address."""
    name = host.strip("[]").lower()
    with suppress(ValueError):
        return ipaddress.ip_address(name).is_loopback
    return name == "localhost" or name.endswith(".localhost")


def is_here(url: str) -> bool:
    """Whether an address is this machine's."""
    with suppress(ValueError):
        return is_loopback(urlsplit(url).hostname or "")
    return False
