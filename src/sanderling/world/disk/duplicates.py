"""Near-duplicates: pages with mostly the same words in the same order. A deterministic signature, and groups of pages.

Signature: MinHash (Broder 1997) over shingles of five terms, 128 positions of 16 bits; the share of equal positions estimates
the Jaccard similarity (standard error at most 0.044). Candidates share one of 32 bands of four positions; they are a pair when
the estimate reaches the threshold; groups are the connected pairs.
"""

import hashlib
import json
from collections.abc import Iterable, Sequence
from functools import lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sanderling.runs.files import replace_file
from sanderling.world.disk.pages import seal, writable
from sanderling.world.disk.store import GROUPS_FORMAT, groups_file
from sanderling.world.text import plain, words

THRESHOLD = 0.8
_SHINGLE = 5
_POSITIONS = 128
_FEWEST_TERMS = 10
_BAND = 4
_BANDS = _POSITIONS // _BAND
_MOST_FIRSTS = 128  # in one bucket, pages that are like none before them, until it is parted further
_BLOCK = 192  # shingles that are hashed at once: 96 KB, so that the table stays in the cache and off the allocator
_PAIRS = 65_536  # pairs that are compared at once: flat memory

Numbers = NDArray[np.intp]


def _constants(name: str, count: int) -> NDArray[np.uint32]:
    """Odd 32-bit constants that are the same on every machine."""
    digests = (hashlib.sha256(f"{name} {number}".encode()).digest()[:4] for number in range(count))
    return np.array([int.from_bytes(digest, "big") | 1 for digest in digests], dtype=np.uint32)


_FACTORS = _constants("factor", _POSITIONS)[:, None]
_OFFSETS = _constants("offset", _POSITIONS)[:, None]
_PLACES = _constants("place", _SHINGLE)


@lru_cache(maxsize=500_000)
def _word_hash(word: str) -> bytes:
    return hashlib.blake2b(word.encode("utf-8", "replace"), digest_size=4).digest()


def signature(text: str) -> bytes | None:
    """The MinHash signature of a page's Markdown, 256 bytes; None below ten terms: notices, the same on many sites."""
    found = words(plain(text))
    if len(found) < _FEWEST_TERMS:
        return None
    hashes = np.frombuffer(b"".join(map(_word_hash, found)), dtype=">u4").astype(np.uint32)
    count = len(hashes) - _SHINGLE + 1
    shingles = np.zeros(count, dtype=np.uint32)
    for place in range(_SHINGLE):  # unsigned arithmetic wraps around, as it should
        shingles += hashes[place : place + count] * _PLACES[place]
    shingles ^= shingles >> np.uint32(15)
    lowest = np.full(_POSITIONS, np.iinfo(np.uint32).max, dtype=np.uint32)
    for start in range(0, count, _BLOCK):  # flat memory for long pages
        block = shingles[None, start : start + _BLOCK] * _FACTORS
        block += _OFFSETS
        lowest = np.minimum(lowest, block.min(axis=1))
    return (lowest ^ (lowest >> np.uint32(16))).astype("<u2").tobytes()


def near_duplicates(signed: Iterable[tuple[int, bytes]], threshold: float = THRESHOLD) -> list[list[int]]:
    """Groups of two or more pages, by number, that are connected by pairs which reach the threshold, in order.

    Within a band's bucket pages are compared with the first of every group. Pages of one template fill a bucket without being
    near-duplicates: after `_MOST_FIRSTS` first ones what is left of it is parted by the next band.
    """
    numbers: list[int] = []
    joined = bytearray()
    for number, row in signed:
        numbers.append(number)
        joined += row
    rows = np.frombuffer(joined, dtype="<u2").reshape(-1, _POSITIONS)
    parent = list(range(len(rows)))
    for band in range(_BANDS):
        order, bucket = np.arange(len(rows)), np.zeros(len(rows), dtype=np.intp)
        for deeper in range(_BANDS):
            order, bucket = _parted(rows, (band + deeper) % _BANDS, order, bucket)
            order, bucket = _join_buckets(rows, order, bucket, threshold, parent)
    groups: dict[int, list[int]] = {}
    for row, number in enumerate(numbers):
        groups.setdefault(_root(parent, row), []).append(number)
    return [group for group in groups.values() if len(group) > 1]


def _parted(rows: NDArray[np.uint16], band: int, order: Numbers, bucket: Numbers) -> tuple[Numbers, Numbers]:
    """The rows of each bucket in smaller ones, by their values in a band; those that are alone in theirs are left out."""
    keys = np.ascontiguousarray(rows[order, band * _BAND : (band + 1) * _BAND]).view(np.uint64).ravel()
    places = np.lexsort((keys, bucket))
    order, bucket, keys = order[places], bucket[places], keys[places]
    opens = np.ones(len(order), dtype=bool)
    opens[1:] = (bucket[1:] != bucket[:-1]) | (keys[1:] != keys[:-1])
    smaller = np.cumsum(opens) - 1
    keep = np.bincount(smaller)[smaller] > 1
    return order[keep], smaller[keep]


def _join_buckets(
    rows: NDArray[np.uint16], order: Numbers, bucket: Numbers, threshold: float, parent: list[int]
) -> tuple[Numbers, Numbers]:
    """Compare all rows of a bucket with its first; the others make a bucket of their own, and so on. Returns what is left."""
    for _ in range(_MOST_FIRSTS):
        if not len(order):
            break
        opens = np.concatenate(([True], bucket[1:] != bucket[:-1]))
        firsts, others, bucket = order[opens][np.cumsum(opens) - 1][~opens], order[~opens], bucket[~opens]
        alike = np.zeros(len(others), dtype=bool)
        for start in range(0, len(others), _PAIRS):
            pairs = slice(start, start + _PAIRS)
            alike[pairs] = (rows[firsts[pairs]] == rows[others[pairs]]).mean(axis=1) >= threshold
        for a, b in zip(firsts[alike].tolist(), others[alike].tolist(), strict=True):
            low, high = sorted((_root(parent, a), _root(parent, b)))
            parent[high] = low
        order, bucket = others[~alike], bucket[~alike]
    return order, bucket


def _root(parent: list[int], row: int) -> int:
    while parent[row] != row:
        parent[row] = parent[parent[row]]
        row = parent[row]
    return row


def save_groups(directory: Path, fingerprint: str, groups: Sequence[Sequence[str]]) -> None:
    """Write a world's groups into its directory. Raises UserError when that cannot be written."""
    path = directory / groups_file(fingerprint)
    record = {"format": GROUPS_FORMAT, "fingerprint": fingerprint, "threshold": THRESHOLD, "groups": groups}
    with writable(path):
        replace_file(path, json.dumps(seal(record), ensure_ascii=False, indent=1) + "\n")
