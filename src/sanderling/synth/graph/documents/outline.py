"""A page as what it is about: its own name, the definitions on it, its sections; each with the lines that speak of it.

A definition is a signature line (or several) with prose right behind it. A name that could be a word of prose counts only
where a link leads to it by that name. Knows no relation.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from sanderling.synth.graph.documents.blocks import BlockKind, Line, lines_of
from sanderling.synth.graph.documents.naming import Heading, heading_of
from sanderling.synth.graph.documents.signatures import Signature, signature_of
from sanderling.world.contract import Page

_INDEX_LINKS = 0.6
"""Share of a page's lines that are nothing but a link, above which it is an index and states nothing itself."""

_FEWEST_WORDS = 3

Confirmed = Callable[[str, str], bool]
"""Whether links of the world lead to a page by a name."""


@dataclass(slots=True)
class Part:
    """Something that a page speaks of, and the lines that do."""

    heading: Heading | None = None
    signatures: tuple[Signature, ...] = ()
    lines: list[Line] = field(default_factory=list)
    level: int = 0
    """Of the heading; 0 for a definition."""


@dataclass(slots=True)
class Outline:
    """A page taken apart."""

    page: Page
    top: Part
    """The page itself, up to the first definition or lower heading."""
    parts: list[Part]
    is_whole: bool
    """Whether every signature on it was taken."""


def outline(page: Page, confirmed: Confirmed) -> Outline | None:
    """Take a page apart; None for an index, and for a page without a heading."""
    lines = lines_of(page.text)
    first = next((number for number, line in enumerate(lines[:12]) if line.kind is BlockKind.HEADING), None)
    if first is None or _is_index(lines):
        return None
    top = Part(heading_of(lines[first].text), level=lines[first].level)
    parts: list[Part] = []
    current, is_whole = top, True
    number = first + 1
    while number < len(lines):
        line = lines[number]
        if line.kind is BlockKind.HEADING:
            current = Part(heading_of(line.text), level=line.level)
            parts.append(current)
            number += 1
            continue
        signatures, behind = _signatures(lines, number)
        taken = tuple(one for one in signatures if one.is_qualified or confirmed(page.url, one.name))
        if signatures and len(taken) == len(signatures):
            current = Part(signatures=taken)
            parts.append(current)
        elif signatures:
            is_whole = False
            current = Part()  # what follows is not about the definition before
            parts.append(current)
        else:
            current.lines.append(line)
        number = behind if signatures else number + 1
    return Outline(page, top, parts, is_whole)


def _signatures(lines: list[Line], number: int) -> tuple[tuple[Signature, ...], int]:
    """The signatures from a line on, and the number of the line behind them; none unless prose follows."""
    found: list[Signature] = []
    while number < len(lines) and lines[number].kind is BlockKind.PROSE:
        signature = signature_of(lines[number].text)
        if signature is None:
            break
        found.append(signature)
        number += 1
    prose = (BlockKind.PROSE, BlockKind.ITEM)
    behind = number < len(lines) and lines[number].kind in prose and _is_sentence(lines[number].text)
    return (tuple(found), number) if behind else ((), number)


def _is_sentence(text: str) -> bool:
    return len(text.split()) >= _FEWEST_WORDS and not text[0].islower() and text[-1] in ".:;)"


def _is_index(lines: list[Line]) -> bool:
    bare = sum(1 for line in lines if len(line.links) == 1 and line.marked.strip("⟦⟧0 ") == "")
    return bare > _INDEX_LINKS * len(lines)
