"""Outcomes: how right the agent's own answer is, by rule. Pure functions of two texts, and their literal table.

Normalisation follows SQuAD (lower case, no punctuation, no English articles, white space collapsed; Rajpurkar et al. 2016),
after Unicode's NFKC and case folding. Chinese, Japanese and Korean script is compared character by character, since it has no
spaces. Unlike in SQuAD, what makes another answer is kept: symbols such as ``+`` or ``$`` and the ``#`` of C#, a sign before a
number, a point within it; other punctuation between two numbers divides them. So C++ is not C, -5 not 5, 1.5 not 15, and 3/4
not 34. Left out is ``%``: whoever asks for a share knows that it is one. Knows no model, no tool and no record's insides but
the answer and the ending.
"""

import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Sequence

from sanderling.core.errors import UserError
from sanderling.core.record import Trajectory
from sanderling.core.text import MINUS, WIDE, folded

Outcome = Callable[[str, str], float]
"""``(answer, accepted) -> score in [0, 1]``."""

_ARTICLES = frozenset({"a", "an", "the"})
_WIDE = re.compile(f"[{WIDE}]")
_TELLING = re.compile(rf"(?<=\d)\.(?=\d)|(?<=\d)[/*](?={MINUS}?\d)|(?<=[^\W\d_])#+(?!\w)|[\u2030\u2031]")
"""Punctuation that tells answers apart."""
_DIVIDING = re.compile(rf"(?<=\d)[^\w\s.](?={MINUS}?\d)")


def answer_tokens(text: str) -> list[str]:
    """Normalised words, wide characters one by one.

    Example: ``answer_tokens("The 京都 Tower!") == ["京", "都", "tower"]``
    """
    plain = folded(text)
    telling = {place for found in _TELLING.finditer(plain) for place in range(*found.span())}
    dividing = {found.start() for found in _DIVIDING.finditer(plain)}
    plain = "".join(
        char if at in telling or not unicodedata.category(char).startswith("P") else " " if at in dividing else ""
        for at, char in enumerate(plain)
    )
    words = _WIDE.sub(r" \g<0> ", plain).split()
    # An answer that is nothing but an article ("The The") still is an answer.
    return [word for word in words if word not in _ARTICLES] or words


def exact_match(answer: str, accepted: str) -> float:
    """1 when both are the same after normalisation, and not empty."""
    tokens = answer_tokens(answer)
    return float(bool(tokens) and tokens == answer_tokens(accepted))


def token_f1(answer: str, accepted: str) -> float:
    """Harmonic mean of precision and recall over the normalised tokens, as bags."""
    got, wanted = Counter(answer_tokens(answer)), Counter(answer_tokens(accepted))
    common = (got & wanted).total()
    return 2.0 * common / (got.total() + wanted.total()) if common else 0.0


OUTCOMES: dict[str, Outcome] = {"exact": exact_match, "f1": token_f1}


def best_outcome(answer: str, accepted: Sequence[str], outcome: Outcome) -> float:
    """The best score over all accepted answers."""
    return max(outcome(answer, one) for one in accepted)


def score_trajectory(trajectory: Trajectory, outcome: Outcome) -> float | None:
    """The trajectory's outcome: of its own answer, 0 without one; None where it may not be scored.

    Unscored are outages and cancellation, and imports that tell neither an ending nor an answer. Raises UserError for a
    question without accepted answers.
    """
    if not trajectory.question.answers:
        raise UserError(f"Question {trajectory.question.id!r} has no accepted answer: add one, or leave the question out.")
    if trajectory.ending is None and trajectory.answer is None:
        return None
    if trajectory.ending is not None and not trajectory.ending.scored:
        return None
    return 0.0 if trajectory.answer is None else best_outcome(trajectory.answer, trajectory.question.answers, outcome)
