"""How far two judges of the same attempts agree, and how well answers know whether they are right.

Where a person has settled an attempt, their verdict is compared with the judge's before it, in neither judge's favour.
"""

from collections.abc import Iterable, Sequence
from math import nan
from typing import NamedTuple

import numpy as np

from sanderling.evaluate.episodes import PUBLISHED, JudgedAttempt
from sanderling.evaluate.result import Agreed, Calibrated, Confidence
from sanderling.evaluate.statistics import FloatArray, intervals, resampled_ratios
from sanderling.judge.book import agreement
from sanderling.judge.verdict import Code

_SEED = 0


def calibration(answers: Iterable[tuple[float | None, bool | None]], *, bins: int = 10) -> Confidence:
    """What answers claim in percent against how many are right, in bins of equal width by the claim (Guo et al. 2017).

    Pairs of claim and verdict; unscored ones do not count. A claim above 0 and up to 1 may as well be a share: left out.
    """
    held: list[list[tuple[float, bool]]] = [[] for _ in range(bins)]
    left_out = 0
    for claim, correct in answers:
        if correct is None:
            continue
        if claim is None or not (claim == 0.0 or 1.0 < claim <= 100.0):
            left_out += 1
        else:
            held[min(int(claim * bins / 100.0), bins - 1)].append((claim, correct))
    made, gaps, total = list[Calibrated](), 0.0, sum(map(len, held))
    for at, found in enumerate(held):
        sure = right = None
        if found:
            sure, right = (sum(column) / len(found) for column in zip(*found, strict=True))
            right *= 100.0
            gaps += len(found) * abs(sure - right)
        low, high = 100.0 * at / bins, 100.0 * (at + 1) / bins
        made.append(Calibrated(low=low, high=high, answers=len(found), confidence=sure, right=right))
    return Confidence(bins=tuple(made), answers=total, left_out=left_out, error=gaps / total if total else None)


class Comparison(NamedTuple):
    """Two judges of the same attempts, and the attempts that they differ on."""

    figures: Agreed
    differing: tuple[JudgedAttempt, ...]


def comparisons(judged: Sequence[JudgedAttempt], judge: str, second: str) -> list[Comparison]:
    """The judge with the second one, with those who made the attempts, and with a person; those of them that both spoke."""
    found: list[Comparison] = []
    if second:
        found.append(_compared(judge, second, [(one, one.by_judge, one.second) for one in judged]))
    if any(one.published is not None for one in judged):
        found.append(_compared(judge, PUBLISHED, [(one, one.by_judge, one.published) for one in judged]))
    if settled := [one for one in judged if one.code is Code.BY_HAND and one.overruled is not None]:
        verdicts = [(one, one.overruled, one.correct) for one in settled]
        found.append(_compared(judge, "a person, on what they settled", verdicts))
    return found


def _compared(first: str, second: str, verdicts: Sequence[tuple[JudgedAttempt, bool | None, bool | None]]) -> Comparison:
    figures = agreement_of([(one.question, a, b) for one, a, b in verdicts], first, second)
    return Comparison(figures, tuple(one for one, a, b in verdicts if None not in (a, b) and a is not b))


def agreement_of(pairs: Iterable[tuple[str, bool | None, bool | None]], first: str = "", second: str = "") -> Agreed:
    """Compare two judges by their verdicts on attempts at questions, None being unscored; the order does not matter.

    Resamples in which kappa is not defined, since one verdict was all that was given, are left out of its interval.
    """
    rows = sorted(pairs, key=lambda pair: pair[0])
    counted = agreement((a, b) for _, a, b in rows)
    places = {question: place for place, question in enumerate(dict.fromkeys(q for q, a, b in rows if None not in (a, b)))}
    table = np.zeros((len(places), 4))  # of each question: both right, both wrong, the first alone, the second alone
    for question, a, b in rows:
        if None not in (a, b):
            table[places[question], (0 if a else 1) if a == b else (2 if a else 3)] += 1.0
    totals = table.sum(axis=1, keepdims=True)
    kappa_interval = agreed_interval = None
    if len(places) > 1:
        shares = resampled_ratios(table, np.repeat(totals, 4, axis=1), seed=_SEED)
        (agreed_interval,) = intervals(shares[:, :1] + shares[:, 1:2])
        if counted.kappa is not None:
            (kappa_interval,) = intervals(_kappas(shares)[:, None])
    means = (table / totals).mean(axis=0) if len(places) else None
    return Agreed(
        first=first,
        second=second,
        both=counted.both,
        neither=counted.neither,
        first_only=counted.first_only,
        second_only=counted.second_only,
        first_unscored=counted.first_unscored,
        second_unscored=counted.second_unscored,
        kappa=counted.kappa,
        kappa_interval=kappa_interval,
        agreed=counted.agreed,
        agreed_interval=agreed_interval,
        first_average=None if means is None else float(means[0] + means[2]),
        second_average=None if means is None else float(means[0] + means[3]),
        questions=len(places),
    )


def _kappas(shares: FloatArray) -> FloatArray:
    """Cohen's kappa of each resample; NaN where it is not defined."""
    both, neither, first_only, second_only = shares.T
    first, second = both + first_only, both + second_only
    expected = first * second + (1.0 - first) * (1.0 - second)
    room = 1.0 - expected
    return np.divide(both + neither - expected, room, out=np.full_like(room, nan), where=room > 1e-9)
