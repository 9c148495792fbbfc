"""Figures of what judges say beyond right and wrong: grades, sets, partial scores, confidence, and how far two of them agree.

Each question weighs the same, with the mean of its attempts; with one attempt a question these are the publishers' figures.
Without an answer an attempt was *not attempted*, and found nothing of a set. What a person has judged counts as right or wrong
among grades, and is in no figure of sets, since nobody counted its parts. Knows no judge.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from math import nan

import numpy as np

from sanderling.evaluate.agreeing import comparisons
from sanderling.evaluate.agreement import Claim, calibration_of
from sanderling.evaluate.judged import JudgedAttempt
from sanderling.evaluate.resampling import FloatArray
from sanderling.evaluate.result_parts import Agreed, Calibrated, Confidence, Estimate, Grades, Sets
from sanderling.judge.verdict import Code, Grade

_SEED = 0


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
    """Precision, recall and F1 of one answer; all 0 where nothing that was asked for was found."""
    if not one.parts:
        return (0.0, 0.0, 0.0) if one.code is Code.NO_ANSWER else (nan, nan, nan)
    found = sum(one.parts.values())
    if not found:
        return 0.0, 0.0, 0.0
    precision, recall = found / (found + len(one.excessive)), found / len(one.parts)
    return precision, recall, 2.0 * precision * recall / (precision + recall)
