"""A page as the passages that are embedded: its title before each, its text cut at ends of paragraphs, sentences or words.

Pure; knows no embedder.
"""

from pydantic import BaseModel, ConfigDict, Field

from sanderling.world.contract import Page
from sanderling.world.text import plain

_EARLIEST = 0.6
"""A passage ends at the last good place behind this share of its length."""
_ENDS = ("\n\n", "\n", ". ", "。", " ")


class Chunking(BaseModel):
    """How pages are cut.

    A page's score is that of its best passage, so that a long page is found by any of them. More passages cost as many times
    the vectors, the disk and the embedding.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    most: int = Field(default=4, ge=1)
    """Passages of a page; what comes after them is not embedded. 1: the leading text alone."""
    chars: int = Field(default=1_200, ge=100)
    """Longest passage."""


def passages(page: Page, chunking: Chunking) -> list[str]:
    """The texts to embed for a page; none for a page without words."""
    text = plain(page.text[: 2 * chunking.most * chunking.chars]).strip()
    found: list[str] = []
    while text and len(found) < chunking.most:
        cut = _end(text, chunking.chars)
        found.append(text[:cut].strip())
        text = text[cut:].strip()
    title = page.title.strip()
    if not found:
        return [title] if title else []
    return [f"{title}\n{passage}" if title else passage for passage in found]


def _end(text: str, most: int) -> int:
    """Where a passage of at most ``most`` characters ends best."""
    if len(text) <= most:
        return len(text)
    for mark in _ENDS:
        at = text.rfind(mark, int(most * _EARLIEST), most)
        if at >= 0:
            return at + len(mark)
    return most
