"""GAIA's own rule: the accepted answer decides whether a number, a list or a text is compared.

After the leaderboard's scorer, its peculiarities included: an accepted "1,000" is a list of two numbers, a list keeps its
order, texts lose all blanks and punctuation (1.5 and 15 are then one text, though not one number). Where the scorer would
count nonsense as right it is not followed: only finite numbers are numbers (its reading of anything unreadable is infinity),
and a text of punctuation alone is compared as it stands. Example: ``gaia_match("$1,234", "1234") == 1.0``
"""

import math
import re
import string

from sanderling.judge.judge import RuleJudge
from sanderling.judge.judges.numbers import without_number

_NUMBER_MARKS = str.maketrans("", "", "$%,")
_PUNCTUATION = str.maketrans("", "", string.punctuation)
_DIVIDER = re.compile("[,;]")


def gaia_match(answer: str, accepted: str) -> float:
    """1 where the publisher's rule says that the answer is right."""
    if _number(accepted) is not None:
        return float(_same_number(answer, accepted))
    if not _DIVIDER.search(accepted):
        return float(_same_text(answer, accepted))
    given, wanted = _DIVIDER.split(answer), _DIVIDER.split(accepted)
    return float(len(given) == len(wanted) and all(map(_same_element, given, wanted)))


def gaia_judge(number: float | None = None) -> RuleJudge:
    """Right: what GAIA's leaderboard counts as right."""
    without_number("gaia", number)
    return RuleJudge("gaia", gaia_match)


def _same_element(answer: str, accepted: str) -> bool:
    return _same_number(answer, accepted) if _number(accepted) is not None else _squeezed(answer) == _squeezed(accepted)


def _same_number(answer: str, accepted: str) -> bool:
    return _number(answer.translate(_NUMBER_MARKS)) == _number(accepted)


def _same_text(answer: str, accepted: str) -> bool:
    given, wanted = _squeezed(answer).translate(_PUNCTUATION), _squeezed(accepted).translate(_PUNCTUATION)
    return given == wanted if wanted else _squeezed(answer) == _squeezed(accepted)


def _squeezed(text: str) -> str:
    return "".join(text.split()).lower()


def _number(text: str) -> float | None:
    try:
        found = float(text)
    except ValueError:
        return None
    return found if math.isfinite(found) else None
