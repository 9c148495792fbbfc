"""Beyond right and wrong: grades, sets, partial scores, confidence, and how far two judges agree.

Each question weighs the same, with the mean of its attempts; with one attempt a question these are the publishers' figures.
Without an answer an attempt was *not attempted*, and found nothing of a set. What a person has judged counts as right or wrong
among grades, and is in no figure of sets, since nobody counted its parts. Where a person has settled an attempt, their verdict
is compared with the judge's before it, in neither judge's favour.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from math import nan
from typing import NamedTuple

import numpy as np

from sanderling.evaluate.episodes import PUBLISHED, JudgedAttempt
from sanderling.evaluate.result import Agreed, Calibrated, Confidence, Estimate, Grades, Sets
from sanderling.evaluate.statistics import FloatArray, intervals, resampled_ratios
from sanderling.judge.book import agreement
from sanderling.judge.prompts import set_scores
from sanderling.judge.verdict import Code, Grade

_SEED = 0
BINS = 10
FEW = 100
"""Fewer answers than this say little of calibration."""


class Verdicts:
    """The scored attempts of a run with all that was said of them."""

    def __init__(self, judged: Sequence[JudgedAttempt], number: Mapping[str, int]) -> None:
        self._scored = [one for one in judged if one.correct is not None and one.question in number]
        self._at = np.array([number[one.question] for one in self._scored], dtype=np.int64)
        self._questions = len(number)
        self._has_sets = any(one.parts for one in self._scored)
        self._has_grades = not self._has_sets and any(one.grade for one in self._scored)
        self._counts = dict(sorted(Counter(map(_grade, self._scored)).items()))

    def means(self) -> dict[str, FloatArray]:
        """Values [Q], as `figures.Estimates` takes them."""
        found: dict[str, FloatArray] = {}
        if any(one.score is not None and 0.0 < one.score < 1.0 for one in self._scored):
            found["score"] = self._mean(nan if one.score is None else one.score for one in self._scored)
        if self._has_grades:
            found["attempted"] = self._mean(_grade(one) != Grade.NOT_ATTEMPTED for one in self._scored)
        if self._has_sets:
            every = np.array([_of_set(one) for one in self._scored])
            found |= {name: self._mean(column) for name, column in zip(("precision", "recall", "f1"), every.T, strict=True)}
        return found

    def ratios(self) -> dict[str, tuple[FloatArray, FloatArray]]:
        """Of grades: right ones among those attempted, and SimpleQA's F1, which is 2c / (1 + a) of the shares c and a."""
        if not self._has_grades:
            return {}
        right = self._mean(bool(one.correct) for one in self._scored)
        tried = self._mean(_grade(one) != Grade.NOT_ATTEMPTED for one in self._scored)
        known = np.isfinite(right)
        right, tried = np.where(known, right, 0.0), np.where(known, tried, 0.0)
        return {"given attempted": (right, tried), "f1 of grades": (2.0 * right, np.where(known, 1.0 + tried, 0.0))}

    def grades(self, means: Mapping[str, Estimate], ratios: Mapping[str, Estimate]) -> Grades | None:
        """None where the judge's prompt has none, or sets."""
        if not self._has_grades:
            return None
        given, f1 = ratios["given attempted"], ratios["f1 of grades"]
        return Grades(counts=self._counts, attempted=means["attempted"], given_attempted=given, f1=f1)

    def sets(self, means: Mapping[str, Estimate]) -> Sets | None:
        """None where no answer is a set."""
        if not self._has_sets:
            return None
        return Sets(counts=self._counts, precision=means["precision"], recall=means["recall"], f1=means["f1"])

    def confidence(self) -> Confidence | None:
        """None where no answer claims any."""
        if all(one.confidence is None for one in self._scored):
            return None
        return calibration_of([(one.question, one.confidence, one.correct) for one in self._scored], seed=_SEED)

    def _mean(self, values: Iterable[float]) -> FloatArray:
        """Mean of each question's attempts, [Q]; NaN without any, and an attempt's NaN is left out."""
        each = np.fromiter(values, np.float64, len(self._scored))
        known = np.isfinite(each)
        count = np.bincount(self._at, weights=known, minlength=self._questions)
        total = np.bincount(self._at, weights=np.where(known, each, 0.0), minlength=self._questions)
        return np.divide(total, count, out=np.full(self._questions, nan), where=count > 0)


