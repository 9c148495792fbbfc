"""Exact match and F1 as the question-answering benchmarks publish them, so that figures compare with theirs.

Normalisation is SQuAD's to the letter: lower case, ASCII punctuation and English articles away, blanks collapsed (Rajpurkar et
al. 2016). It knows less than `reward.outcome`: to it 1.5 is 15 and C++ is C. F1 has HotpotQA's rule (Yang et al. 2018): where
one side is yes, no or noanswer, another answer shares nothing with it. Where nothing is left of an accepted answer ("The
The") the texts are compared in lower case. Chinese has no blanks: a phrase is one word here.
"""

import re
import string
from collections import Counter

from sanderling.judge.judge import RuleJudge
from sanderling.judge.judges.numbers import without_number

_ARTICLE = re.compile(r"\b(?:a|an|the)\b")
_PUNCTUATION = str.maketrans("", "", string.punctuation)
_CLOSED = frozenset({"yes", "no", "noanswer"})
_THRESHOLD = 0.8


def squad_words(text: str) -> list[str]:
    """Normalised words.

    Example: ``squad_words("The U.S. Navy") == ["us", "navy"]``
    """
    return _ARTICLE.sub(" ", text.lower().translate(_PUNCTUATION)).split()


def squad_match(answer: str, accepted: str) -> float:
    """1 when both are the same after normalisation."""
    wanted = squad_words(accepted)
    return float(squad_words(answer) == wanted if wanted else _lower(answer) == _lower(accepted))


def squad_overlap(answer: str, accepted: str) -> float:
    """F1 over bags of words; 0 where one side is a closed answer and the other another."""
    given, wanted = squad_words(answer), squad_words(accepted)
    if not wanted:
        return float(_lower(answer) == _lower(accepted))
    if given != wanted and not _CLOSED.isdisjoint((" ".join(given), " ".join(wanted))):
        return 0.0
    common = (Counter(given) & Counter(wanted)).total()
    return 2.0 * common / (len(given) + len(wanted)) if common else 0.0


def squad_em_judge(number: float | None = None) -> RuleJudge:
    """Right: an accepted answer, by SQuAD's exact match."""
    without_number("squad_em", number)
    return RuleJudge("squad_em", squad_match)


def squad_f1_judge(number: float | None = None) -> RuleJudge:
    """The score is the published F1 with the best accepted answer; right is one of at least the number, 0.8 without one."""
    threshold = _THRESHOLD if number is None else number
    return RuleJudge(f"squad_f1:{threshold:g}", squad_overlap, threshold)


def _lower(text: str) -> str:
    return " ".join(text.lower().split())
