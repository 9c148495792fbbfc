"""Addresses: of a file below a base, of a link on a page. Pure text work; never raises."""

from collections.abc import Iterable
from urllib.parse import quote, urljoin, urlsplit

_SAFE = "/-._~!*'(),:@"
_DEAD_SCHEMES = ("mailto:", "javascript:", "data:", "tel:", "about:", "irc:", "news:")
_STAND_IN = "https"


def address(base: str, path: str | bytes) -> str:
    """The address of a path below a base, which ends with a slash; parentheses stand as themselves."""
    raw = path if isinstance(path, bytes) else path.encode("utf-8", "replace")
    return base + quote(raw, safe=_SAFE)


def resolve(page: str, link: str) -> str:
    """The full address of a link on a page, without its fragment; empty when it leads nowhere that can be visited."""
    link = link.strip().partition("#")[0].strip()
    if not link or link.lower().startswith(_DEAD_SCHEMES):
        return ""
    scheme, found, rest = page.partition("://")
    try:
        if not found or urlsplit(link).scheme:
            return link
        joined = urljoin(f"{_STAND_IN}://{rest}", link)  # the standard library resolves for the schemes it knows
    except ValueError:
        return ""
    return joined if link.startswith("//") else scheme + joined[len(_STAND_IN) :]


def resolve_all(page: str, links: Iterable[str]) -> tuple[str, ...]:
    """The distinct addresses of links on a page, in order, without the page itself."""
    found = dict.fromkeys(resolve(page, link) for link in links)
    return tuple(url for url in found if url and url != page)
