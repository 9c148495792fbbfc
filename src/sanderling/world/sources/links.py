"""Addresses: of a file below a base, of a link on a page. Pure text work; never raises."""

import re
from collections.abc import Callable, Iterable
from urllib.parse import quote, urljoin, urlsplit

_SAFE = "/-._~!*'(),:@"
_DEAD_SCHEMES = ("mailto:", "javascript:", "data:", "tel:", "about:", "irc:", "news:")
_STAND_IN = "https"
_SEGMENT = r"(?!\.{1,2}(?:/|$))[A-Za-z0-9._~!$&'()*+,=@%-]+"
_PLAIN_PATH = re.compile(rf"{_SEGMENT}(?:/{_SEGMENT})*/?")
_PLAIN_BASE = re.compile(rf"([a-z]+://[^/?#\s\[\]]+/)((?:{_SEGMENT}/)*)(?:{_SEGMENT})?(?:[?#]|$)")


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


class Resolver:
    """The addresses that the links of one page lead to; each distinct link is worked out once.

    Args:
        page: the page's own address; a link to it leads nowhere else.
        base: what links are relative to; empty: the page's address.
        follow: from an address to where it leads.

    """

    def __init__(self, page: str, base: str = "", follow: Callable[[str], str] | None = None) -> None:
        self._page = page
        self._base = base or page
        self._folders = _folders(self._base)
        self._follow = follow
        self._known: dict[str, str] = {}

    def __call__(self, link: str) -> str:
        """The full address, without a fragment; empty when the link leads nowhere else."""
        link = link.partition("#")[0]
        found = self._known.get(link)
        if found is None:
            found = self._below(link) or resolve(self._base, link)
            if found and self._follow is not None:
                found = self._follow(found)
            self._known[link] = found = "" if found == self._page else found
        return found

    def _below(self, link: str) -> str:
        """What `resolve` would say of a plain relative path, sooner; empty: it is none."""
        up = 0
        while link.startswith("../", 3 * up):
            up += 1
        if up >= len(self._folders) or not _PLAIN_PATH.fullmatch(link, 3 * up):
            return ""
        return self._folders[-1 - up] + link[3 * up :]

    def all(self, links: Iterable[str]) -> tuple[str, ...]:
        """The distinct addresses of some links, in order."""
        found = dict.fromkeys(map(self, links))
        found.pop("", None)
        return tuple(found)


def _folders(base: str) -> tuple[str, ...]:
    """The folders that an address lies in, from the site's root on, each with its slash; none where its path is not plain."""
    found = _PLAIN_BASE.match(base)
    if found is None:
        return ()
    root, path = found.groups()
    segments = path.split("/")[:-1]
    return tuple(root + "".join(f"{segment}/" for segment in segments[:n]) for n in range(len(segments) + 1))
