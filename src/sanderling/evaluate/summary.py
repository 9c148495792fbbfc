"""The figures over the attempts of a run. Pure: episodes in, figures out, in any order.

Outages (of a tool, the model or the judge) are unscored: in no mean, but counted, and more of them than the limit marks the run
invalid. All intervals come from one draw of questions. Knows no files, models or judges.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any

import numpy as np

from sanderling.core.record import Question, question_id
from sanderling.evaluate.attempt_means import counts_and_means
from sanderling.evaluate.beside import NOTHING, Beside
from sanderling.evaluate.episodes import Episode
from sanderling.evaluate.estimates import Estimates
from sanderling.evaluate.groups import group_figures, groups_of, members_of
from sanderling.evaluate.judged_figures import Said, agreed
from sanderling.evaluate.of_k import (
    ORDERS,
    all_right,
    any_right,
    attempts_error,
    average_at_k,
    clustered_error,
    majority,
    tries,
)
from sanderling.evaluate.result import Contamination, Estimate, EvalResult, QuestionCounts, RecordedShare
from sanderling.evaluate.scores import best_of_scores
from sanderling.evaluate.spending import Taken, latency
from sanderling.evaluate.statistics import FloatArray

_SEED = 0
_MANY_ATTEMPTS = 10_000
"""Beyond so many attempts a majority needs fewer orders of each question's: their noise averages out."""
_FEWER_ORDERS = 32


@dataclass(frozen=True)
class RunInfo:
    """What made a result."""

    command: str
    seed: int
    version: str
    date: str
    seconds: float
    resumed: int
    unscored_limit: float = 0.02
    judge: str = ""
    judging_command: str = ""
    second_judge: str = ""
    by_hand: int = 0
    """Attempts that a person has judged."""
    recorded: RecordedShare | None = None
    """Over a recorded world: how much of what was asked it holds."""
    uneven: bool = False
    """Others' run: its questions were tried as often as they were, at most the given number of times."""


def summarise(
    episodes: Iterable[Episode], questions: Sequence[Question], attempts: int, info: RunInfo, beside: Beside = NOTHING
) -> EvalResult:
    """The figures of a run. Raises ValueError for two episodes of one attempt, a missing one, or a stranger's."""
    rows = sorted(episodes, key=lambda episode: (episode.question, episode.attempt))
    _check_attempts(rows, questions, attempts, uneven=info.uneven)
    counts = _counts(rows, questions)
    scored, correct = [c.scored for c in counts], [c.correct for c in counts]
    judged = [row for row in rows if row.correct is not None]
    number = {question.id: place for place, question in enumerate(questions)}
    taken = Taken(rows, [number[row.question] for row in rows], len(questions), beside.prices)
    members = members_of(counts)
    best = best_of_scores(judged, [number[row.question] for row in judged], len(questions), beside, _ks(attempts))
    waiting = _shares(scored, correct, attempts, members)
    waiting.means("majority", _majorities(judged, questions, attempts))
    for name, columns in best.items():
        waiting.means(f"best of {name}", columns)
    waiting.means("without", {"contaminated": _clean_share(judged, number)})
    waiting.ratios("taken", taken.ratios())
    said = Said(beside.judged, number)
    waiting.means("said", said.means())
    waiting.ratios("said of those attempted", said.ratios())
    found = waiting.made(seed=_SEED)
    return EvalResult(
        **_said(rows, info),
        **counts_and_means(rows, judged, questions),
        attempts=attempts,
        questions=tuple(counts),
        pass_at_k=found["pass_at_k"],
        pass_hat_k=found["pass_hat_k"],
        majority=found["majority"],
        best_of={name: found[f"best of {name}"] for name in best},
        clustered_error=_number(clustered_error(scored, correct)),
        attempts_error=_number(attempts_error(scored, correct)),
        groups={name: group_figures(found[f"by {name}"], members[name], counts) for name in members},
        spending=taken.spending(found["taken"]),
        cost=taken.cost(found["taken"]),
        latency=latency(judged),
        guard=beside.guard,
        contamination=_contamination(rows, found["without"]["contaminated"], applies=beside.looked_for),
        **_verdicts(said, found["said"], found["said of those attempted"]),
        agreement=agreed(beside.judged, info.judge, info.second_judge),
        pass_at_1_bounds=average_at_k([c.attempts for c in counts], scored, correct).bounds,
        invalid_because=_invalid(len(rows) - len(judged), len(rows), info.unscored_limit),
    )


