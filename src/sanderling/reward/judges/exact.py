"""Exact match after normalisation, as SQuAD has it."""

from sanderling.reward.judge import RuleJudge
from sanderling.reward.judges.numbers import without_number
from sanderling.reward.outcome import exact_match


def exact_judge(number: float | None = None) -> RuleJudge:
    """Right: one of the accepted answers, whatever case, punctuation, articles and blanks."""
    without_number("exact", number)
    return RuleJudge("exact", exact_match)
