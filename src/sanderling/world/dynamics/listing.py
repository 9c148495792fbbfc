"""One ranked list of results with its noise: other order, copies, spam, snippets that say too much or something else.

Pure: a function of the plain results and the episode's draws, keyed by query and page, so that the same query lists the same
results however often it is asked. Knows no world.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from sanderling.world.canonical import canonical_url
from sanderling.world.contract import SearchHit
from sanderling.world.dynamics.addresses import Made, made_url
from sanderling.world.dynamics.faults import Draws, standard_normal
from sanderling.world.dynamics.profile import ResultNoise
from sanderling.world.dynamics.tamper import altered, spam_snippet

_FARTHEST = 2.0
"""Standard deviations of rank noise beyond which it is cut."""
LEAK_FACTOR = 4
"""How many times as long a leaking snippet is."""


def spare_results(noise: ResultNoise) -> int:
    """How many results past the limit have a chance to be moved into it.

    A result is moved by `_FARTHEST` standard deviations at most, so none that lies twice as far past the limit stands before
    one within it: the first results are the same, however many are asked for.
    """
    return math.ceil(2 * _FARTHEST * noise.rank_noise)


def altered_as(draws: Draws, url: str) -> Callable[[str], str]:
    """How the contradicting copy of a page changes a text: the same number becomes the same other number."""
    return lambda text: altered(text, lambda number: draws.uniform("number", url, number))


@dataclass(frozen=True)
class Entry:
    """One result of a list, and what is to become of its snippet."""

    hit: SearchHit
    leaks: bool = False
    misleads: bool = False


@dataclass(frozen=True)
class Listing:
    """The noise of one query's list: `ranked` decides what is listed, `shown` what its snippets say.

    Example: ``listing = Listing(noise, draws, "tidal flats", 30); listing.shown(listing.ranked(hits, limit=10))``
    """

    noise: ResultNoise
    draws: Draws
    query: str
    snippet_words: int

    def ranked(self, hits: Sequence[SearchHit], limit: int) -> list[Entry]:
        """At most ``limit`` results out of the plain ones in their order."""
        listed: list[Entry] = []
        for hit in self._reordered(hits):
            self._add_spam(listed, hit.score)
            leaks = self._happens(self.noise.leaking_snippet, "leak", hit.url)
            misleads = self._happens(self.noise.misleading_snippet, "mislead", hit.url)
            listed += [Entry(hit, leaks, misleads), *map(Entry, self._copies(hit))]
            if len(listed) >= limit:
                break
        return listed[:limit]

    def shown(self, entries: Sequence[Entry], long_snippets: Mapping[str, str] | None = None) -> tuple[SearchHit, ...]:
        """The results as an agent sees them; ``long_snippets``: by URL, for those that leak."""
        return tuple(self._shown(entry, long_snippets or {}) for entry in entries)

    def _shown(self, entry: Entry, long_snippets: Mapping[str, str]) -> SearchHit:
        hit = entry.hit
        snippet = long_snippets.get(hit.url, hit.snippet) if entry.leaks else hit.snippet
        if entry.misleads:
            snippet = altered(snippet, lambda number: self.draws.uniform("mislead", hit.url, number))
        return hit if snippet == hit.snippet else replace(hit, snippet=snippet)

    def _happens(self, chance: float, what: str, url: str) -> bool:
        return chance > 0 and self.draws.happens(chance, what, self.query, canonical_url(url))

    def _reordered(self, hits: Sequence[SearchHit]) -> list[SearchHit]:
        spread = self.noise.rank_noise
        if not spread:
            return list(hits)

        def place(rank: int) -> float:
            moved = standard_normal(self.draws.uniform("rank", self.query, canonical_url(hits[rank].url)))
            return rank + spread * min(max(moved, -_FARTHEST), _FARTHEST)

        return [hits[rank] for rank in sorted(range(len(hits)), key=lambda rank: (place(rank), rank))]

    def _add_spam(self, listed: list[Entry], score: float) -> None:
        """Spam at the next rank, and at the one after it, as long as the draws say so."""
        while self.draws.happens(self.noise.spam, "spam", self.query, len(listed)) and len(listed) < 100:
            url = made_url(Made.SPAM, f"{self.query} {len(listed) + 1}", self.draws.uniform("host", self.query, len(listed)))
            snippet = spam_snippet(self.query, self.snippet_words)
            listed.append(Entry(SearchHit(f"{self.query}: the best results", url, snippet, score=score)))

    def _copies(self, hit: SearchHit) -> list[SearchHit]:
        found: list[SearchHit] = []
        key = canonical_url(hit.url)
        chances = {Made.COPY: self.noise.near_duplicate, Made.CONTRADICTING: self.noise.contradicting}
        for kind, chance in chances.items():
            if not self._happens(chance, kind, hit.url):
                continue
            url = made_url(kind, key, self.draws.uniform("host", key))
            change = altered_as(self.draws, key) if kind is Made.CONTRADICTING else str
            if url:
                found.append(SearchHit(hit.title, url, change(hit.snippet), hit.date, hit.score))
        return found