def _said(rows: Sequence[Episode], info: RunInfo) -> dict[str, Any]:
    """What made the result."""
    return {
        "model": _only(row.model for row in rows),
        "world": _only(row.world for row in rows),
        "judge": info.judge,
        "second_judge": info.second_judge,
        "by_hand": info.by_hand,
        "recorded": info.recorded,
        "command": info.command,
        "judging_command": info.judging_command,
        "seed": info.seed,
        "version": info.version,
        "date": info.date,
        "seconds": info.seconds,
        "resumed": info.resumed,
    }


def _verdicts(said: Said, means: Mapping[str, Estimate], ratios: Mapping[str, Estimate]) -> dict[str, Any]:
    """What judges say beyond right and wrong."""
    return {
        "score": means.get("score"),
        "grades": said.grades(means, ratios),
        "sets": said.sets(means),
        "confidence": said.confidence(),
    }


def _shares(scored: list[int], correct: list[int], attempts: int, members: Mapping[str, Mapping[str, np.ndarray]]) -> Estimates:
    """pass@k and pass^k for every k, and the average by group."""
    waiting, every = Estimates(), range(1, attempts + 1)
    some = any_right(scored, correct, attempts)
    waiting.means("pass_at_k", dict(zip(every, some.T, strict=True)))
    waiting.means("pass_hat_k", dict(zip(every, all_right(scored, correct, attempts).T, strict=True)))
    for name, groups in members.items():
        waiting.means(f"by {name}", {group: np.where(inside, some[:, 0], np.nan) for group, inside in groups.items()})
    return waiting


def _check_attempts(rows: Sequence[Episode], questions: Sequence[Question], attempts: int, *, uneven: bool) -> None:
    wanted = {(question.id, attempt) for question in questions for attempt in range(attempts)}
    found = Counter((row.question, row.attempt) for row in rows)
    odd = found.keys() - wanted or {key for key, n in found.items() if n > 1} or (set() if uneven else wanted - found.keys())
    if uneven:
        tried = {row.question for row in rows}
        odd = odd or {(question.id, 0) for question in questions if question.id not in tried}
    if odd:
        question, attempt = min(odd)
        raise ValueError(f"episodes do not match the attempts: question {question!r}, attempt {attempt}")


def _counts(rows: Sequence[Episode], questions: Sequence[Question]) -> list[QuestionCounts]:
    made = Counter(row.question for row in rows)
    scored = Counter(row.question for row in rows if row.correct is not None)
    correct = Counter(row.question for row in rows if row.correct)
    return [
        QuestionCounts(
            id=q.id,
            text_digest=question_id(" ".join(q.text.split())),
            hops=q.hops,
            groups=groups_of(q),
            attempts=made[q.id],
            scored=scored[q.id],
            correct=correct[q.id],
        )
        for q in questions
    ]


def _majorities(judged: Sequence[Episode], questions: Sequence[Question], attempts: int) -> dict[int, FloatArray]:
    by_question: dict[str, list[Episode]] = {question.id: [] for question in questions}
    for row in judged:
        by_question[row.question].append(row)
    every = [tries([bool(row.correct) for row in rows], [row.vote for row in rows]) for rows in by_question.values()]
    ks = _ks(attempts)
    found = majority(every, ks, seed=_SEED, orders=ORDERS if len(judged) <= _MANY_ATTEMPTS else _FEWER_ORDERS)
    return dict(zip(ks, found.T, strict=True))


def _ks(attempts: int) -> list[int]:
    """Powers of two, and all attempts."""
    return [k for k in (1, 2, 4, 8, 16, 32, 64, 128) if k < attempts] + [attempts]


def _clean_share(judged: Sequence[Episode], number: Mapping[str, int]) -> FloatArray:
    """The share of right ones among the attempts that did not read their question, [Q]; NaN without any."""
    clean = [row for row in judged if not row.contaminated]
    at = np.array([number[row.question] for row in clean], dtype=np.int64)
    scored = np.bincount(at, minlength=len(number))
    right = np.bincount(at, weights=[bool(row.correct) for row in clean], minlength=len(number))
    return np.divide(right, scored, out=np.full(len(number), np.nan), where=scored > 0)


def _contamination(rows: Sequence[Episode], without: Estimate, *, applies: bool) -> Contamination:
    looked_at = [row for row in rows if row.contaminated is not None] if applies else []
    read = [row.question for row in looked_at if row.contaminated]
    return Contamination(
        applies=applies,
        attempts=len(looked_at),
        contaminated=len(read),
        questions=len(set(read)),
        without=without if looked_at else None,
    )


def _number(value: float) -> float | None:
    return value if isfinite(value) else None


def _only(names: Iterable[str]) -> str:
    return ", ".join(sorted({name for name in names if name}))


def _invalid(unscored: int, total: int, limit: float) -> str:
    if unscored <= limit * total:
        return ""
    return f"{unscored} of {total} attempts ({unscored / total:.1%}) could not be scored; more than {limit:.0%} is too many."
