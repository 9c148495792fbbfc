"""Figures of verdicts: grades, sets, partial scores, confidence, and how far two judges agree, with intervals over questions.

Each question weighs the same, with the mean of its attempts; with one attempt a question these are the publishers' figures.
Without an answer an attempt was *not attempted*, and found nothing of a set. What a person has judged counts as right or wrong
among grades, and is in no figure of sets, since nobody counted its parts. Where a person has settled an attempt, their verdict
is compared with the judge's before it, in neither judge's favour. Attempts at one question are judged alike more often than
not, so the question is what is drawn (see `resampling`).
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import nan
from typing import NamedTuple

import numpy as np

from sanderling.evaluate.judged import PUBLISHED, JudgedAttempt
from sanderling.evaluate.result import Agreed, Calibrated, Confidence, Estimate, Grades, Sets
from sanderling.evaluate.statistics import FloatArray, Interval, intervals, resampled_ratios
from sanderling.judge.book import Agreement, agreement
from sanderling.judge.prompts import set_scores
from sanderling.judge.verdict import Code, Grade

_SEED = 0
BINS = 10
FEW = 100  # fewer answers than this say little of calibration


class Said:
    """The scored attempts of a run with all that was said of them."""

    def __init__(self, judged: Sequence[JudgedAttempt], number: Mapping[str, int]) -> None:
        self._scored = [one for one in judged if one.correct is not None and one.question in number]
        self._at = np.array([number[one.question] for one in self._scored], dtype=np.int64)
        self._questions = len(number)
        self._has_sets = any(one.parts for one in self._scored)
        self._has_grades = not self._has_sets and any(one.grade for one in self._scored)
        self._has_scores = any(one.score is not None and 0.0 < one.score < 1.0 for one in self._scored)

    def means(self) -> dict[str, FloatArray]:
        """Values [Q], as `estimates` takes them."""
        found = (
            {"score": self._mean(nan if one.score is None else one.score for one in self._scored)} if self._has_scores else {}
        )
        if self._has_grades:
            found["attempted"] = self._mean(_attempted(one) for one in self._scored)
        if self._has_sets:
            every = np.array([_of_set(one) for one in self._scored])
            found |= {name: self._mean(column) for name, column in zip(("precision", "recall", "f1"), every.T, strict=True)}
        return found

    def ratios(self) -> dict[str, tuple[FloatArray, FloatArray]]:
        """Of grades: right ones among those attempted, and SimpleQA's F1, which is 2c / (1 + a) of the shares c and a."""
        if not self._has_grades:
            return {}
        right, tried = self._mean(bool(one.correct) for one in self._scored), self._mean(map(_attempted, self._scored))
        known = np.isfinite(right)
        right, tried = np.where(known, right, 0.0), np.where(known, tried, 0.0)
        return {"given attempted": (right, tried), "f1 of grades": (2.0 * right, np.where(known, 1.0 + tried, 0.0))}

    def grades(self, means: Mapping[str, Estimate], ratios: Mapping[str, Estimate]) -> Grades | None:
        """None where the judge's form has none, or sets."""
        if not self._has_grades:
            return None
        counts = Counter(map(_grade, self._scored))
        return Grades(
            counts=dict(sorted(counts.items())),
            attempted=means["attempted"],
            given_attempted=ratios["given attempted"],
            f1=ratios["f1 of grades"],
        )

    def sets(self, means: Mapping[str, Estimate]) -> Sets | None:
        """None where no answer is a set."""
        if not self._has_sets:
            return None
        counts = Counter(map(_grade, self._scored))
        return Sets(counts=dict(sorted(counts.items())), precision=means["precision"], recall=means["recall"], f1=means["f1"])

    def confidence(self) -> Confidence | None:
        """None where no answer claims any."""
        if all(one.confidence is None for one in self._scored):
            return None
        found = calibration_of((Claim(one.question, one.confidence, one.correct) for one in self._scored), seed=_SEED)
        told = found.calibration
        bins = [
            Calibrated(low=b.low, high=b.high, answers=b.answers, confidence=b.confidence, right=b.right) for b in told.bins
        ]
        return Confidence(
            bins=tuple(bins),
            answers=told.answers,
            left_out=told.left_out,
            error=told.error,
            error_interval=found.error_interval,
        )

    def _mean(self, values: Iterable[float]) -> FloatArray:
        """Mean of each question's attempts, [Q]; NaN without any, and an attempt's NaN is left out."""
        each = np.fromiter(values, np.float64, len(self._scored))
        known = np.isfinite(each)
        count = np.bincount(self._at, weights=known, minlength=self._questions)
        total = np.bincount(self._at, weights=np.where(known, each, 0.0), minlength=self._questions)
        return np.divide(total, count, out=np.full(self._questions, nan), where=count > 0)


