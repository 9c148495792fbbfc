"""Near-identical questions: of the trajectories that ask the same one, which are kept.

The order of preference: judged correct, then not judged or unscored, then judged incorrect; then those with an answer; then as
asked (fewest turns, most turns, or the first of the file); then, so that the order of the file decides nothing that nobody
asked it to, the one whose text, answers and id come first in the order of characters. Only rows that are equal in all of that
are chosen by their place. Whatever is left out names the one kept in its place. What is kept stays in the order of the file.
Pure over an index of what matters, so a file of any size needs no more memory than its questions.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from sanderling.core.record import Trajectory
from sanderling.data.near import THRESHOLD
from sanderling.data.question_groups import Asked, question_groups
from sanderling.data.standing import Standing, standing


class Prefer(StrEnum):
    """What decides between trajectories that are equally right."""

    SHORTEST = "shortest"
    LONGEST = "longest"
    FIRST = "first"


@dataclass(frozen=True)
class Candidate:
    """What the choice looks at."""

    id: str
    question: Asked
    standing: Standing
    answered: bool
    turns: int

    @classmethod
    def of(cls, trajectory: Trajectory) -> "Candidate":
        return cls(
            trajectory.id,
            Asked(trajectory.question.text, trajectory.question.answers),
            standing(trajectory),
            trajectory.answer is not None,
            sum(1 for _ in trajectory.turns()),
        )


@dataclass(frozen=True)
class Duplicate:
    """One that is left out, and the one that stands for it."""

    row: int
    kept: int


@dataclass(frozen=True)
class Deduped:
    """What is kept, by place in the input."""

    kept: tuple[int, ...]
    duplicates: tuple[Duplicate, ...]
    questions: int
    """Groups of questions that are the same or nearly."""
    largest: int
    """Trajectories in the largest of them."""


_RANK = {Standing.CORRECT: 0, Standing.NOT_JUDGED: 1, Standing.UNSCORED: 1, Standing.INCORRECT: 2}


def dedupe(
    candidates: Sequence[Candidate],
    *,
    threshold: float = THRESHOLD,
    by_answers: bool = True,
    keep: int = 1,
    prefer: Prefer = Prefer.SHORTEST,
) -> Deduped:
    """Keep the best ``keep`` of each question. ``by_answers``: see :func:`question_groups`."""
    roots = question_groups((candidate.question for candidate in candidates), threshold=threshold, by_answers=by_answers)
    groups: dict[int, list[int]] = {}
    for row, root in enumerate(roots):
        groups.setdefault(root, []).append(row)
    kept: list[int] = []
    duplicates: list[Duplicate] = []
    for rows in groups.values():
        ordered = sorted(rows, key=lambda row: (_merit(candidates[row], prefer, row), row))
        kept += ordered[:keep]
        duplicates += [Duplicate(row, ordered[0]) for row in ordered[keep:]]
    return Deduped(
        tuple(sorted(kept)),
        tuple(sorted(duplicates, key=lambda duplicate: duplicate.row)),
        len(groups),
        max(map(len, groups.values()), default=0),
    )


def _merit(candidate: Candidate, prefer: Prefer, row: int) -> tuple[int, bool, int, str, tuple[str, ...], str, str]:
    length = {Prefer.SHORTEST: candidate.turns, Prefer.LONGEST: -candidate.turns, Prefer.FIRST: row}[prefer]
    asked = candidate.question
    return (
        _RANK[candidate.standing],
        not candidate.answered,
        length,
        asked.text,
        asked.answers,
        candidate.id,
        candidate.standing,
    )
