"""Reduced HTML, as `resiliparse` writes it, as Markdown: headings, lists, code and links; everything else is plain lines.

Lists other than ``ol`` are bullets. A link keeps its words and gets its full address; one that leads nowhere else (into the
page itself, by script) or that shows no word (a picture, the sign that marks a heading's own link) is its words alone. Code has
no links. Does not know the document's tree.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from html import unescape

_TAG = re.compile(r'<(/?)(h[1-6]|p|ul|ol|li|pre|a|br)(?: href="([^"]*)")?>')
_CELLS = re.compile(r" ?\t[ \t]*")
_INDENT = re.compile(r"\n[ \t]+")
_EMPTY_MARK = re.compile("^(?:#{1,6}|\ue001 *(?:-|[0-9]+[.]))[ \t]*$", re.MULTILINE)
_BLANK_LINES = re.compile(r"\n{3,}")
_TAIL = "¶\uf0c1 \t\r\f\v\xa0"
"""What no line ends with: blanks, and the signs by which a heading links to itself."""
_BRACKETS = str.maketrans("[]", "()")
_UNSAFE = re.compile(r"[\x00-\x20<>\\\x7f]|[^\S ]")
_BALANCED = re.compile(r"(?:[^()]|\([^()]*\))*")
_CODE, _ITEM_LINE = "\ue000", "\ue001"
"""Open the lines of code and of lists until spaces are tidied; private characters, which mean nothing in a text."""
_OPEN_ITEM, _BULLETS = -2, -1
"""Among the open lists: an item, and a list that has no numbers."""

Resolve = Callable[[str], str]
"""From a link as written to its full address; empty: it leads nowhere else."""


def markdown(reduced: str, resolve: Resolve) -> str:
    """The Markdown of some reduced HTML."""
    pieces = _TAG.split(reduced)
    writer = _Writer(resolve)
    writer.text(pieces[0])
    for slash, name, href, text in zip(pieces[1::4], pieces[2::4], pieces[3::4], pieces[4::4], strict=True):
        if name == "a":
            writer.close_link() if slash else writer.open_link(href or "")
        elif name != "p" or writer.in_link:
            writer.block(name, closing=bool(slash))
        writer.text(text)
    writer.close_link()
    return _tidied("".join(writer.parts))


def link(words: str, url: str) -> str:
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


@dataclass
class _Writer:
    """Markdown as it grows."""

    resolve: Resolve
    parts: list[str] = field(default_factory=list)
    in_link: bool = False
    _addresses: dict[str, str] = field(default_factory=dict)
    """Of links as written."""
    _href: str = ""
    _start: int = 0
    """Where the open link's words start in ``parts``."""
    _lists: list[int] = field(default_factory=list)
    """Open lists and items: `_OPEN_ITEM`, `_BULLETS`, or the number of the last item."""
    _in_code: bool = False
    _after_item: bool = False
    """Only blanks since the last item closed."""
    _after_mark: bool = False
    """The words of a heading or item begin on the line of their mark."""

    def text(self, escaped: str) -> None:
        text = unescape(escaped) if "&" in escaped else escaped
        if self._in_code:
            text = text.expandtabs(4).replace("\n", f"\n{_CODE}    ")
        else:
            if self._after_item and not text.isspace():
                self._after_item = False
            if self._after_mark:
                text = text.lstrip()
                self._after_mark = not text
            if "\t" in text:
                text = _CELLS.sub(" | ", text)
        self.parts.append(text)

    def open_link(self, escaped: str) -> None:
        self.close_link()
        if not self._in_code:
            self.in_link, self._href, self._start = True, escaped, len(self.parts)

    def close_link(self) -> None:
        """Write the open link, if any; it may be closed twice."""
        if not self.in_link:
            return
        self.in_link = False
        words = "".join(self.parts[self._start :])
        shown = words.strip()
        if not tidy_line(shown):
            if self._href.startswith("#"):
                del self.parts[self._start :]
            return
        if self._href not in self._addresses:
            self._addresses[self._href] = link_address(self.resolve(unescape(self._href)))
        if address := self._addresses[self._href]:
            before, after = words[: len(words) - len(words.lstrip())], words[len(words.rstrip()) :]
            self.parts[self._start :] = [f"{before}[{link_words(shown)}]({address}){after}"]

    def block(self, name: str, *, closing: bool) -> None:
        """The edge of a block. A link that holds blocks ends with the first of them that has words."""
        if self.in_link:
            if "".join(self.parts[self._start :]).strip():
                self.close_link()
            else:
                self._start = len(self.parts) + 1
        self.parts.append(self._mark(name, closing))

    def _mark(self, name: str, closing: bool) -> str:
        if name == "pre":
            self._in_code = not closing
            return "" if closing else f"\n{_CODE}    "
        if name in ("ul", "ol", "li"):
            return self._list_mark(name, closing)
        if name[0] != "h" or closing:
            return ""
        self._after_mark = True
        return "#" * int(name[1]) + " "

    def _list_mark(self, name: str, closing: bool) -> str:
        if closing:
            if self._lists:
                self._lists.pop()
            self._after_item = name == "li" or self._after_item
            return ""
        if name != "li":
            self._lists.append(0 if name == "ol" else _BULLETS)
            return ""
        sign = "-"
        if self._lists and self._lists[-1] >= 0:
            self._lists[-1] += 1
            sign = f"{self._lists[-1]}."
        depth = self._lists.count(_OPEN_ITEM)
        self._lists.append(_OPEN_ITEM)
        if self.parts and self.parts[-1].isspace():
            self.parts[-1] = ""
        self._after_mark = True
        apart = "" if depth or self._after_item else "\n"
        return f"{apart}\n{_ITEM_LINE}{'  ' * depth}{sign} "


def _tidied(text: str) -> str:
    """Without the layout of the reduced HTML: spaces before lines other than code, marks of nothing, runs of blank lines."""
    text = _EMPTY_MARK.sub("", _INDENT.sub("\n", f"\n{text}"))
    text = text.replace(_CODE, "").replace(_ITEM_LINE, "")
    text = "\n".join(tidy_line(line) for line in text.split("\n"))
    return _BLANK_LINES.sub("\n\n", text).strip("\n")