def agreed(judged: Sequence[JudgedAttempt], judge: str, second: str) -> tuple[Agreed, ...]:
    """The judge compared with the second one and with a person, where they spoke."""
    found = []
    for one in comparisons(judged, judge, second):
        figures, counts = one.figures, one.figures.counts
        found.append(
            Agreed(
                first=one.first, second=one.second, both=counts.both, neither=counts.neither, first_only=counts.first_only,
                second_only=counts.second_only, first_unscored=counts.first_unscored, second_unscored=counts.second_unscored,
                kappa=figures.kappa, kappa_interval=figures.kappa_interval, agreed=figures.agreed,
                agreed_interval=figures.agreed_interval, first_average=figures.first_average,
                second_average=figures.second_average, questions=figures.questions,
            )
        )  # fmt: skip
    return tuple(found)


def _grade(one: JudgedAttempt) -> str:
    if one.grade:
        return one.grade
    if one.code is Code.NO_ANSWER:
        return Grade.NOT_ATTEMPTED
    return Grade.CORRECT if one.correct else Grade.INCORRECT


def _attempted(one: JudgedAttempt) -> bool:
    return _grade(one) != Grade.NOT_ATTEMPTED


def _of_set(one: JudgedAttempt) -> tuple[float, float, float]:
    """Precision, recall and F1 of one answer; all 0 where there is no answer, unknown where a person judged it."""
    if not one.parts:
        return (0.0, 0.0, 0.0) if one.code is Code.NO_ANSWER else (nan, nan, nan)
    return set_scores(one.parts, one.excessive)


# Two judges -----------------------------------------------------------------------------------------------------------


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
class Bin:
    """Answers that claim about the same confidence, all in percent: from ``low`` to below ``high``, the last one with 100."""

    low: float
    high: float
    answers: int
    confidence: float | None  # mean; None without answers
    right: float | None  # share of right ones


@dataclass(frozen=True)
class Calibration:
    """What a run's confidence is worth: answers in bins of equal width by the confidence that they claim (Guo et al. 2017)."""

    bins: tuple[Bin, ...]
    answers: int
    left_out: int  # scored answers that claim no confidence, or one on an unknown scale
    error: float | None  # expected calibration error, in points of percent; None without answers


def calibration(answers: Iterable[tuple[float | None, bool | None]], *, bins: int = BINS) -> Calibration:
    """From pairs of confidence (percent) and verdict; unscored ones do not count. Raises ValueError for less than one bin."""
    if bins < 1:
        raise ValueError(f"{bins} bins")
    held: list[list[tuple[float, bool]]] = [[] for _ in range(bins)]
    left_out = 0
    for confidence, correct in answers:
        if correct is None:
            continue
        if confidence is None or not has_known_scale(confidence):
            left_out += 1
        else:
            held[bin_of(confidence, bins)].append((confidence, correct))
    made: list[Bin] = []
    total, gaps = sum(map(len, held)), list[float]()
    for at, found in enumerate(held):
        sure = right = None
        if found:
            sure = sum(confidence for confidence, _ in found) / len(found)
            right = 100.0 * sum(correct for _, correct in found) / len(found)
            gaps.append(len(found) * abs(sure - right))
        made.append(Bin(100.0 * at / bins, 100.0 * (at + 1) / bins, len(found), sure, right))
    return Calibration(tuple(made), total, left_out, sum(gaps) / total if total else None)


def has_known_scale(confidence: float) -> bool:
    """Whether it is a percentage for certain: what is above 0 and at most 1 may as well be a share."""
    return confidence == 0.0 or 1.0 < confidence <= 100.0


def bin_of(confidence: float, bins: int = BINS) -> int:
    """The bin's number."""
    return min(int(confidence * bins / 100.0), bins - 1)


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


@dataclass(frozen=True)
class Comparison:
    """Two who judged the same attempts."""

    first: str
    second: str
    figures: AgreementFigures
    differing: tuple[JudgedAttempt, ...]


def comparisons(judged: Sequence[JudgedAttempt], judge: str, second: str) -> list[Comparison]:
    """The judge and the second judge, those who made the attempts, a person; those of them that both spoke."""
    found: list[Comparison] = []
    if second:
        found.append(_comparison(judge, second, [(one, _word(one), one.second) for one in judged]))
    if any(one.published is not None for one in judged):
        found.append(_comparison(judge, PUBLISHED, [(one, _word(one), one.published) for one in judged]))
    if by_hand := [one for one in judged if one.code is Code.BY_HAND and one.overruled is not None]:
        found.append(
            _comparison(judge, "a person, on what they settled", [(one, one.overruled, one.correct) for one in by_hand])
        )
    return found


def _word(one: JudgedAttempt) -> bool | None:
    """The judge's own."""
    return one.overruled if one.code is Code.BY_HAND else one.correct


def _comparison(first: str, second: str, said: Sequence[tuple[JudgedAttempt, bool | None, bool | None]]) -> Comparison:
    figures = agreement_of((Pair(one.question, a, b) for one, a, b in said), seed=_SEED)
    return Comparison(first, second, figures, tuple(one for one, a, b in said if None not in (a, b) and a is not b))
