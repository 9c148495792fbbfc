"""What all readers of documents share: bytes as text, the addresses of files and links, and links in Markdown.

Pure text work that takes anything without raising.
"""

import codecs
import re
from collections.abc import Callable, Iterable
from urllib.parse import quote, urljoin, urlsplit

from sanderling.world.sources.base import world_extra

# Bytes

_MARKS = ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))
_BROKEN_SHARE = 0.3
"""Of the characters beyond ASCII, the share that may be broken in a text that is taken for UTF-8."""


def decode(data: bytes, declared: str = "") -> str:
    """The text of some bytes, without a byte order mark and with line ends as newlines; what fits no encoding is U+FFFD.

    Order: a byte order mark; the escapes of ISO-2022-JP, which is all ASCII; UTF-8 (also with a few broken bytes); the encoding
    that the sender ``declared``; one that the page declares or that its bytes suggest.
    """
    return _decode(data, declared).replace("\r\n", "\n").replace("\r", "\n")


def _decode(data: bytes, declared: str) -> str:
    for mark, encoding in _MARKS:
        if data.startswith(mark):
            return data[len(mark) :].decode(encoding, "replace")
    if b"\x1b$B" in data and data.isascii():
        return data.decode("iso2022_jp", "replace")
    text = data.decode("utf-8", "replace")
    known = _codec(declared) if declared else ""
    broken = text.count("\ufffd")
    foreign = sum(1 for char in text if not char.isascii()) if broken else 0
    if broken <= _BROKEN_SHARE * foreign and (not broken or not known.startswith(("iso8859", "cp125", "koi8", "latin"))):
        return text
    with world_extra():
        from resiliparse.parse.encoding import bytes_to_str, detect_encoding
    suggested = detect_encoding(data, from_html_meta=True) or "utf-8"
    try:
        return bytes_to_str(data, declared if known else suggested, "replace")
    except (LookupError, ValueError):
        return text


def _codec(encoding: str) -> str:
    """Python's name of an encoding; empty: there is none."""
    try:
        return codecs.lookup(encoding).name
    except (LookupError, ValueError):
        return ""


# Addresses

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


def base_of(given: str, name: str | bytes) -> str:
    """The base that was given, or ``local://`` and a name; with a slash at its end."""
    base = given or address("local://", name)
    return base if base.endswith("/") else base + "/"


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


class Resolver:
    """The addresses that the links of one ``page`` lead to; each distinct link is worked out once.

    ``base``: what links are relative to; empty: the page. ``follow``: from an address to where it leads (through a redirect, to
    a folder's index).
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


# Links in Markdown

_BRACKETS = str.maketrans("[]", "()")
_UNSAFE = re.compile(r"[\x00-\x20<>\\\x7f]|[^\S ]")
_BALANCED = re.compile(r"(?:[^()]|\([^()]*\))*")
_TAIL = "¶\uf0c1 \t\r\f\v\xa0"
"""What no line ends with: blanks, and the signs by which a heading links to itself."""


def markdown_link(words: str, url: str) -> str:
    """A Markdown link that every reader of links here takes whole."""
    return f"[{link_words(words)}]({link_address(url)})"


def link_words(words: str) -> str:
    """Words in one line, without brackets, and without a backslash that would take the bracket after them for a sign."""
    words = " ".join(words.split()).translate(_BRACKETS)
    return f"{words} " if words.endswith("\\") else words


def link_address(url: str) -> str:
    """An address without blanks and angle brackets, its parentheses as they are where they come in pairs."""
    url = _UNSAFE.sub(lambda found: "".join(f"%{byte:02X}" for byte in found[0].encode("utf-8", "replace")), url)
    return url if _BALANCED.fullmatch(url) else url.replace("(", "%28").replace(")", "%29")


def tidy_line(line: str) -> str:
    """A line without the sign that links to itself, and without spaces at its end."""
    return line.rstrip(_TAIL)