def _grade(one: JudgedAttempt) -> str:
    if one.grade:
        return one.grade
    if one.code is Code.NO_ANSWER:
        return Grade.NOT_ATTEMPTED
    return Grade.CORRECT if one.correct else Grade.INCORRECT


def _of_set(one: JudgedAttempt) -> tuple[float, float, float]:
    """Precision, recall and F1 of one answer; all 0 where there is no answer, unknown where a person judged it."""
    if not one.parts:
        return (0.0, 0.0, 0.0) if one.code is Code.NO_ANSWER else (nan, nan, nan)
    return set_scores(one.parts, one.excessive)


# Confidence ---------------------------------------------------------------------------------------------------------------


def calibration(answers: Iterable[tuple[float | None, bool | None]], *, bins: int = BINS) -> Confidence:
    """What answers claim in percent against how many are right, in bins of equal width by the claim (Guo et al. 2017).

    Pairs of claim and verdict; unscored ones do not count. Raises ValueError for less than one bin.
    """
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
    made: list[Calibrated] = []
    total, gaps = sum(map(len, held)), list[float]()
    for at, found in enumerate(held):
        sure = right = None
        if found:
            sure = sum(confidence for confidence, _ in found) / len(found)
            right = 100.0 * sum(correct for _, correct in found) / len(found)
            gaps.append(len(found) * abs(sure - right))
        low, high = 100.0 * at / bins, 100.0 * (at + 1) / bins
        made.append(Calibrated(low=low, high=high, answers=len(found), confidence=sure, right=right))
    error = sum(gaps) / total if total else None
    return Confidence(bins=tuple(made), answers=total, left_out=left_out, error=error, error_interval=None)


def calibration_of(claims: Iterable[tuple[str, float | None, bool | None]], *, seed: int, bins: int = BINS) -> Confidence:
    """Calibration of a run's attempts (question, claim, verdict), with its error's 95% interval over questions.

    An error is never below 0, so resamples lie above it rather than around.
    """
    rows = sorted(claims, key=lambda claim: claim[0])
    found = calibration(((confidence, correct) for _, confidence, correct in rows), bins=bins)
    used = [
        (question, bin_of(confidence, bins), confidence - 100.0 * correct)
        for question, confidence, correct in rows
        if correct is not None and confidence is not None and has_known_scale(confidence)
    ]
    gaps = _table([(question, at) for question, at, _ in used], bins, [gap for _, _, gap in used])
    if gaps.shape[0] < 2:
        return found
    answers = _table([(question, at) for question, at, _ in used], bins).sum(axis=1, keepdims=True)
    shares = resampled_ratios(gaps, np.repeat(answers, bins, axis=1), seed=seed)
    (interval,) = intervals(np.abs(shares).sum(axis=1, keepdims=True))
    return found.model_copy(update={"error_interval": interval})


def has_known_scale(confidence: float) -> bool:
    """Whether it is a percentage for certain: what is above 0 and at most 1 may as well be a share."""
    return confidence == 0.0 or 1.0 < confidence <= 100.0


def bin_of(confidence: float, bins: int = BINS) -> int:
    """The number of a claim's bin; 100% is in the last."""
    return min(int(confidence * bins / 100.0), bins - 1)


# Two judges ---------------------------------------------------------------------------------------------------------------

_PAIRS = ((True, True), (False, False), (True, False), (False, True))


