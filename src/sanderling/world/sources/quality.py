"""The main content of an HTML page by `trafilatura`: slower than `resiliparse` by far, and less of what is around an article.

Gives the same reduced HTML as `resiliparse`, for `html_text.markdown`; nothing where `trafilatura` finds no article. Pages of
great length or of very many elements are left to the other: the time of `trafilatura` may grow with their square. Knows no
addresses.
"""

import logging
import re
from html import escape
from typing import TYPE_CHECKING

from sanderling.core.errors import UserError

if TYPE_CHECKING:
    from lxml.etree import _Element

_LONGEST = 1_000_000
_MOST_ELEMENTS = 10_000
_SPACE = re.compile(r"\s+")
_HEADINGS = ("h1", "h2", "h3", "h4", "h5", "h6")


def require_trafilatura() -> None:
    """Raises UserError when it is not installed."""
    try:
        import trafilatura  # noqa: F401
    except ModuleNotFoundError as error:
        raise UserError(
            f"--extractor trafilatura needs {error.name}: run pip install '.[quality]' in sanderling's own folder."
        ) from error


def main_content(source: str) -> str:
    """Reduced HTML of the article on a page; empty: none was found. Never raises for any text."""
    from trafilatura import bare_extraction

    if len(source) > _LONGEST or source.count("</") > _MOST_ELEMENTS:
        return ""
    logging.getLogger("trafilatura").setLevel(logging.CRITICAL)  # it reports each page that it finds nothing on
    try:
        found = bare_extraction(source, include_comments=False, include_links=True, include_formatting=True)
    except Exception:  # made for pages as they are, it fails in its depths for made-up ones, with any error
        return ""
    body = None if found is None or isinstance(found, dict) else found.body
    if body is None:
        return ""
    parts: list[str] = []
    _write(body, parts)
    return "".join(parts)


def _write(element: "_Element", parts: list[str], *, code: bool = False) -> None:
    """An element and what is in it. Depth is bounded by the parser's own."""
    name = str(element.tag)
    whole = "".join(element.itertext()) if name in ("code", "quote") else ""
    code = code or ("\n" in whole.strip() and element.find("p") is None)
    opening, closing = ("<pre>", "</pre>\n\n") if whole and code else _edges(element, name)
    parts.append(opening)
    parts.append(_text(element.text, code))
    for child in element:
        _write(child, parts, code=code)
        parts.append(_text(child.tail, code))
    parts.append(closing)


def _edges(element: "_Element", name: str) -> tuple[str, str]:
    kind = element.get("rend") or ""
    if name == "head":
        level = kind if kind in _HEADINGS else "h2"
        return f"<{level}>", f"</{level}>\n\n"
    if name == "ref":
        return f'<a href="{escape(element.get("target") or "")}">', "</a>"
    if name == "list":
        return ("<ol>\n", "</ol>\n\n") if kind == "ol" else ("", "\n\n") if kind == "dl" else ("<ul>\n", "</ul>\n\n")
    if name == "item":
        return ("", "\n") if kind.startswith(("dt", "dd")) else ("<li>", "</li>\n")
    if name == "cell":
        return "" if element.getprevious() is None else "\t", ""
    return {"p": ("<p>", "</p>\n\n"), "lb": ("<br>", "\n"), "row": ("", "\n"), "table": ("", "\n")}.get(name, ("", ""))


def _text(text: str | None, code: bool) -> str:
    return escape(text if code else _SPACE.sub(" ", text), quote=False) if text else ""
