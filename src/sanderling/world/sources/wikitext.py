"""Wikitext as Markdown: headings as ``#`` lines, links to articles; templates, references, files and categories go.

Links to other sites are their words. Read by `mwparserfromhell`. Templates are not expanded, so what only a template would say
(infobox facts) is lost.
"""

import re
from collections import Counter
from collections.abc import Callable

from sanderling.world.sources.contract import world_extra
from sanderling.world.sources.html_text import link as markdown_link

_HEADING = re.compile(r"^(={1,6})([^=\n]{1,500})\1[ \t]*$", re.MULTILINE)
_MARK = "\ue000"
"""Stands for ``#`` until the text is plain: at a line's start that would be a numbered list."""
_OPEN, _BAR, _CLOSE = "\ue001", "\ue002", "\ue003"
"""Stand around a link's number and words until the text is plain."""
_EQUALS = "\ue004"
"""Stands for ``=`` at a line's start until the text is plain: of headings without an end the parser dies with its process."""
_MARKS = re.compile("[\ue000-\ue004]")
_LINE_EQUALS = re.compile("^=", re.MULTILINE)
_LINK = re.compile("\ue001([0-9]+)\ue002([^\ue001-\ue003]*)\ue003")
_EDGE = re.compile(
    r"(\{[{|]|\[\[|\[(?=[a-z]*:?//)|<!--|<(?!(?:br|hr|li|d[dt]|t[dhr]|wbr)\b)[a-z]+)|(\}\}|\|\}|\]\]?|-->|</[a-z]+|/>)",
    re.IGNORECASE,
)
_TORN = re.compile(r"<(?!(?:br|hr|li|d[dt]|t[dhr]|wbr)\b)[a-z]+(?![a-z]|[^<>]*>)", re.IGNORECASE)
_TORN_COST = 10
"""Of a tag without its own end, which the parser looks for again and again, against an element that stays open."""
_OPENED_BY = {"}}": "{{", "|}": "{|", "]]": "[[", "]": "[", "-->": "<!--"}
_ELEMENT = re.compile(r"^[*#:;]+|\{[{|]|\||\[\[?|<|&|''", re.MULTILINE)
_BLANK_LINES = re.compile(r"\n{3,}")


def elements(text: str) -> int:
    """How many objects the parser would make of a text, about: list marks, templates and their fields, links, tags."""
    return sum(len(found) if found[0] in "*#:;" else 1 for found in _ELEMENT.findall(text))


def nesting(text: str) -> int:
    """How many templates, links and tags are open at once, at most; what is never closed stays open; torn ones count more.

    The parser takes time in proportion to this and to the length.
    """
    still_open: Counter[str] = Counter()
    depth = deepest = 0
    last = ""
    for opening, closing in _EDGE.findall(text):
        if opening:
            last = opening.lower()
            still_open[last] += 1
            depth += 1
            deepest = max(deepest, depth)
            continue
        opened = last if closing == "/>" else _OPENED_BY.get(closing) or "<" + closing[2:].lower()
        if still_open[opened]:
            still_open[opened] -= 1
            depth -= 1
    return deepest + _TORN_COST * len(_TORN.findall(text))


def read_wikitext(text: str, address: Callable[[str], str]) -> tuple[str, tuple[str, ...]]:
    """The words of an article with its links, and the addresses that it links to, in order, each once.

    ``address``: of a title; empty: a link to it is its words. Raises what the parser raises for text that it cannot take.
    """
    with world_extra():
        import mwparserfromhell
        from mwparserfromhell.nodes import Text
    marked = _HEADING.sub(lambda found: f"\n{_MARK * len(found[1])} {found[2].strip()}\n", _MARKS.sub("", text))
    code = mwparserfromhell.parse(_LINE_EQUALS.sub(_EQUALS, marked))
    addresses: list[str] = []
    for link in code.filter_wikilinks():
        title = " ".join(str(link.title).partition("#")[0].replace("_", " ").split())
        if ":" not in title:
            addresses.append(address(title[:1].upper() + title[1:]) if title else "")
            if link.text is None:
                link.text = link.title
            link.text.nodes.insert(
                0, Text(f"{_OPEN}{len(addresses) - 1}{_BAR}")
            )  # through `link.text =` it would be parsed again
            link.text.nodes.append(Text(_CLOSE))
        elif not title.startswith(":"):  # a file or category: its words are not the article's
            try:
                code.remove(link)
            except ValueError:  # within a link that went before
                continue
    for tag in code.filter_tags(matches=lambda tag: str(tag.tag).strip().lower() == "ref"):
        try:
            code.remove(tag)
        except ValueError:  # within a tag that went before
            continue

    def write(found: re.Match[str]) -> str:
        url, words = addresses[int(found[1])], found[2]
        return markdown_link(words, url) if url and words.strip() else words

    plain = str(code.strip_code(normalize=True, collapse=True)).replace(_MARK, "#").replace(_EQUALS, "=")
    plain = _MARKS.sub("", _LINK.sub(write, plain))
    return _BLANK_LINES.sub("\n\n", plain).strip(), tuple(dict.fromkeys(url for url in addresses if url))
