"""From one page to a graph: read it, search the world for the most promising things it names, read what is found, and so on.

Source: LiteResearcher (arXiv 2604.17931) grows its graphs from a seed by searches, with a most number of nodes and a few
sources for each; what it leaves open is ours: the next thing is the one that most facts speak of and nobody searched for yet.
Deterministic, given the model's replies.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from pydantic import BaseModel, ConfigDict, Field

from sanderling.core.asking import Asker
from sanderling.synth.graph.contract import FactGraph
from sanderling.synth.reading.extraction import PageFacts, Unused, read_page
from sanderling.synth.reading.merge import merged
from sanderling.world.addresses import canonical_url
from sanderling.world.contract import Page
from sanderling.world.local import LocalWorld
from sanderling.world.text import word_count


class CrawlSettings(BaseModel):
    """How far a crawl goes."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    pages: int = Field(default=8, ge=1)
    """Read in all, the first one included."""
    per_entity: int = Field(default=2, ge=1)
    """Read for one thing."""
    page_words: int = Field(default=4_000, ge=50)
    least_words: int = 40
    """Shorter pages are not read."""


@dataclass
class Crawled:
    """What a crawl read."""

    graph: FactGraph
    urls: list[str]
    """In the order of reading."""
    unused: Counter[Unused] = field(default_factory=Counter)
    provenance: list[dict] = field(default_factory=list)


async def crawl(world: LocalWorld, start: Page, askers: Sequence[Asker], settings: CrawlSettings) -> Crawled:
    """Read on from a page. Raises AskingOutageError."""
    read: list[tuple[Page, PageFacts]] = []
    seen: set[str] = set()
    looked_for: set[str] = set()
    waiting = [start]
    while waiting and len(read) < settings.pages:
        page = waiting.pop(0)
        if canonical_url(page.url) in seen:
            continue
        seen.add(canonical_url(page.url))
        read.append((page, await read_page(page, askers, most_words=settings.page_words)))
        if not waiting:
            waiting = await _next(world, merged(read), seen, looked_for, settings)
    unused = sum((facts.unused for _, facts in read), Counter[Unused]())
    return Crawled(merged(read), [page.url for page, _ in read], unused, [facts.provenance for _, facts in read])


async def _next(
    world: LocalWorld, graph: FactGraph, seen: set[str], looked_for: set[str], settings: CrawlSettings
) -> list[Page]:
    """Unread pages about the thing that most facts speak of and no one looked for yet; none when there is no such thing."""
    mentions = Counter({id: len(graph.incoming[id]) + len(graph.outgoing[id]) for id in graph.entities})
    for id, _ in sorted(mentions.items(), key=lambda item: (-item[1], item[0])):
        if id in looked_for:
            continue
        looked_for.add(id)
        found: list[Page] = []
        for hit in (await world.search(graph.entities[id].name, limit=3 * settings.per_entity)).hits:
            page = world.page(hit.url)
            unread = page is not None and canonical_url(page.url) not in seen
            if page is not None and unread and word_count(page.text) >= settings.least_words:
                found.append(page)
        if found:
            return found[: settings.per_entity]
    return []
