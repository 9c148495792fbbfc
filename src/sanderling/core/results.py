"""Search results as the text a model reads, in a profile's layout.

The JSON and Markdown layouts have the shapes that the released checkpoints saw in training (checked against recorded
trajectories); the compact one spends as few tokens as can be. Tools lay out what they found with it, and cleaning lays out what
was recorded: one renderer, so that training and serving show the same. Knows lists of results, no tool and no world.
"""

import json
from collections.abc import Sequence
from typing import Protocol

from sanderling.core.profile import ResultLayout

BETWEEN = "\n=======\n"
"""Stands between the blocks of one call in the JSON and Markdown layouts."""


class Hit(Protocol):
    """One ranked result."""

    @property
    def title(self) -> str: ...
    @property
    def url(self) -> str: ...
    @property
    def snippet(self) -> str: ...
    @property
    def date(self) -> str: ...


class HitList(Protocol):
    """The ranked results of one query."""

    @property
    def query(self) -> str: ...
    @property
    def hits(self) -> Sequence[Hit]: ...
    @property
    def error(self) -> str:
        """One sentence where the search failed; empty where it did not."""
        ...


def results_text(lists: Sequence[HitList], layout: ResultLayout, *, empty: str) -> str:
    """The results of one call, a block for each query, in order. ``empty``: what the compact layout says of no results."""
    match layout:
        case ResultLayout.JSON:
            return json.dumps([_json_block(found) for found in lists], ensure_ascii=False)
        case ResultLayout.MARKDOWN:
            return BETWEEN.join(_markdown_block(found) for found in lists)
        case ResultLayout.COMPACT:
            return "\n\n".join(_compact_block(found, empty) for found in lists)


def one_line(text: str) -> str:
    """The text with every run of white space as one blank, as titles are shown."""
    return " ".join(text.split())


def _json_block(found: HitList) -> dict[str, object]:
    pages = [{"title": one_line(hit.title), "url": hit.url, "snippet": hit.snippet, "date": hit.date} for hit in found.hits]
    block: dict[str, object] = {"query": found.query, "web_page_info_list": pages}
    return block | {"error": found.error} if found.error else block


def _markdown_block(found: HitList) -> str:
    if found.error:
        return f"A Google search for '{found.query}' failed. {found.error}"
    entries = [_markdown_entry(number, hit) for number, hit in enumerate(found.hits, start=1)]
    head = f"A Google search for '{found.query}' found {len(entries)} results:\n\n## Web Results\n"
    return head + "\n\n".join(entries)


def _markdown_entry(number: int, hit: Hit) -> str:
    date = f"\nDate published: {hit.date}" if hit.date else ""
    return f"{number}. [{one_line(hit.title)}]({hit.url}){date}\n\n{hit.snippet}"


def _compact_block(found: HitList, empty: str) -> str:
    if not found.hits:
        return found.error or empty
    return "\n".join(
        f"[{number}] {one_line(hit.title)}\n{hit.url}\n{hit.snippet}" for number, hit in enumerate(found.hits, start=1)
    )
