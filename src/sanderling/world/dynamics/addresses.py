"""Addresses of pages that no world stores: copies of a page on other sites, and spam made for a query.

An address says whose copy, or which query's spam, it is, so that a visit needs no memory of the search that listed it. Hosts
end in ``.example``, which belongs to nobody. Pure functions; knows no page.
"""

from dataclasses import dataclass
from enum import StrEnum
from urllib.parse import quote, unquote

from sanderling.world.canonical import canonical_url

_HOSTS = ("textvault.example", "readshare.example", "infomirror.example", "pagekeep.example")
_MOST_QUERY = 200


class Made(StrEnum):
    """What kind of page an address was made for."""

    COPY = "doc"
    CONTRADICTING = "note"
    SPAM = "find"


@dataclass(frozen=True)
class MadePage:
    """What a made address stands for."""

    kind: Made
    subject: str
    """The canonical URL of the page it copies, or the query."""


def made_url(kind: Made, subject: str, u: float) -> str:
    """The address of a made page; the draw ``u`` in [0, 1) decides its host.

    Empty for a page that has no ``https`` key, and for one that is made itself: neither has copies.
    """
    host = _HOSTS[int(u * len(_HOSTS))]
    if kind is Made.SPAM:
        return f"https://{host}/{kind}/{quote(' '.join(subject.split())[:_MOST_QUERY], safe='', errors='replace')}"
    origin = canonical_url(subject)
    address = f"https://{host}/{kind}/{quote(origin.removeprefix('https://'), safe='/')}"
    found = made_page(address)
    if not origin.startswith("https://") or made_page(origin) or found is None or found.subject != origin:
        return ""
    return address


def made_page(url: str) -> MadePage | None:
    """What an address was made for; None for every other address."""
    scheme, _, rest = canonical_url(url).partition("://")
    host, _, path = rest.partition("/")
    kind, _, subject = path.partition("/")
    if scheme != "https" or host not in _HOSTS or kind not in set(Made) or not subject:
        return None
    text = unquote(subject)
    return MadePage(Made(kind), text if kind == Made.SPAM else canonical_url(f"https://{text}"))
