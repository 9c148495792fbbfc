"""HTML and SVG elements without injection: whatever is not markup already is escaped."""

import re
from typing import Any

from markupsafe import Markup, escape

_FORBIDDEN = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\u202a-\u202e\u2066-\u2069\ufffe\uffff]")
_VOID = frozenset({"line", "rect", "circle", "path"})
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9-]*")


def clean(value: Any) -> Any:
    """A value for a template: None is empty; in text, what HTML forbids becomes visible. Markup passes unchanged."""
    if value is None:
        return ""
    return _FORBIDDEN.sub("\ufffd", value) if isinstance(value, str) and not isinstance(value, Markup) else value


def join(*children: Any) -> Markup:
    """Children one after another, escaped where they are not markup."""
    return Markup("").join(escape(clean(child)) for child in children)


def tag(name: str, /, *children: Any, **attributes: Any) -> Markup:
    """One element. ``class_`` is ``class``, ``data_x`` is ``data-x``; True is a bare attribute, None and False leave it out.

    Example: ``tag("p", "a < b", class_="note")`` gives ``<p class="note">a &lt; b</p>``
    """
    parts = [name]
    for key, value in attributes.items():
        written = key.rstrip("_").replace("_", "-")
        if not _NAME.fullmatch(written):
            raise ValueError(f"{key!r} is not an attribute name")
        if value is True:
            parts.append(written)
        elif value is not None and value is not False:
            parts.append(f'{written}="{escape(clean(value))}"')
    opening = " ".join(parts)
    return Markup(f"<{opening}/>") if name in _VOID else Markup(f"<{opening}>{join(*children)}</{name}>")
