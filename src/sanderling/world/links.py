"""Where the links of a world's pages lead: inside it, to pages that it lacks, or to other sites.

A link is dead when it leads to a site of which the world holds pages, and no page is there; what lies on other sites the world
cannot know. A site is a host, or the first name of a ``local://`` address.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum

from sanderling.world.canonical import canonical_url
from sanderling.world.contract import Page
from sanderling.world.manifest import LinkCounts


class Leads(StrEnum):
    """Where a link leads."""

    INSIDE = "inside"
    DEAD = "dead"
    OUTSIDE = "outside"


def site(key: str) -> str:
    """The site of a canonical URL: scheme and host."""
    scheme, found, rest = key.partition("://")
    return f"{scheme}://{rest.partition('/')[0].partition('?')[0]}" if found else ""


@dataclass(frozen=True)
class LinkJudge:
    """Tells where links lead.

    Args:
        find: the number of a page by its key.
        has_site: whether any page of the world lies on a site.

    """

    find: Callable[[str], int | None]
    has_site: Callable[[str], bool]

    def leads(self, link: str) -> Leads:
        """Where one link leads."""
        key = canonical_url(link)
        if self.find(key) is not None:
            return Leads.INSIDE
        return Leads.DEAD if self.has_site(site(key)) else Leads.OUTSIDE

    def tally(self, links: Iterable[str]) -> Counter[Leads]:
        """The links of a page, by where they lead."""
        return Counter(map(self.leads, links))


def counts_of(tally: Mapping[Leads, int]) -> LinkCounts:
    """A tally as a world's manifest has it."""
    return LinkCounts(**{lead.value: tally.get(lead, 0) for lead in Leads})


def dead_links(pages: Iterable[Page], judge: LinkJudge) -> Iterator[tuple[str, str]]:
    """Every dead link, as (page, link)."""
    for page in pages:
        for link in page.links:
            if judge.leads(link) is Leads.DEAD:
                yield page.url, link
