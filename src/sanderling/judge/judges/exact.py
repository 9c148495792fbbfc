"""Exact match after normalisation, as SQuAD has it."""

from sanderling.judge.judge import RuleJudge
from sanderling.judge.judges.numbers import without_number
from sanderling.judge.outcome import exact_match


def exact_judge(number: float | None = None) -> RuleJudge:
    """Right: one of the accepted answers, whatever case, punctuation, articles and blanks."""
    without_number("exact", number)
    return RuleJudge("exact", exact_match)
