"""The frame of a page that needs nothing else: head, style, script, and a policy that forbids loading anything.

All text comes in through :mod:`~sanderling.evaluate.markup`, which escapes it. Knows nothing of what is reported.
"""

import base64
import hashlib
from importlib import resources

from sanderling.evaluate.markup import Html, tag


def page(title: str, *children: Html) -> str:
    """A whole document: the children are its body. The same children give the same page."""
    style, script = _asset("report.css"), _asset("report.js")
    digest = base64.b64encode(hashlib.sha256(script.encode("utf-8")).digest()).decode("ascii")
    policy = f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("meta", http_equiv="Content-Security-Policy", content=policy),
        tag("title", f"{title} · Sanderling"),
        tag("style", style),
    )
    return "<!doctype html>\n" + tag("html", head, tag("body", *children, tag("script", script)), lang="en") + "\n"


def section(name: str, title: str, *children: Html | None) -> Html:
    """A section with its heading."""
    return tag("section", tag("h2", title), *children, id=name)


def figure(caption: str, *children: Html | None) -> Html:
    """A figure under its caption."""
    return tag("figure", tag("figcaption", caption), *children)


def _asset(name: str) -> Html:
    """Our own style sheet or script, which is markup already."""
    return Html(resources.files("sanderling.evaluate").joinpath("assets", name).read_text(encoding="utf-8"))
