"""How far two judges of the same attempts agree.

Where a person has settled an attempt, their verdict is compared with the judge's before it, in neither judge's favour.
"""

from collections.abc import Sequence
from dataclasses import asdict
from typing import NamedTuple

from sanderling.evaluate.episodes import JudgedAttempt
from sanderling.evaluate.result import Agreed
from sanderling.judge.book import agreement
from sanderling.judge.verdict import Code

Verdicts = Sequence[tuple[JudgedAttempt, bool | None, bool | None]]


class Comparison(NamedTuple):
    """Two judges of the same attempts, and the attempts that they differ on."""

    figures: Agreed
    differing: tuple[JudgedAttempt, ...]


def comparisons(judged: Sequence[JudgedAttempt], judge: str, second: str) -> list[Comparison]:
    """The judge with the second one, and with a person; those of them that both spoke."""
    found = [_compared(judge, second, [(one, one.by_judge, one.second) for one in judged])] if second else []
    if settled := [one for one in judged if one.code is Code.BY_HAND and one.overruled is not None]:
        verdicts = [(one, one.overruled, one.correct) for one in settled]
        found.append(_compared(judge, "a person, on what they settled", verdicts))
    return found


def _compared(first: str, second: str, verdicts: Verdicts) -> Comparison:
    counts = asdict(agreement((a, b) for _, a, b in verdicts))
    del counts["scored"]
    both = [(one, a, b) for one, a, b in verdicts if None not in (a, b)]
    figures = Agreed(first=first, second=second, questions=len({one.question for one, _, _ in both}), **counts)
    return Comparison(figures, tuple(one for one, a, b in both if a is not b))
