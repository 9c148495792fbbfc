"""Pages that need nothing else: elements without injection, and templates in one frame that loads nothing from elsewhere.

All text is escaped on its way in; control characters, which HTML forbids, and marks that turn the direction of a line are shown
as the replacement character. Example: ``render("runs.html", title="Runs", rows=rows)``
"""

import base64
import hashlib
import re
from functools import cache
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from sanderling.report import numbers

_FORBIDDEN = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\u202a-\u202e\u2066-\u2069\ufffe\uffff]")
_VOID = frozenset({"line", "rect", "circle", "path"})
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9-]*")


def clean(value: Any) -> Any:
    """A value for a template: None is empty; in text, what HTML forbids becomes visible. Markup passes unchanged."""
    if value is None:
        return ""
    return _FORBIDDEN.sub("\ufffd", value) if isinstance(value, str) and not isinstance(value, Markup) else value


def coordinate(value: float) -> str:
    """A place in an SVG, with at most one decimal."""
    return f"{value:.1f}".removesuffix(".0")


def tag(name: str, /, *children: Any, **attributes: Any) -> Markup:
    """One element; children are escaped where they are not markup, and floats are coordinates.

    ``class_`` is ``class``, ``data_x`` is ``data-x``; True is a bare attribute, None and False leave it out.

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
            parts.append(f'{written}="{escape(coordinate(value) if isinstance(value, float) else clean(value))}"')
    opening = " ".join(parts)
    inner = "".join(escape(clean(child)) for child in children)
    return Markup(f"<{opening}/>" if name in _VOID else f"<{opening}>{inner}</{name}>")


@cache
def _environment() -> Environment:
    """The templates, with the words for numbers that they use."""
    found = Environment(
        loader=PackageLoader("sanderling.report"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
        finalize=clean,
    )
    for name in ("percent", "points", "span", "mean", "duration", "ending_words"):
        found.filters[name] = getattr(numbers, name)
    found.filters["count"] = "{:,}".format
    return found


def render(template: str, title: str, *, script: str = "report.js", **values: Any) -> str:
    """A whole document with its one script. The same values give the same page."""
    made = _environment()
    script = made.get_template(script).render()
    digest = base64.b64encode(hashlib.sha256(script.encode("utf-8")).digest()).decode("ascii")
    return made.get_template(template).render(title=title, script=Markup(script), script_digest=digest, **values)
