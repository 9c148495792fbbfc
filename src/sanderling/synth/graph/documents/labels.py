"""Lines that name a value: "Author: A. Writer", a label with its value in the next line, "NAME is a …", and tables.

Pure functions.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from sanderling.synth.graph.documents.blocks import BlockKind, Line
from sanderling.synth.graph.documents.relations import Relation

_LABELS = {
    "author": Relation.AUTHOR,
    "authors": Relation.AUTHOR,
    "editor": Relation.EDITOR,
    "editors": Relation.EDITOR,
    "source code": Relation.SOURCE,
    "availability": Relation.AVAILABLE,
    "developer": Relation.DEVELOPER,
    "developers": Relation.DEVELOPER,
}
_LABEL = re.compile(r"(?P<label>[A-Z][A-Za-z ]{2,20}):(?: +(?P<value>\S.*))?")
_PERSON = re.compile(r"[A-Z][\w'’.-]*(?: (?:[A-Z][\w'’.-]*|van|von|de|der|di|da)){1,3}")
_BRACKETED = re.compile(r"[<(]([^<>()]*)[>)]")
_MAIL = re.compile(r",? \S+@\S+")
_IS_A = re.compile(
    r"(?:The )?(?P<name>[A-Z][\w+./-]*(?: [A-Z][\w+./-]*){0,3})(?: \([^()]*\))? is (?P<what>(?:an?|the) [a-z].+)"
)
_DEVELOPED = re.compile(
    r"\b(?:developed|maintained|created|published|founded|sponsored) by (?P<who>(?:[A-Z][\w&.-]+)(?: [A-Z][\w&.-]+){0,3})"
)
_MOST_WORDS, _FEWEST_WORDS = 18, 4
_UNQUOTABLE = re.compile(
    r"[“”{}=<>]|:$|\b(?:below|above|following|this)\b"
    r"|^(?:See|Note|Changed|New|Deprecated|Part of|Return value|Availability|Same as|Like|This|It|These|The following)\b"
)
_PUNCTUATED = re.compile(r"[“”(){}:;]")
_PEOPLE = frozenset({Relation.AUTHOR, Relation.EDITOR})
_HEADER = re.compile(r"[A-Z][\w/()-]*(?: [\w/()-]+){0,3}")
_MOST_ROWS = 60
_LONGEST_CELL = 60


@dataclass(frozen=True, slots=True)
class Labelled:
    """A relation to values that a label names."""

    relation: Relation
    values: tuple[str, ...]
    quote: str


def labels_in(lines: Sequence[Line]) -> Iterator[Labelled]:
    """Labels with their values, among the first lines of a page."""
    for number, line in enumerate(lines[:12]):
        found = _LABEL.fullmatch(line.text) if line.kind is BlockKind.PROSE else None
        relation = _LABELS.get(found["label"].lower()) if found else None
        if found is None or relation is None:
            continue
        value, quote = found["value"], line.text
        if value is None and number + 1 < len(lines):
            value = lines[number + 1].text
            quote = value
        if not value:
            continue
        values = (_without_mail(value),)
        if relation in _PEOPLE:
            values = tuple(part.strip() for part in re.split(r", | and ", values[0]))
            if not all(_PERSON.fullmatch(part) for part in values):
                continue
        elif relation is Relation.AVAILABLE:
            values = (values[0].rstrip("."),)
        elif " " in values[0]:
            continue
        if any(len(each) > _LONGEST_CELL for each in values):
            continue
        yield Labelled(relation, values, quote)


def _without_mail(value: str) -> str:
    """A name without the address behind it; brackets are found first, and then what stands in them."""
    plain = _BRACKETED.sub(lambda found: "" if "@" in found[1] or " at " in found[1] else found[0], value)
    return " ".join(_MAIL.sub("", plain).split())


def gloss_in(lines: Sequence[Line]) -> tuple[str, str] | None:
    """The first sentence about a definition when it can be quoted: without its stop, and whole."""
    for line in lines[:1]:
        for sentence in line.sentences():
            words = line.read(sentence)
            told = words.rstrip(".").strip()
            fits = _FEWEST_WORDS <= len(told.split()) <= _MOST_WORDS and words.endswith(".") and told[:1].isupper()
            return (told, words) if fits and not _UNQUOTABLE.search(told) else None
    return None


@dataclass(frozen=True, slots=True)
class Definition:
    """What prose says that something is, and who made it."""

    name: str
    what: str
    maker: str
    quote: str


def definitions_in(lines: Sequence[Line]) -> Iterator[Definition]:
    """Sentences of the form "NAME is a …", at the start of a line."""
    for line in lines:
        if line.kind is not BlockKind.PROSE:
            continue
        for sentence in line.sentences():
            words = line.read(sentence)
            found = _IS_A.fullmatch(words.rstrip("."))
            if found and _FEWEST_WORDS <= len(found["what"].split()) <= _MOST_WORDS and not _PUNCTUATED.search(found["what"]):
                maker = _DEVELOPED.search(found["what"])
                yield Definition(found["name"], found["what"], maker["who"] if maker else "", words)
            break


@dataclass(frozen=True, slots=True)
class Cell:
    """One value of a table."""

    subject: str
    subject_header: str
    header: str
    value: str
    quote: str


def cells_in(lines: Sequence[Line]) -> Iterator[Cell]:
    """The values of tables whose first column names something: rows of as many cells as the head, each first cell but once."""
    table: list[Line] = []
    for line in [*lines, None]:
        if line is not None and line.kind is BlockKind.ROW:
            table.append(line)
            continue
        yield from _table(table)
        table = []


_CELL_EDGE = re.compile(r" \| |(?<=[-:])\|(?=[-:])")
"""Between cells; in the rule below a head blanks may be missing."""


def _table(lines: Sequence[Line]) -> Iterator[Cell]:
    rows = [[cell.strip() for cell in _CELL_EDGE.split(line.text.strip("| "))] for line in lines]
    keep = [number for number, row in enumerate(rows) if not all(re.fullmatch(r":?-+:?", cell) for cell in row)]
    if not 3 <= len(keep) <= _MOST_ROWS or {len(rows[number]) for number in keep} != {len(rows[0])} or len(rows[0]) < 2:
        return
    head, body = rows[keep[0]], [(rows[number], lines[number].text) for number in keep[1:]]
    names = [row[0] for row, _ in body]
    are_names = len(set(names)) == len(names) and all(0 < len(name) <= _LONGEST_CELL and "?" not in name for name in names)
    if not are_names or not all(_HEADER.fullmatch(name) for name in head):
        return
    for row, quote in body:
        for header, value in zip(head[1:], row[1:], strict=True):
            if 0 < len(value) <= _LONGEST_CELL:
                yield Cell(row[0], head[0], header, value, quote)
