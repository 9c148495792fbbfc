"""Which script a question is written in: the nearest to its language that a look at the letters can tell.

A script is not a language: Latin letters may be English or Turkish. Kana makes a text Japanese; Han without kana is called
Chinese. The script with the most letters decides.
"""

from bisect import bisect_right
from collections import Counter

_STARTS: tuple[tuple[int, str], ...] = (
    (0x0041, "Latin"),
    (0x0250, ""),
    (0x0370, "Greek"),
    (0x0400, "Cyrillic"),
    (0x0530, "Armenian"),
    (0x0590, "Hebrew"),
    (0x0600, "Arabic"),
    (0x0700, ""),
    (0x0750, "Arabic"),
    (0x0780, ""),
    (0x0900, "Devanagari"),
    (0x0980, "Bengali"),
    (0x0A00, "other Indic"),
    (0x0E00, "Thai"),
    (0x0E80, "Lao"),
    (0x0F00, "Tibetan"),
    (0x1000, "Burmese"),
    (0x10A0, "Georgian"),
    (0x1100, "Korean"),
    (0x1200, "Ethiopic"),
    (0x13A0, ""),
    (0x1780, "Khmer"),
    (0x1800, ""),
    (0x1E00, "Latin"),
    (0x1F00, "Greek"),
    (0x2000, ""),
    (0x3040, "Japanese"),
    (0x3100, ""),
    (0x3400, "Chinese"),
    (0xA000, ""),
    (0xAC00, "Korean"),
    (0xD7B0, ""),
    (0xF900, "Chinese"),
    (0xFB00, ""),
    (0xFF21, "Latin"),
    (0xFF5B, ""),
    (0xFF66, "Japanese"),
    (0xFFA0, ""),
    (0x20000, "Chinese"),
    (0x32000, ""),
)
_POINTS = [start for start, _ in _STARTS]
_LONGEST = 2_000
_KANA_SHARE = 0.1
NO_LETTERS = "no letters"
OTHER = "another script"


def script_of(text: str) -> str:
    """The script of a text's first 2,000 characters.

    Example: ``script_of("東京はどこ?") == "Japanese"``
    """
    counts: Counter[str] = Counter()
    for char in text[:_LONGEST]:
        if char.isalpha():
            place = bisect_right(_POINTS, ord(char)) - 1
            counts[(_STARTS[place][1] if place >= 0 else "") or OTHER] += 1
    if not counts:
        return NO_LETTERS
    if counts["Japanese"] >= _KANA_SHARE * counts.total():
        counts["Japanese"] += counts.pop("Chinese", 0)
    return max(counts, key=lambda name: (counts[name], name))
