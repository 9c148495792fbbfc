"""Scores by which the best of several attempts may be chosen without a judge: who says what of which attempt.

``mean_logprob``: how likely the model found what it said, over all that it sampled; where log-probabilities were recorded.
``confidence``: what the answer claims of itself, where the judge's form reads that. Others come from a file of the user's. An
attempt without an answer is chosen last, whatever its score. A question of which an answered attempt has no score is in no
such figure, and counted. Knows no judge.
"""

import csv
import io
from collections.abc import Mapping, Sequence
from math import inf, isfinite, nan
from pathlib import Path
from typing import TypeGuard

import numpy as np

from sanderling.core.errors import UserError
from sanderling.evaluate.beside import Beside
from sanderling.evaluate.episodes import Episode
from sanderling.evaluate.judged_figures import has_known_scale
from sanderling.evaluate.of_k import best_of
from sanderling.evaluate.statistics import FloatArray

Scores = dict[tuple[str, int], float]
"""By question and attempt."""
LOGPROB, CONFIDENCE = "mean_logprob", "confidence"


def best_of_scores(
    judged: Sequence[Episode], at: Sequence[int], questions: int, beside: Beside, ks: Sequence[int]
) -> dict[str, dict[int, FloatArray]]:
    """Of each score that an attempt has: by k the chance of each question, [Q], that the highest of k is right."""
    right = [bool(row.correct) for row in judged]
    found = {}
    for name, scores in known_scores(judged, beside).items():
        every = [-inf if row.vote is None else scores.get((row.question, row.attempt), nan) for row in judged]
        if any(map(isfinite, every)):
            table = best_of(np.asarray(at, dtype=np.int64), right, every, questions, ks)
            found[name] = dict(zip(ks, table.T, strict=True))
    return found


def known_scores(judged: Sequence[Episode], beside: Beside) -> dict[str, Mapping[tuple[str, int], float]]:
    """All scores by name, higher being better."""
    own = {(row.question, row.attempt): row.mean_logprob for row in judged if row.mean_logprob is not None}
    claimed = {(one.question, one.attempt): one.confidence for one in beside.judged if _is_known(one.confidence)}
    return {name: scores for name, scores in ((LOGPROB, own), (CONFIDENCE, claimed)) if scores} | dict(beside.scores)


def _is_known(confidence: float | None) -> TypeGuard[float]:
    """Whether it is in percent: 0.95 may mean 95 or less than one."""
    return confidence is not None and has_known_scale(confidence)


def read_scores(path: Path, attempts: Mapping[str, tuple[str, int]]) -> dict[str, Scores]:
    """A table ``id,score[,name]`` of trajectories' ids; without a name the file's is taken.

    ``attempts``: question and attempt of each id. Raises UserError for another table, an unknown id, a score that is no number,
    two scores of one attempt under one name, or a name that is taken.
    """
    found: dict[str, Scores] = {}
    unknown: list[str] = []
    for line, row in _rows(path):
        id, name = (row.get("id") or "").strip(), (row.get("name") or "").strip() or path.stem
        if id not in attempts:
            unknown.append(id)
            continue
        if name in (LOGPROB, CONFIDENCE):
            raise UserError(f"{path}, line {line}: {name} is a score that is made here: give yours another name.")
        if attempts[id] in found.setdefault(name, {}):
            raise UserError(f"{path}, line {line}: {id} has two scores called {name}: leave one of them out.")
        found[name][attempts[id]] = _number(row.get("score"), path, line)
    if unknown:
        shown = ", ".join(unknown[:3])
        raise UserError(
            f"{path}: {len(unknown):,} of its ids are none of this run's attempts ({shown}): take its ids as they are."
        )
    if not found:
        raise UserError(f"{path} holds no score: give a line id,score[,name] for each attempt.")
    return found


def as_table(scores: Mapping[str, Scores], ids: Mapping[tuple[str, int], str]) -> str:
    """What :func:`read_scores` reads, each score with its name."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(("id", "score", "name"))
    writer.writerows((ids[key], score, name) for name, by_attempt in scores.items() for key, score in by_attempt.items())
    return text.getvalue()


def _rows(path: Path) -> list[tuple[int, dict[str, str | None]]]:
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.DictReader(file)
            if not {"id", "score"} <= set(reader.fieldnames or ()):
                raise UserError(f"{path} has no columns id and score: write id,score or id,score,name into its first line.")
            return [(reader.line_num, row) for row in reader]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise UserError(f"{path} cannot be read as a table ({error}): give a CSV file id,score[,name].") from error


def _number(text: str | None, path: Path, line: int) -> float:
    try:
        value = float(text or "")
    except ValueError:
        value = nan
    if not isfinite(value):
        raise UserError(f"{path}, line {line}: {text!r} is no score: write a number.")
    return value
