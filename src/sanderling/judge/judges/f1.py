"""Overlap of words with a threshold."""

from sanderling.judge.judge import RuleJudge
from sanderling.judge.outcome import token_f1

_THRESHOLD = 0.8


def f1_judge(number: float | None = None) -> RuleJudge:
    """Right: F1 of the normalised words with the best accepted answer is at least the number, 0.8 without one."""
    threshold = _THRESHOLD if number is None else number
    return RuleJudge(f"f1:{threshold:g}", token_f1, threshold)
