"""Worlds for the tests of dynamics: a few real pages, and one that answers everything."""

from sanderling.world.contract import NO_OCCASION, Page, SearchHit, SearchReply, VisitReply, World
from sanderling.world.local import LocalWorld

TIDES = [
    Page(
        url=f"https://coast.example/wiki/Flat_({number})",
        title=f"Flat {number}",
        text=f"# Flat {number}\n\nThe tidal flat number {number} was mapped in 1911. It was mapped again in 1998.\n\n"
        f"About {number + 20} waders winter on the tidal flat.",
    )
    for number in range(30)
]


def coast() -> LocalWorld:
    return LocalWorld.in_memory(TIDES, name="coast")


class Always(World):
    """Finds ten results for any query, and a page at any address."""

    name, fingerprint, page_count = "always", "0", 1

    async def search(self, query, *, limit=10, snippet_words=30, occasion=NO_OCCASION):
        hits = (SearchHit(f"T{n}", f"https://t.example/{n}", f"mapped in {1900 + n} " * snippet_words) for n in range(limit))
        return SearchReply(query, tuple(hits))

    async def visit(self, url, goal="", *, max_words=2000, occasion=NO_OCCASION):
        return VisitReply(url, "T", "The hut was built in 1911.\n\nIt burnt down in 1998.")
