"""Names in prose that are no links, taken for links where they mean one thing: "Similar to f(), but …", "Raises ValueError".

Only words that look like a name of code are tried: with call brackets, a dot or an underscore within, or two capitals.
"""

import re

from sanderling.synth.graph.documents.blocks import Line, Link
from sanderling.synth.graph.documents.names_index import NamesIndex

_NAME = re.compile(r"(?<![\w.⟦/“\"'])[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*(?:\(\))?(?!\.?\w|[(⟧/=|\[])")
_IS_CODE = re.compile(r"\(\)$|\w\.\w|[A-Za-z]_|[A-Z][a-z]+[A-Z]")


def with_bare_names(line: Line, url: str, index: NamesIndex) -> Line:
    """A line of a page with such names as links to the page of what they mean; the line itself where there are none."""
    links: list[Link] = []

    def mark(found: re.Match[str]) -> str:
        thing = index.unlinked(url, found[0]) if _IS_CODE.search(found[0]) else None
        if thing is None:
            return found[0]
        links.append(Link(found[0], thing.partition("#")[0]))
        return f"⟦{len(line.links) + len(links) - 1}⟧"

    marked = _NAME.sub(mark, line.marked)
    return line.with_links(marked, links) if links else line
