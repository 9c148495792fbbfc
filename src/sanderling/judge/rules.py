"""Judges that go by rule: deterministic and free.

A rule is named as ``exact``, ``contains``, ``f1:0.8``, ``numeric``, ``verbatim``, ``gaia``, ``squad_em``, ``squad_f1``, or as
``file.py:name`` and ``package.module:name``: a function of two texts that gives a score, or a judge (`verdict.Judge`).

Normalisation follows SQuAD (lower case, no punctuation, no English articles, white space collapsed; Rajpurkar et al. 2016),
after Unicode's NFKC and case folding; Chinese, Japanese and Korean script is compared character by character. Unlike in SQuAD,
what makes another answer is kept: C++ is not C, -5 not 5, 1.5 not 15, 3/4 not 34. Left out is ``%``: whoever asks for a share
knows that it is one.
"""

import inspect
import math
import re
import string
import unicodedata
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import cast

from sanderling.core.errors import UserError
from sanderling.core.plugins import is_outside, load_outside, takes
from sanderling.core.record import Trajectory
from sanderling.core.text import MINUS, WIDE, folded
from sanderling.judge.verdict import Code, Judge, Verdict, decided, unscored

Outcome = Callable[[str, str], float]  # of an answer and an accepted one: a score in [0, 1]

_ARTICLES = frozenset({"a", "an", "the"})
_WIDE = re.compile(f"[{WIDE}]")
_KEPT = re.compile(rf"(?<=\d)\.(?=\d)|(?<=\d)[/*](?={MINUS}?\d)|(?<=[^\W\d_])#+(?!\w)|[\u2030\u2031]")
"""Punctuation that tells answers apart."""
_DIVIDING = re.compile(rf"(?<=\d)[^\w\s.](?={MINUS}?\d)")


