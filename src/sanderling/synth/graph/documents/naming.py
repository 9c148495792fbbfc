"""Names in headings and links: without numbering, quotes and call brackets; a name and what is said of it apart.

Pure functions.
"""

import re
from dataclasses import dataclass

_NUMBER = re.compile(r"(?:(?P<part>Chapter|Appendix|Section|Part) )?(?P<number>(?:\d+|[A-Z])(?:\.\d+)*)[.,:]? +(?P<rest>\S.*)")
_DASH = re.compile(r"\s+(?:—|–|---|--)\s+")
_STANDARD = re.compile(r"(?P<kind>PEP|RFC|ISO|IEEE|ECMA|FIPS|IEC)[ -]?(?:\w{0,3} )?(?P<number>\d[\d.\-:]*)")
_IDENTIFIER = re.compile(r"[A-Za-z_][\w.]*(?:\(\))?")


@dataclass(frozen=True, slots=True)
class Heading:
    """A heading taken apart."""

    name: str
    number: str = ""
    """Such as 6.2 or A.8; empty: none."""
    part: str = ""
    """What it says that it is: "chapter", "appendix"; empty: nothing."""
    gloss: str = ""
    """What stands after a dash: "json — JSON encoder and decoder"."""


def heading_of(words: str) -> Heading:
    """Take a heading apart."""
    words = " ".join(words.split())
    number, part = "", ""
    if (found := _NUMBER.fullmatch(words)) and (found["number"][0].isdigit() or "." in found["number"] or "Appendix" in words):
        number, words, part = found["number"], found["rest"], (found["part"] or "").lower()
    parts = _DASH.split(words, maxsplit=1)
    if len(parts) == 2 and parts[0] and _IDENTIFIER.fullmatch(parts[0]):
        return Heading(parts[0], number, part, parts[1])
    return Heading(words.strip("“”\"' "), number, part)


def standard_in(words: str) -> tuple[str, str] | None:
    """The name and kind of a numbered standard that link words name, as in "PEP 492"; None for others."""
    found = _STANDARD.fullmatch(words.strip())
    if found is None:
        return None
    kind = found["kind"]
    return f"{kind} {found['number']}", kind if kind in ("PEP", "RFC") else "standard"


def is_telling(heading: str) -> bool:
    """Whether a heading says by itself what it is about: three to ten words, the first of them written large."""
    return 3 <= len(heading.split()) <= 10 and heading[:1].isupper() and "⟦" not in heading


def key_of(words: str) -> str:
    """What names and link words are compared by."""
    words = heading_of(words).name if not words.endswith(")") else words
    return words.removesuffix("()").strip("“”\"'` ").casefold()


def last_part(name: str) -> str:
    """The part of a dotted name behind its last dot, without call brackets."""
    return name.removesuffix("()").rpartition(".")[2]
