"""An accepted answer somewhere in the answer: lenient, and wrong about answers that name several candidates."""

from sanderling.judge.judge import RuleJudge
from sanderling.judge.judges.numbers import without_number
from sanderling.judge.outcome import answer_tokens


def contains(answer: str, accepted: str) -> float:
    """1 when the accepted answer's normalised words stand in the answer, next to each other and in order."""
    said, wanted = answer_tokens(answer), answer_tokens(accepted)
    size = len(wanted)
    return float(size > 0 and any(said[at : at + size] == wanted for at in range(len(said) - size + 1)))


def contains_judge(number: float | None = None) -> RuleJudge:
    """Right: the answer holds an accepted answer as whole words."""
    without_number("contains", number)
    return RuleJudge("contains", contains)
