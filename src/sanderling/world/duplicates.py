"""Near-duplicates: pages with mostly the same words in the same order. A deterministic signature, and groups of pages.

Signature: MinHash (Broder 1997) over shingles of five terms, 128 positions of 32 bits; the share of equal positions estimates
the Jaccard similarity of two pages' shingles (standard error at most 0.044). Candidates share one of 32 bands of four
positions; they are a pair when the estimate reaches the threshold; groups are the connected pairs. A short page quoted within
a long one is no near-duplicate of it. Holds 512 bytes for each page, and nothing of its text. Knows no index and no store.
"""

import hashlib
import json
from collections.abc import Iterable, Sequence
from functools import lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sanderling.errors import UserError
from sanderling.files import replace_file
from sanderling.world.contract import Page
from sanderling.world.terms import words

FILE_NAME = "duplicates.json"
FORMAT_VERSION = 1
THRESHOLD = 0.8
_SHINGLE = 5
_POSITIONS = 128
_FEWEST_TERMS = 10
_BAND = 4

Signature = NDArray[np.uint32]


def _constants(name: str, count: int) -> NDArray[np.uint64]:
    """Odd 64-bit constants that are the same on every machine."""
    digests = (hashlib.sha256(f"{name} {number}".encode()).digest()[:8] for number in range(count))
    return np.array([int.from_bytes(digest, "big") | 1 for digest in digests], dtype=np.uint64)


_FACTORS = _constants("factor", _POSITIONS)
_OFFSETS = _constants("offset", _POSITIONS)
_PLACES = _constants("place", _SHINGLE)


@lru_cache(maxsize=500_000)
def _word_hash(word: str) -> int:
    return int.from_bytes(hashlib.blake2b(word.encode("utf-8", "replace"), digest_size=8).digest(), "big")


def signature(text: str) -> Signature:
    """The MinHash signature of a text, ``(128,)``; zeros for one of fewer than ten terms: notices, the same on many sites."""
    hashes = np.array([_word_hash(word) for word in words(text)], dtype=np.uint64)
    if len(hashes) < _FEWEST_TERMS:
        return np.zeros(_POSITIONS, dtype=np.uint32)
    count = len(hashes) - _SHINGLE + 1
    shingles = np.zeros(count, dtype=np.uint64)
    for place in range(_SHINGLE):  # unsigned arithmetic wraps around, as it should
        shingles += hashes[place : place + count] * _PLACES[place]
    shingles ^= shingles >> np.uint64(29)
    lowest = np.full(_POSITIONS, np.iinfo(np.uint64).max, dtype=np.uint64)
    for start in range(0, count, 4_096):  # flat memory for long pages
        block = np.unique(shingles[start : start + 4_096])
        lowest = np.minimum(lowest, (block[None, :] * _FACTORS[:, None] + _OFFSETS[:, None]).min(axis=1))
    return (lowest >> np.uint64(32)).astype(np.uint32)


def similarity(a: Signature, b: Signature) -> float:
    """The estimated Jaccard similarity of two pages' shingles, in [0, 1]."""
    return float(np.mean(a == b))


def near_duplicates(pages: Iterable[Page], threshold: float = THRESHOLD) -> list[list[str]]:
    """Groups of two or more near-duplicate pages, by their URLs, in the order of the pages.

    Pages of fewer than ten terms are in none.
    """
    urls: list[str] = []
    rows: list[Signature] = []
    for page in pages:
        row = signature(page.text)
        if row.any():
            urls.append(page.url)
            rows.append(row)
    if not rows:
        return []
    parent = _joined(np.stack(rows), threshold)
    groups: dict[int, list[str]] = {}
    for number, url in enumerate(urls):
        groups.setdefault(_root(parent, number), []).append(url)
    return [group for group in groups.values() if len(group) > 1]


def _joined(rows: NDArray[np.uint32], threshold: float) -> list[int]:
    """Union-find parents after every candidate pair that reaches the threshold was joined.

    Within a band's bucket each page is compared with the roots already there, so a bucket of copies costs one comparison each.
    """
    parent = list(range(len(rows)))
    for start in range(0, _POSITIONS, _BAND):
        band = np.ascontiguousarray(rows[:, start : start + _BAND])
        buckets: dict[bytes, list[int]] = {}
        for number in range(len(rows)):
            met = buckets.setdefault(band[number].tobytes(), [])
            for other in met:
                if _root(parent, other) == _root(parent, number):
                    break
                if similarity(rows[other], rows[number]) >= threshold:
                    _join(parent, other, number)
                    break
            else:
                met.append(number)
    return parent


def _root(parent: list[int], number: int) -> int:
    while parent[number] != number:
        parent[number] = parent[parent[number]]
        number = parent[number]
    return number


def _join(parent: list[int], a: int, b: int) -> None:
    low, high = sorted((_root(parent, a), _root(parent, b)))
    parent[high] = low


def save_groups(directory: Path, fingerprint: str, groups: Sequence[Sequence[str]], threshold: float = THRESHOLD) -> Path:
    """Write a world's groups into its directory. Raises UserError when that cannot be written."""
    path = directory / FILE_NAME
    record = {"format": FORMAT_VERSION, "fingerprint": fingerprint, "threshold": threshold, "groups": groups}
    try:
        replace_file(path, json.dumps(record, ensure_ascii=False, indent=1) + "\n")
    except OSError as error:
        raise UserError(f"Cannot write {path} ({error.strerror}): make the world's directory writable.") from error
    return path


def load_groups(directory: Path, fingerprint: str) -> list[list[str]]:
    """The groups of a world; none when they were never looked for.

    Raises UserError when the file is damaged, or was made for other pages: a mask would then leak silently.
    """
    path = directory / FILE_NAME
    if not path.is_file():
        return []
    again = "run `sanderling world duplicates` on the world again."
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
        made_for, groups = record["fingerprint"], [[str(url) for url in group] for group in record["groups"]]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UserError(f"{path} cannot be read ({error}): {again}") from error
    if made_for != fingerprint or record.get("format") != FORMAT_VERSION:
        raise UserError(f"{path} was made for other pages than the world now holds: {again}")
    return groups
