"""A stored attempt in short: all that going on with a run, judging it and its figures need, in a thousandth of the record.

A judge is shown a question, its accepted answers and the agent's own answer, so that a row can be judged as its record can.
Knows no store.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from sanderling.core.record import Question, Seeds, Trajectory, encode_record
from sanderling.core.types import Ending
from sanderling.evaluate.episodes import Episode, episode_of
from sanderling.judge.verdict import META_KEY, verdict_in
from sanderling.runs.jsonl import Line

ROUND = "round"
"""In a record's meta: the round that made it."""
Key = tuple[str, int]
"""A question's id and the number of an attempt."""


@dataclass(frozen=True, slots=True)
class AttemptRow:
    """One attempt."""

    id: str
    line: Line
    """Where its record stands."""
    run: int
    """``seeds.run`` of its record."""
    round: int | None
    asked: str
    """Digest of the question's text and masks: what makes it the same question."""
    accepted: str
    """Digest of the accepted answers that its verdict rests on."""
    answer: str | None
    profile: str
    verdict: dict[str, Any]
    """As `judge.verdict.recorded` gives it; empty: not judged."""
    episode: Episode
    """Without a verdict."""

    @property
    def key(self) -> Key:
        """Which attempt it is."""
        return self.episode.question, self.episode.attempt

    @property
    def ending(self) -> Ending | None:
        """How it ended; None: somebody else's record, which does not say."""
        return self.episode.ending

    def correct(self, judge: str, question: Question, places: Sequence[str] | None = None) -> bool | None:
        """What the judge of this name (at these places) said under these accepted answers; None: nothing, or it failed."""
        return verdict_in(self.verdict, judge, places) if self.accepted == accepted_digest(question) else None

    def case(self, question: Question) -> Trajectory:
        """What a judge is shown of it."""
        seeds = Seeds(run=self.run, attempt=self.episode.attempt)
        return Trajectory(
            id=self.id, question=question, nodes=(), leaf=None, ending=self.ending, answer=self.answer, seeds=seeds
        )


def row_of(trajectory: Trajectory, line: Line) -> AttemptRow:
    """The short form of a record that stands there."""
    meta, question = trajectory.meta, trajectory.question
    verdict, number = meta.get(META_KEY), meta.get(ROUND)
    return AttemptRow(
        id=trajectory.id,
        line=line,
        run=trajectory.seeds.run,
        round=number if isinstance(number, int) else None,
        asked=asked_digest(question),
        accepted=accepted_digest(question),
        answer=trajectory.answer,
        profile=trajectory.profile,
        verdict=verdict if isinstance(verdict, dict) else {},
        episode=episode_of(trajectory),
    )


def asked_digest(question: Question) -> str:
    """What makes a question the same question for an agent."""
    return _digest([question.text, sorted(set(question.masked_urls))])


def accepted_digest(question: Question) -> str:
    """What makes it the same for a judge."""
    return _answers_digest(question.answers)


@lru_cache(maxsize=1 << 16)  # a question has many rows
def _answers_digest(answers: tuple[str, ...]) -> str:
    return _digest(list(answers))


def _digest(value: list[Any]) -> str:
    return hashlib.sha256(encode_record(value)).hexdigest()[:16]
