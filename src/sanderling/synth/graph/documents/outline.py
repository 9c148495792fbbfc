"""A page as what it is about: its own name, the definitions on it, its sections; each with the lines that speak of it.

A definition is a signature line (or several) with prose right behind it. A name that could be a word of prose counts only
where a link leads to it by that name. Knows no relation.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from sanderling.synth.graph.documents.blocks import BlockKind, Line, lines_of
from sanderling.synth.graph.documents.naming import Heading, heading_of, last_part
from sanderling.synth.graph.documents.signatures import Signature, signature_of
from sanderling.world.contract import Page

_INDEX_LINKS = 0.6
"""Share of a page's lines that are nothing but a link, above which it is an index and states nothing itself."""

_CALLED = frozenset({"function", "method", "decorator"})
_FEWEST_WORDS, _FEWEST_WORDS_SMALL = 3, 5
"""Of a sentence behind a signature; of one that begins small, as "x.sort() is …" does."""
_LABEL = re.compile(r"[A-Z][a-z]+(?: [a-z]+)?:")

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
    is_shared: bool = False
    """Whether other definitions have the same lines: what they say may be of one of them alone."""


@dataclass(slots=True)
class Outline:
    """A page taken apart."""

    page: Page
    top: Part
    """The page itself, up to the first definition or lower heading."""
    parts: list[Part]
    is_whole: bool
    """Whether every signature on it was taken, each for one thing: they may be counted."""


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
        if signatures and _are_known(signatures, lambda name: confirmed(page.url, name)):
            parts.extend(_defined(signatures))
            current = parts[-1]
            is_whole = is_whole and len({last_part(one.name) for one in current.signatures}) == 1  # one function, or two?
        elif signatures:
            is_whole = False
            current = Part()  # what follows is not about the definition before
            parts.append(current)
        else:
            is_whole = is_whole and not _is_without_words(line)
            current.lines.append(line)
        number = behind if signatures else number + 1
    return Outline(page, top, parts, is_whole)


def _is_without_words(line: Line) -> bool:
    """Whether a line that opens no definition may be one all the same, with no prose behind it."""
    signature = signature_of(line.text) if line.kind is BlockKind.PROSE else None
    return signature is not None and signature.is_qualified and (signature.is_type or signature.kind in _CALLED)


def _signatures(lines: list[Line], number: int) -> tuple[tuple[Signature, ...], int]:
    """The signatures from a line on, and the number of the line behind them; none unless prose follows."""
    found: list[Signature] = []
    while number < len(lines) and lines[number].kind is BlockKind.PROSE:
        text = lines[number].text
        signature = signature_of(text)
        if signature is not None and found and found[-1].is_type and not signature.is_type:
            return tuple(found), number  # a class without prose of its own, and its first member
        if signature is not None:
            found.append(signature)
        elif not any(text == last_part(one.name) for one in found):  # the bare name once more, "f(x)" above "f", is no prose
            break
        number += 1
    prose = (BlockKind.PROSE, BlockKind.ITEM)
    behind = number < len(lines) and lines[number].kind in prose and _is_prose(lines[number].text, found)
    return (tuple(found), number) if behind else ((), number)


def _defined(signatures: tuple[Signature, ...]) -> list[Part]:
    """The forms of a function are one definition; classes or constants above one text are each one, and share its lines."""
    called = {one.name.removesuffix("()") for one in signatures if one.kind in _CALLED}
    if all(one.name.removesuffix("()") in called for one in signatures):
        return [Part(signatures=signatures)]
    lines: list[Line] = []
    names = dict.fromkeys(one.name for one in signatures)
    return [
        Part(signatures=tuple(one for one in signatures if one.name == name), lines=lines, is_shared=len(names) > 1)
        for name in names
    ]


def _are_known(signatures: Sequence[Signature], is_linked: Callable[[str], bool]) -> bool:
    """Whether they are definitions: each qualified or linked to; of several functions in one entry, one of them."""
    known = [one.is_qualified or is_linked(one.name) for one in signatures]
    are_alike = {one.kind for one in signatures} in ({"function"}, {"method"})
    return any(known) if are_alike else all(known)


def _is_prose(text: str, signatures: Sequence[Signature]) -> bool:
    """Whether a line can open a definition: a sentence; below qualified names also one that begins small, or a label."""
    count = len(text.split())
    if count >= _FEWEST_WORDS and not text[0].islower() and text[-1] in ".:;)":
        return True
    is_below = bool(signatures) and all(one.is_qualified for one in signatures)
    return is_below and ((count >= _FEWEST_WORDS_SMALL and text[-1] == ".") or _LABEL.fullmatch(text) is not None)


def _is_index(lines: list[Line]) -> bool:
    bare = sum(1 for line in lines if len(line.links) == 1 and line.marked.strip("⟦⟧0 ") == "")
    return bare > _INDEX_LINKS * len(lines)
