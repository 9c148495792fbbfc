"""Pages that need nothing else: Jinja2 templates in one frame with a style sheet, a script, and a policy that loads nothing.

A page follows the reader's light or dark scheme and is whole without script, which only shows the points of a curve. All text
is escaped on its way in, by the templates and by `markup.tag`; control characters, which HTML forbids, and marks that turn the
direction of a line are shown as the replacement character.

Example: ``render("sweep.html", title="A sweep", report=report)``
"""

import base64
import hashlib
from functools import cache
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from sanderling.report import charts, numbers
from sanderling.report.markup import clean


@cache
def environment() -> Environment:
    """The templates, with the words for numbers and the charts that they use."""
    found = Environment(
        loader=PackageLoader("sanderling.report"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
        finalize=clean,
    )
    words = (
        numbers.percent,
        numbers.points,
        numbers.span,
        numbers.mean,
        numbers.duration,
        numbers.memory,
        numbers.ending_words,
    )
    found.filters |= {one.__name__: one for one in words} | {"count": "{:,}".format}
    found.globals |= {"stack": charts.stack, "part_words": charts.part_words}
    return found


def render(template: str, title: str, **values: Any) -> str:
    """A whole document. The same values give the same page."""
    made = environment()
    script = made.get_template("report.js").render()
    digest = base64.b64encode(hashlib.sha256(script.encode("utf-8")).digest()).decode("ascii")
    return made.get_template(template).render(title=title, script=Markup(script), script_digest=digest, **values)
