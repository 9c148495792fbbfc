"""Dates in a text, by English month names or as numbers whose order is certain (1969-07-20, 20.7.1969, 1969年7月20日). Pure.

A date says a day, a month or a year. A bare year is a number, not a date; 3/4/1969 may be two days, and is none.
"""

import datetime
import re
from dataclasses import dataclass

_MONTHS = (
    *("january", "february", "march", "april", "may", "june"),
    *("july", "august", "september", "october", "november", "december"),
)
_NAMES = "|".join(sorted({*_MONTHS, *(name[:3] for name in _MONTHS), "sept"}, key=len, reverse=True))
_YEAR = r"(?P<year>[12]\d{3})(?!\d)"
_DAY = r"(?P<day>\d{1,2})(?:st|nd|rd|th)?"
_FORMS = [
    re.compile(rf"(?<![\w.,/-])(?:{form})", re.IGNORECASE)
    for form in (
        r"(?P<year>[12]\d{3})-(?P<number>\d{1,2})-(?P<day>\d{1,2})(?![\d-])",
        r"(?P<year>[12]\d{3})/(?P<number>\d{1,2})/(?P<day>\d{1,2})(?![\d/])",
        r"(?P<year>[12]\d{3})\s?年\s?(?P<number>\d{1,2})\s?月(?:\s?(?P<day>\d{1,2})\s?[日号])?",
        rf"(?P<day>\d{{1,2}})\.\s?(?P<number>\d{{1,2}})\.\s?{_YEAR}",
        rf"{_DAY}(?:\s+of)?[\s-]+(?P<month>{_NAMES})\b\.?,?[\s-]+{_YEAR}",
        rf"(?P<month>{_NAMES})\b\.?\s+{_DAY},?\s+{_YEAR}",
        rf"(?P<month>{_NAMES})\b\.?,?\s+(?:of\s+)?{_YEAR}",
    )
]


@dataclass(frozen=True, slots=True)
class Date:
    """A year, its month, and the day of it where one is said."""

    year: int
    month: int
    day: int | None
    start: int
    end: int

    def agrees(self, other: "Date") -> bool:
        """Whether this says at least what the other one says, and the same."""
        return (self.year, self.month) == (other.year, other.month) and other.day in (None, self.day)


def dates(text: str) -> list[Date]:
    """The dates of a text, in order."""
    found: list[Date] = []
    for form in _FORMS:
        for match in form.finditer(text[:2_000]):
            date = _date(match)
            if date is not None and not any(one.start < date.end and date.start < one.end for one in found):
                found.append(date)
    return sorted(found, key=lambda date: date.start)


def _date(match: re.Match[str]) -> Date | None:
    said = match.groupdict()
    name = said.get("month")
    month = (
        int(said["number"]) if name is None else 1 + next(at for at, one in enumerate(_MONTHS) if one[:3] == name[:3].lower())
    )
    day = None if said.get("day") is None else int(said["day"])
    try:
        datetime.date(int(said["year"]), month, day or 1)
    except ValueError:
        return None
    return None if day == 0 else Date(int(said["year"]), month, day, match.start(), match.end())