def answer_tokens(text: str) -> list[str]:
    """Normalised words, wide characters one by one: ``The 京都 Tower!`` is 京, 都 and tower."""
    plain = folded(text)
    kept = {place for found in _KEPT.finditer(plain) for place in range(*found.span())}
    dividing = {found.start() for found in _DIVIDING.finditer(plain)}
    plain = "".join(
        char if at in kept or not unicodedata.category(char).startswith("P") else " " if at in dividing else ""
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
    return _overlap(answer_tokens(answer), answer_tokens(accepted))


def contains(answer: str, accepted: str) -> float:
    """1 when the accepted answer's words stand in the answer, in order; wrong about answers that name several candidates."""
    given, wanted = answer_tokens(answer), answer_tokens(accepted)
    size = len(wanted)
    return float(size > 0 and any(given[at : at + size] == wanted for at in range(len(given) - size + 1)))


def verbatim(answer: str, accepted: str) -> float:
    """1 when both are the same but for blanks around them and the way accents are encoded, and not empty."""
    given = unicodedata.normalize("NFC", answer).strip()
    return float(bool(given) and given == unicodedata.normalize("NFC", accepted).strip())


def _overlap(given: Sequence[str], wanted: Sequence[str]) -> float:
    common = (Counter(given) & Counter(wanted)).total()
    return 2.0 * common / (len(given) + len(wanted)) if common else 0.0


_ARTICLE = re.compile(r"\b(?:a|an|the)\b")
_PUNCTUATION = str.maketrans("", "", string.punctuation)
_CLOSED = frozenset({"yes", "no", "noanswer"})
_NUMBER_MARKS = str.maketrans("", "", "$%,")
_DIVIDER = re.compile("[,;]")


def squad_words(text: str) -> list[str]:
    """Words normalised as SQuAD does, to the letter: to it 1.5 is 15 and C++ is C, and a Chinese phrase is one word."""
    return _ARTICLE.sub(" ", text.lower().translate(_PUNCTUATION)).split()


def squad_match(answer: str, accepted: str) -> float:
    """SQuAD's exact match. Where nothing is left of an accepted answer ("The The"), texts are compared in lower case."""
    wanted = squad_words(accepted)
    return float(squad_words(answer) == wanted if wanted else answer.lower().split() == accepted.lower().split())


def squad_overlap(answer: str, accepted: str) -> float:
    """SQuAD's F1 with HotpotQA's rule (Yang et al. 2018): a closed answer (yes, no, noanswer) shares nothing with another."""
    given, wanted = squad_words(answer), squad_words(accepted)
    if not wanted:
        return squad_match(answer, accepted)
    if given != wanted and not _CLOSED.isdisjoint((" ".join(given), " ".join(wanted))):
        return 0.0
    return _overlap(given, wanted)


def gaia_match(answer: str, accepted: str) -> float:
    """1 where GAIA's leaderboard counts an answer as right; the accepted one decides if numbers, lists or texts are compared.

    Its peculiarities included: an accepted "1,000" is a list, a list keeps its order, texts lose all blanks and punctuation.
    Unlike there, only finite numbers are numbers, and a text of punctuation alone is compared as it stands.
    """
    given, wanted = [answer], [accepted]
    if _gaia_number(accepted) is None:
        if _DIVIDER.search(accepted):
            given, wanted = _DIVIDER.split(answer), _DIVIDER.split(accepted)
        elif plain := _squeezed(accepted).translate(_PUNCTUATION):
            return float(_squeezed(answer).translate(_PUNCTUATION) == plain)
    if len(given) != len(wanted):
        return 0.0
    for one, other in zip(given, wanted, strict=True):
        number = _gaia_number(other)
        read = _squeezed(one) if number is None else _gaia_number(one.translate(_NUMBER_MARKS))
        if read != (_squeezed(other) if number is None else number):
            return 0.0
    return 1.0


def _squeezed(text: str) -> str:
    return "".join(text.split()).lower()


def _gaia_number(text: str) -> float | None:
    try:
        found = float(text)
    except ValueError:
        return None
    return found if math.isfinite(found) else None


_ROUNDING = 1e-6  # cosines of equal texts may be so much above 1
OUTCOMES: dict[str, Outcome] = {"exact": exact_match, "f1": token_f1}  # scores that a reward may be


def score_trajectory(trajectory: Trajectory, outcome: Outcome) -> float | None:
    """The outcome of the trajectory's own answer, with the best accepted one; 0 without an answer, None if unscored.

    Raises UserError for a question without accepted answers.
    """
    accepted = trajectory.question.answers
    if not accepted:
        raise UserError(f"Question {trajectory.question.id!r} has no accepted answer: add one, or leave the question out.")
    if trajectory.answer is None if trajectory.ending is None else not trajectory.ending.scored:
        return None
    return 0.0 if trajectory.answer is None else max(_score(outcome, trajectory.answer, one) for one in accepted)


def _score(outcome: Outcome, answer: str, accepted: str) -> float:
    """A score in [0, 1], or True or False for its ends. Raises UserError: what is no score would count as wrong, or right."""
    found: object = outcome(answer, accepted)
    try:
        score = math.nan if isinstance(found, str) else float(found)  # pyright: ignore[reportArgumentType]
    except (TypeError, ValueError, OverflowError):
        score = math.nan
    if not -_ROUNDING <= score <= 1.0 + _ROUNDING:
        given = f"{found:g}" if isinstance(found, float) else type(found).__name__  # no text: it may be private
        raise UserError(f"{getattr(outcome, '__name__', 'The rule')} gave {given}: a score is a number from 0 to 1.")
    return min(max(score, 0.0), 1.0)


@dataclass(frozen=True)
class RuleJudge:
    """Judges by the score of two texts, such as ``RuleJudge("exact", exact_match)``."""

    name: str
    outcome: Outcome
    threshold: float = 1.0  # least score that counts as correct
    places: tuple[str, ...] = field(default=(), init=False)

    async def __call__(self, trajectory: Trajectory) -> Verdict:
        """By the best of the accepted answers. Raises UserError for a question without any."""
        score = score_trajectory(trajectory, self.outcome)
        if score is None:
            return unscored(Code.NOT_ENDED, "there is no answer to judge")
        return decided(score >= self.threshold, f"{self.name} score {score:.2f}", score=score)


RULES: dict[str, Outcome | None] = {
    "contains": contains,
    "exact": exact_match,
    "f1": token_f1,
    "numeric": None,  # a judge of its own
    "verbatim": verbatim,
    "gaia": gaia_match,
    "squad_em": squad_match,
    "squad_f1": squad_overlap,
}
_GRADED = ("f1", "squad_f1")  # their number is the least score that is right


def rule_judge(spec: str, models: str = "http://host:port/v1#model, or a model's directory with a slash") -> Judge:
    """The judge of a specification such as ``f1:0.8`` or ``mine.py:lenient``. Raises UserError, with ``models`` as a hint."""
    name, colon, text = spec.partition(":")
    if name not in RULES:
        if is_outside(spec):
            return _outside(spec)
        near = get_close_matches(name, RULES, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"choose one of {', '.join(RULES)}, {models}."
        raise UserError(f"There is no judge {name!r}: {hint}")
    try:
        number = float(text) if colon else None
    except ValueError:
        number = math.nan
    if number is not None and not 0.0 <= number <= 1.0:
        raise UserError(f"The number of the judge {spec!r} is not between 0 and 1: write for example f1:0.8.")
    outcome = RULES[name]
    if outcome is None:  # `numeric`
        from sanderling.judge.numeric import NumericJudge

        return NumericJudge(number)
    if name in _GRADED:
        threshold = 0.8 if number is None else number
        return RuleJudge(f"{name}:{threshold:g}", outcome, threshold)
    if number is not None:
        raise UserError(f"The judge {name!r} takes no number: leave :{number:g} out.")
    return RuleJudge("exact" if name == "normalised" else name, outcome)


def _outside(spec: str) -> Judge:
    """A judge from outside: one as it is, a class without arguments made, a function of two texts as a rule."""
    found = load_outside(spec)
    if inspect.isfunction(found):
        takes(spec, found, "answer", "accepted")
        return RuleJudge(spec, found)
    judge = found() if inspect.isclass(found) else found
    if not all(hasattr(judge, name) for name in ("__call__", "name", "places")):
        wanted = "a function of an answer and an accepted one, or a judge with name and places"
        raise UserError(f"{spec} is no judge: give {wanted}.")
    return cast(Judge, judge)