class Pair(NamedTuple):
    """Two judges' verdicts on one attempt; None: unscored."""

    question: str
    first: bool | None
    second: bool | None


class Comparison(NamedTuple):
    """Two judges of the same attempts, and the attempts that they differ on."""

    figures: Agreed
    differing: tuple[JudgedAttempt, ...]


def agreements(judged: Sequence[JudgedAttempt], judge: str, second: str) -> tuple[Agreed, ...]:
    """The judge compared with the second one and with a person, where they spoke."""
    return tuple(one.figures for one in comparisons(judged, judge, second))


def comparisons(judged: Sequence[JudgedAttempt], judge: str, second: str) -> list[Comparison]:
    """The judge with the second one, with those who made the attempts, and with a person; those of them that both spoke."""
    found: list[Comparison] = []
    if second:
        found.append(_compared(judge, second, [(one, one.by_judge, one.second) for one in judged]))
    if any(one.published is not None for one in judged):
        found.append(_compared(judge, PUBLISHED, [(one, one.by_judge, one.published) for one in judged]))
    if settled := [one for one in judged if one.code is Code.BY_HAND and one.overruled is not None]:
        words = [(one, one.overruled, one.correct) for one in settled]
        found.append(_compared(judge, "a person, on what they settled", words))
    return found


def _compared(first: str, second: str, said: Sequence[tuple[JudgedAttempt, bool | None, bool | None]]) -> Comparison:
    figures = agreement_of((Pair(one.question, a, b) for one, a, b in said), first, second, seed=_SEED)
    return Comparison(figures, tuple(one for one, a, b in said if None not in (a, b) and a is not b))


def agreement_of(pairs: Iterable[Pair], first: str = "", second: str = "", *, seed: int) -> Agreed:
    """Compare two judges; the order of pairs does not matter.

    Resamples in which kappa is not defined, since one verdict was all that was said, are left out of its interval.
    """
    rows = sorted(pairs, key=lambda pair: pair.question)
    counted = agreement((pair.first, pair.second) for pair in rows)
    scored = [pair for pair in rows if pair.first is not None and pair.second is not None]
    table = _table([(pair.question, _PAIRS.index((bool(pair.first), bool(pair.second)))) for pair in scored], len(_PAIRS))
    kappa_interval = agreed_interval = None
    if table.shape[0] > 1:
        totals = np.repeat(table.sum(axis=1, keepdims=True), len(_PAIRS), axis=1)
        shares = resampled_ratios(table, totals, seed=seed)
        (agreed_interval,) = intervals(shares[:, :1] + shares[:, 1:2])
        if counted.kappa is not None:
            (kappa_interval,) = intervals(_kappas(shares)[:, None])
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
        first_average=_average(table[:, [0, 2]].sum(axis=1), table.sum(axis=1)),
        second_average=_average(table[:, [0, 3]].sum(axis=1), table.sum(axis=1)),
        questions=table.shape[0],
    )


def _kappas(shares: FloatArray) -> FloatArray:
    """Cohen's kappa of each resample; NaN where it is not defined."""
    both, neither, first_only, second_only = shares.T
    first, second = both + first_only, both + second_only
    expected = first * second + (1.0 - first) * (1.0 - second)
    room = 1.0 - expected
    return np.divide(both + neither - expected, room, out=np.full_like(room, nan), where=room > 1e-9)


def _average(right: FloatArray, scored: FloatArray) -> float | None:
    """Share of right ones over attempts that both scored; mean of the questions' means."""
    return float((right / scored).mean()) if scored.size else None


def _table(cells: Sequence[tuple[str, int]], columns: int, values: Sequence[float] | None = None) -> FloatArray:
    """Sums per question (in their order) and column."""
    rows = {question: row for row, question in enumerate(dict.fromkeys(question for question, _ in cells))}
    table = np.zeros((len(rows), columns))
    for at, (question, column) in enumerate(cells):
        table[rows[question], column] += 1.0 if values is None else values[at]
    return table
