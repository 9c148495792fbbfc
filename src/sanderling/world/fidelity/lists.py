"""Two ranked lists compared: overlap at k and rank-biased overlap. Pure functions over keys.

Definitions, strict. A list is a total order: rank is position, and there are no ties (worlds break theirs by page number; a
recorded list says no scores). A key that occurs again later in a list counts once, at its first rank. Two empty lists agree in
nothing that can be measured: None. One empty list against another: 0. Knows no URLs (`canonical_url` makes keys), no worlds.
"""

import math
from collections.abc import Iterable, Sequence


def distinct(keys: Iterable[str]) -> tuple[str, ...]:
    """The keys in order, each once, at its first place."""
    return tuple(dict.fromkeys(keys))


def overlap_at(a: Sequence[str], b: Sequence[str], k: int) -> float | None:
    """Shared keys among the first k of each, over min(k, length of the longer list); in [0, 1], symmetric.

    A list shorter than k is taken as it is: what the longer one shows beyond it is not shared. Raises ValueError for k < 1.
    """
    if k < 1:
        raise ValueError(f"k is {k}: it must be at least 1")
    first, second = distinct(a), distinct(b)
    depth = min(k, max(len(first), len(second)))
    if depth == 0:
        return None
    return len(set(first[:k]) & set(second[:k])) / depth


def rank_biased_overlap(a: Sequence[str], b: Sequence[str], p: float) -> float | None:
    """Extrapolated rank-biased overlap, RBO_EXT, of two lists of any lengths; in [0, 1], symmetric.

    Webber, Moffat and Zobel 2010 ("A similarity measure for indefinite rankings", ACM TOIS 28(4)), equation 32: agreement at
    depth d weighs (1 - p) p^(d-1); beyond the lists the agreement at their ends is assumed to go on. ``p``: the chance that a
    reader looks one rank further. Raises ValueError for p outside (0, 1).
    """
    if not 0.0 < p < 1.0:
        raise ValueError(f"p is {p}: it must lie between 0 and 1")
    short, long = sorted((distinct(a), distinct(b)), key=len)
    if not long:
        return None
    if not short:
        return 0.0
    shared = _shared_by_depth(short, long)
    s, size = len(short), len(long)
    at_s, at_l = shared[s - 1], shared[size - 1]
    total = sum(shared[d - 1] / d * p**d for d in range(1, size + 1))
    total += sum(at_s * (d - s) / (s * d) * p**d for d in range(s + 1, size + 1))
    return min(1.0, (1 - p) / p * total + ((at_l - at_s) / size + at_s / s) * p**size)


def weight_of_top(d: int, p: float) -> float:
    """Share of the weight of RBO that the first d ranks carry (equation 21): 0.86 for d = 10 and p = 0.9.

    Raises ValueError for d < 1 or p outside (0, 1).
    """
    if d < 1 or not 0.0 < p < 1.0:
        raise ValueError(f"d is {d} and p is {p}: d must be at least 1, and p between 0 and 1")
    tail = math.log(1.0 / (1.0 - p)) - sum(p**i / i for i in range(1, d))
    return 1.0 - p ** (d - 1) + (1.0 - p) / p * d * tail


def _shared_by_depth(short: Sequence[str], long: Sequence[str]) -> list[int]:
    """Number of shared keys among the first d of each, for d = 1 .. length of the longer list."""
    seen_short: set[str] = set()
    seen_long: set[str] = set()
    shared, counts = 0, []
    for d, key in enumerate(long):
        seen_long.add(key)
        shared += key in seen_short
        if d < len(short):
            seen_short.add(short[d])
            shared += short[d] in seen_long
        counts.append(shared)
    return counts
