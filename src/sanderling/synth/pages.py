"""Which pages of a world questions are made of: a sample by a seed, the same whatever the order and the number that is wanted.

A page's place in the sample follows from the seed and its address alone, so a longer sample begins with the shorter one, and a
world that grew keeps its pages' places. Knows no maker of questions.
"""

import hashlib
import heapq
from collections.abc import Collection, Iterable

from sanderling.world.addresses import canonical_url
from sanderling.world.contract import Page
from sanderling.world.text import word_count


def sample_pages(
    pages: Iterable[Page], count: int, seed: int, *, words: tuple[int, int] = (80, 60_000), leave_out: Collection[str] = ()
) -> list[Page]:
    """At most ``count`` pages of a length within ``words``, in the order of their places.

    ``leave_out``: canonical addresses of pages that are not wanted. Memory holds ``count`` pages, time is one pass.
    """
    chosen: list[tuple[int, str, Page]] = []
    if count < 1:
        return []
    for page in pages:
        key = canonical_url(page.url)
        place = -_place(seed, key)
        if (len(chosen) == count and place < chosen[0][0]) or key in leave_out:
            continue
        if not words[0] <= word_count(page.text) <= words[1]:
            continue
        (heapq.heappush if len(chosen) < count else heapq.heappushpop)(chosen, (place, key, page))
    return [page for _, _, page in sorted(chosen, key=lambda item: (-item[0], item[1]))]


def _place(seed: int, key: str) -> int:
    return int.from_bytes(hashlib.sha256(f"{seed}\0{key}".encode("utf-8", "surrogatepass")).digest()[:8], "big")
