"""The very same characters: for answers in which case or punctuation matters, such as code or chemical formulas."""

import unicodedata

from sanderling.judge.judge import RuleJudge
from sanderling.judge.judges.numbers import without_number


def verbatim(answer: str, accepted: str) -> float:
    """1 when both are the same but for blanks around them and the way accents are encoded, and not empty."""
    said = unicodedata.normalize("NFC", answer).strip()
    return float(bool(said) and said == unicodedata.normalize("NFC", accepted).strip())


def verbatim_judge(number: float | None = None) -> RuleJudge:
    """Right: an accepted answer, letter by letter."""
    without_number("verbatim", number)
    return RuleJudge("verbatim", verbatim)
