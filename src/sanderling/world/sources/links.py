"""What all readers of documents share, and what takes anything: bytes as text, addresses of files and links, Markdown links."""

import codecs
import re
from collections.abc import Callable, Iterable
from contextlib import suppress
from urllib.parse import quote, urljoin, urlsplit

from sanderling.world.sources.base import world_extra

_MARKS = ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))
_BROKEN_SHARE = 0.3  # of the characters beyond ASCII: so many may be broken in a text that is taken for UTF-8


def decode(data: bytes, declared: str = "") -> str:
    """The text of some bytes: by byte order mark, as ISO-2022-JP or UTF-8, as ``declared``, or as the page says or suggests."""
    mark, encoding = next((pair for pair in _MARKS if data.startswith(pair[0])), (b"", "utf-8"))
    if not mark and b"\x1b$B" in data and data.isascii():
        encoding = "iso2022_jp"
    text = data[len(mark) :].decode(encoding, "replace")
    if not mark and encoding == "utf-8" and (broken := text.count("\ufffd")):
        try:
            known = codecs.lookup(declared).name if declared else ""
        except (LookupError, ValueError):
            known = ""
        foreign = sum(not char.isascii() for char in text)
        if broken > _BROKEN_SHARE * foreign or known.startswith(("iso8859", "cp125", "koi8", "latin")):
            with world_extra():
                from resiliparse.parse.encoding import bytes_to_str, detect_encoding
            suggested = detect_encoding(data, from_html_meta=True) or "utf-8"
            with suppress(LookupError, ValueError):
                text = bytes_to_str(data, declared if known else suggested, "replace")
    return text.replace("\r\n", "\n").replace("\r", "\n")


_SAFE = "/-._~!*'(),:@"
_DEAD_SCHEMES = ("mailto:", "javascript:", "data:", "tel:", "about:", "irc:", "news:")
_STAND_IN = "https"


def address(base: str, path: str | bytes) -> str:
    """The address of a path below a base, which ends with a slash; parentheses stand as themselves."""
    raw = path if isinstance(path, bytes) else path.encode("utf-8", "replace")
    return base + quote(raw, safe=_SAFE)


def base_of(given: str, name: str | bytes) -> str:
    """The base that was given, or ``local://`` and a name, with a slash at its end."""
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
    """The addresses that the links of one ``page`` lead to, relative to its ``base`` and once ``follow`` has changed them."""

    def __init__(self, page: str, base: str = "", follow: Callable[[str], str] | None = None) -> None:
        self._page = page
        self._base = base or page
        self._follow = follow
        self._known: dict[str, str] = {}

    def __call__(self, link: str) -> str:
        """The full address, without a fragment; empty when the link leads nowhere else."""
        link = link.partition("#")[0]
        found = self._known.get(link)
        if found is None:
            found = resolve(self._base, link)
            if found and self._follow is not None:
                found = self._follow(found)
            self._known[link] = found = "" if found == self._page else found
        return found

    def all(self, links: Iterable[str]) -> tuple[str, ...]:
        """The distinct addresses of some links, in order."""
        found = dict.fromkeys(map(self, links))
        found.pop("", None)
        return tuple(found)


_BRACKETS = str.maketrans("[]", "()")
_UNSAFE = re.compile(r"[\x00-\x20<>\\\x7f]|[^\S ]")
_BALANCED = re.compile(r"(?:[^()]|\([^()]*\))*")
_TAIL = "¶\uf0c1 \t\r\f\v\xa0"  # what no line ends with: blanks, and the signs by which a heading links to itself


def markdown_link(words: str, url: str) -> str:
    """A Markdown link that every reader of links here takes whole: its words in one line, without brackets."""
    words = " ".join(words.split()).translate(_BRACKETS)
    words = f"{words} " if words.endswith("\\") else words  # which would take the bracket after it for a sign
    return f"[{words}]({link_address(url)})"


def link_address(url: str) -> str:
    """An address without blanks and angle brackets, its parentheses as they are where they come in pairs."""
    url = _UNSAFE.sub(lambda found: "".join(f"%{byte:02X}" for byte in found[0].encode("utf-8", "replace")), url)
    return url if _BALANCED.fullmatch(url) else url.replace("(", "%28").replace(")", "%29")


def tidy_line(line: str) -> str:
    """A line without the sign that links to itself, and without spaces at its end."""
    return line.rstrip(_TAIL)
