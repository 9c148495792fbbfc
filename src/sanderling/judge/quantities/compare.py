"""Whether an answer gives the number, quantity or date that an accepted answer is. Pure.

The accepted answer must be one quantity and nothing else but words like *about* and what is counted: "11" or "11 planets",
never "Apollo 11", whose name is the answer. Of an answer with several numbers, those of the right kind have to agree. An
answer that may say a number in a way that is not read (`doubt`) is not called another one.
Written places count: 3.2 million is met by 3,214,000, and 1969 by 1969 alone. A unit that one side leaves out is granted.
"""

import re
from enum import StrEnum
from fractions import Fraction

from sanderling.judge.quantities.dates import Date, dates
from sanderling.judge.quantities.doubt import is_part, is_unread, names_a_decade
from sanderling.judge.quantities.east_asian import COUNTERS
from sanderling.judge.quantities.reading import Quantity, quantities
from sanderling.judge.quantities.units import alike

_BEFORE = frozenset({
    "a", "about", "almost", "an", "approx", "approximately", "around", "at", "c", "ca", "circa", "exactly", "in", "just",
    "least", "less", "minus", "more", "most", "nearly", "negative", "of", "on", "only", "or", "over", "roughly", "some", "than",
    "the", "to", "total", "under", "up", "us", "usd", "year", "负", "負", "零下", "マイナス",
})  # fmt: skip
"""Words that may stand before a quantity that is the whole answer."""
_AFTER = re.compile(r"[a-z-]+(?: [a-z-]+)?")
_UNCERTAIN = frozenset({
    frozenset({"ton", "mass"}), frozenset({"gallon", "volume"}), frozenset({"barrel", "volume"}),
    frozenset({"horsepower", "power"}), frozenset({"years", "time"}), frozenset({"percentage points", "share"}),
})  # fmt: skip
"""Pairs of kinds between which people convert, by factors that differ."""
_CONVERTED = Fraction(1, 100)
"""Most that rounding may move a converted value."""


class Match(StrEnum):
    """What a comparison found."""

    SAME = "same"
    OTHER = "other"
    UNSURE = "unsure"
    """Rules cannot tell: the accepted answer is no quantity, the answer gives several, or the units have no fixed factor."""


def compare(answer: str, accepted: str, tolerance: float | None = None) -> Match:
    """Compare. ``tolerance``: how far apart relative to the accepted value they may be, instead of by their written places."""
    wanted_date = _only_date(accepted)
    if wanted_date is not None:
        said = dates(answer)
        if not said and re.search(r"\d", answer):
            return Match.UNSURE
        return _agreed([Match.SAME if date.agrees(wanted_date) else Match.OTHER for date in said])
    wanted = _only_quantity(accepted)
    if wanted is None:
        return Match.UNSURE
    if names_a_decade(answer) is not names_a_decade(accepted):
        return Match.UNSURE
    read = quantities(answer)
    kinds = [quantity for quantity in read if wanted.unit and quantity.unit and _same_kind(quantity, wanted)]
    found = kinds or read
    match = _agreed([_same(quantity, wanted, tolerance) for quantity in found])
    is_open = {Match.SAME: any(is_part(answer, quantity) for quantity in found), Match.OTHER: is_unread(answer, read)}
    return Match.UNSURE if is_open.get(match) else match


def _agreed(found: list[Match]) -> Match:
    """What all of them say; nothing said is not the same."""
    if not found:
        return Match.OTHER
    return found[0] if len(set(found)) == 1 else Match.UNSURE


def _only_quantity(text: str) -> Quantity | None:
    """The quantity that a text is, and nothing else."""
    found = quantities(text)
    if len(found) != 1:
        return None
    before = re.findall(r"[^\W\d_]+", text[: found[0].start].lower())
    after = text[found[0].end :].strip(" .,;:!?)(]['\"\n*" + "".join(COUNTERS))
    plain = not after or (_AFTER.fullmatch(after) is not None and after.split()[0] not in ("to", "or", "and", "x", "by"))
    return found[0] if all(word in _BEFORE for word in before) and plain else None


def _only_date(text: str) -> Date | None:
    found = dates(text)
    if len(found) != 1:
        return None
    rest = text[: found[0].start] + text[found[0].end :]
    words = re.findall(r"[^\W_]+", rest.lower())
    return found[0] if all(word in ("on", "the", "in") or word.endswith("day") for word in words) else None


def _same_kind(one: Quantity, other: Quantity) -> bool:
    if one.unit is None or other.unit is None:
        return True
    first, second = alike(one.unit, other.unit)
    kinds = frozenset({first.kind, second.kind})
    return len(kinds) == 1 or kinds in _UNCERTAIN or kinds == {"angle", "temperature"}


def _same(said: Quantity, wanted: Quantity, tolerance: float | None) -> Match:
    if said.unit is None or wanted.unit is None or {said.unit.kind, wanted.unit.kind} == {"angle", "temperature"}:
        close = _near(said.number.value, wanted.number.value, wanted.number.grain, tolerance)
        shares = any(quantity.unit is not None and quantity.unit.kind == "share" for quantity in (said, wanted))
        return _match(close or (shares and _near(said.base, wanted.base, wanted.grain, tolerance)))
    one, other = alike(said.unit, wanted.unit)
    if one.kind != other.kind:
        return Match.UNSURE if frozenset({one.kind, other.kind}) in _UNCERTAIN else Match.OTHER
    if one == other:
        return _match(_near(said.number.value, wanted.number.value, wanted.number.grain, tolerance))
    first = said.number.value * one.factor + one.offset
    second = wanted.number.value * other.factor + other.offset
    if tolerance is not None:
        return _match(_near(first, second, Fraction(0), tolerance))
    places = ((said.number.grain or 1) * one.factor + (wanted.number.grain or 1) * other.factor) / 2
    return _match(abs(first - second) <= min(places, abs(second) * _CONVERTED))


def _near(said: Fraction, wanted: Fraction, grain: Fraction, tolerance: float | None) -> bool:
    if tolerance is not None:
        return abs(said - wanted) <= abs(wanted) * Fraction(tolerance)
    return abs(said - wanted) <= grain / 2


def _match(same: bool) -> Match:
    return Match.SAME if same else Match.OTHER
