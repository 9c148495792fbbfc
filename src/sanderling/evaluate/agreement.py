"""How far two judges agree over a run, and how well confidence is calibrated: with intervals over questions. Pure numpy.

Attempts at one question are judged alike more often than not, so the question is what is drawn (see `resampling`). An unscored
verdict of the first judge is never filled by the second's.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from sanderling.evaluate.resampling import FloatArray, Interval, intervals, resampled_ratios
from sanderling.judge.agreement import BINS, Agreement, Calibration, agreement, bin_of, calibration, has_known_scale

_PAIRS = ((True, True), (False, False), (True, False), (False, True))


class Pair(NamedTuple):
    """Two judges' verdicts on one attempt; None: unscored."""

    question: str
    first: bool | None
    second: bool | None


@dataclass(frozen=True)
class AgreementFigures:
    """Two judges over the same attempts."""

    counts: Agreement
    kappa: float | None
    kappa_interval: Interval | None
    """95%, percentile bootstrap over questions; None where kappa is not defined, or there is one question."""
    agreed: float | None
    agreed_interval: Interval | None
    first_average: float | None
    """Share of right ones by the first judge, over attempts that both scored; mean of the questions' means."""
    second_average: float | None
    questions: int
    """That have an attempt with both verdicts."""
    undefined_draws: float
    """Share of the resamples in which kappa is not defined, since one word was all that was said: left out of its interval."""


class Claim(NamedTuple):
    """One attempt's confidence in percent, and the verdict on it."""

    question: str
    confidence: float | None
    correct: bool | None


@dataclass(frozen=True)
class CalibrationFigures:
    """Calibration with the interval of its error."""

    calibration: Calibration
    error_interval: Interval | None
    """95%, percentile bootstrap over questions. An error is never below 0, so resamples lie above it rather than around."""


def agreement_of(pairs: Iterable[Pair], *, seed: int) -> AgreementFigures:
    """Compare two judges; the order of pairs does not matter."""
    rows = sorted(pairs, key=lambda pair: pair.question)
    counted = agreement((pair.first, pair.second) for pair in rows)
    scored = [pair for pair in rows if pair.first is not None and pair.second is not None]
    table = _table([(pair.question, _PAIRS.index((bool(pair.first), bool(pair.second)))) for pair in scored], len(_PAIRS))
    kappa_interval = agreed_interval = None
    undefined = 0.0
    if table.shape[0] > 1:
        totals = np.repeat(table.sum(axis=1, keepdims=True), len(_PAIRS), axis=1)
        shares = resampled_ratios(table, totals, seed=seed)
        kappas = _kappas(shares)
        undefined = float((~np.isfinite(kappas)).mean())
        (agreed_interval,) = intervals(shares[:, :1] + shares[:, 1:2])
        (kappa_interval,) = intervals(kappas[:, None]) if counted.kappa is not None else (None,)
    return AgreementFigures(
        counts=counted,
        kappa=counted.kappa,
        kappa_interval=kappa_interval,
        agreed=counted.agreed,
        agreed_interval=agreed_interval,
        first_average=_average(table[:, [0, 2]].sum(axis=1), table.sum(axis=1)),
        second_average=_average(table[:, [0, 3]].sum(axis=1), table.sum(axis=1)),
        questions=table.shape[0],
        undefined_draws=undefined,
    )


def calibration_of(claims: Iterable[Claim], *, seed: int, bins: int = BINS) -> CalibrationFigures:
    """Calibration of a run's scored attempts; the order of claims does not matter."""
    rows = sorted(claims, key=lambda claim: claim.question)
    found = calibration(((claim.confidence, claim.correct) for claim in rows), bins=bins)
    used = [
        (claim.question, bin_of(claim.confidence, bins), claim.confidence - 100.0 * claim.correct)
        for claim in rows
        if claim.correct is not None and claim.confidence is not None and has_known_scale(claim.confidence)
    ]
    gaps = _table([(question, at) for question, at, _ in used], bins, [gap for _, _, gap in used])
    if gaps.shape[0] < 2:
        return CalibrationFigures(found, None)
    answers = _table([(question, at) for question, at, _ in used], bins).sum(axis=1, keepdims=True)
    shares = resampled_ratios(gaps, np.repeat(answers, bins, axis=1), seed=seed)
    (interval,) = intervals(np.abs(shares).sum(axis=1, keepdims=True))
    return CalibrationFigures(found, interval)


def _table(cells: Sequence[tuple[str, int]], columns: int, values: Sequence[float] | None = None) -> FloatArray:
    """Sums per question (in their order) and column."""
    rows = {question: row for row, question in enumerate(dict.fromkeys(question for question, _ in cells))}
    table = np.zeros((len(rows), columns))
    for at, (question, column) in enumerate(cells):
        table[rows[question], column] += 1.0 if values is None else values[at]
    return table


def _kappas(shares: FloatArray) -> FloatArray:
    """Cohen's kappa of each resample; NaN where it is not defined."""
    both, neither, first_only, second_only = shares.T
    first, second = both + first_only, both + second_only
    expected = first * second + (1.0 - first) * (1.0 - second)
    room = 1.0 - expected
    return np.divide(both + neither - expected, room, out=np.full_like(room, np.nan), where=room > 1e-9)


def _average(right: FloatArray, scored: FloatArray) -> float | None:
    return float((right / scored).mean()) if scored.size else None
