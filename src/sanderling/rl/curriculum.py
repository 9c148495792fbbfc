"""Which questions a run asks: those of the right difficulty, measured before a stage, and an order that goes on learning.

LiteResearcher (arXiv 2604.17931) has a stage's first model attempt every question, keeps what is right 1 to 7 times of 8, and
sorts by length: below 16K, 32K, 48K and 64K tokens (:func:`by_difficulty`; `sanderling synth difficulty` does the same for any
agent). An attempt that could not be scored is none: a question with fewer scored attempts than were wanted is untold, neither
kept nor dropped, until its missing attempts have been made or could not change its band.

Within a stage this goes on with what the run sees anyway (:class:`Curriculum`): a seeded order, without the questions that the
run itself has found mastered or hopeless for now. Its state is a pure function of what was heard, in order: replayed after a
resume, and fed the same on every rank, it is the same. A group's question depends on its number and on that state alone, so
whoever asks ahead of what is heard later has to remember what was asked.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache

import numpy as np
from pydantic import Field, model_validator

from sanderling.core.config import Frozen
from sanderling.core.record import Question, Trajectory
from sanderling.judge.verdict import verdict_of
from sanderling.rl.denoise import RIGHT_ABOVE
from sanderling.train.contract import IntArray

META = "difficulty"
"""Where a question's ``meta`` has its figures."""
_REST = 1
"""Passes that a resting question sits out: so many times as many groups as there are questions."""
_LEAST_OPEN = 1
"""Questions that are asked at least: with fewer left, mastered ones come back, the longest retired first; then resting ones."""


# -- before a stage --------------------------------------------------------------------------------------------------------


class Band(StrEnum):
    """What a question's attempts come to."""

    TOO_HARD = "too-hard"
    KEPT = "kept"
    TOO_EASY = "too-easy"
    UNTOLD = "untold"


class BandSettings(Frozen):
    """Which questions are kept."""

    attempts: int = Field(default=8, ge=1)
    least_right: int = Field(default=1, ge=0)
    most_right: int = Field(default=7, ge=0)
    lengths: tuple[int, ...] = (16_000, 32_000, 48_000, 64_000)
    """Ends of the length bands, in tokens of the longest right attempt's context (characters where no tokens are known)."""

    @model_validator(mode="after")
    def _in_order(self) -> "BandSettings":
        if not self.least_right <= self.most_right <= self.attempts:
            raise ValueError(f"keep from {self.least_right} to {self.most_right} of {self.attempts} attempts is no range")
        if list(self.lengths) != sorted(set(self.lengths)):
            raise ValueError("lengths must rise")
        return self


@dataclass(frozen=True, slots=True)
class Try:
    """One attempt."""

    question: str
    """The question's id."""
    correct: bool | None
    """None: unscored."""
    length: int
    """Of its context, in tokens or characters."""
    turns: int = 0


def try_of(trajectory: Trajectory) -> Try:
    """An attempt as its record tells it; unscored where it ended in an outage or was not judged."""
    scored = trajectory.ending is None or trajectory.ending.scored
    ids = trajectory.token_ids()
    length = sum(len(node.text) for node in trajectory.branch()) if ids is None else len(ids)
    turns = sum(1 for _ in trajectory.turns())
    return Try(trajectory.question.id, verdict_of(trajectory) if scored else None, length, turns)


@dataclass(frozen=True, slots=True)
class Difficulty:
    """A question's figures."""

    band: Band
    scored: int
    right: int
    length: str
    """The band of the longest right attempt, such as "lt16k" or "16k-32k"; empty where no attempt was right."""
    turns: float
    """The mean of scored attempts."""


def difficulty(tries: Sequence[Try], settings: BandSettings) -> Difficulty:
    """The figures of one question's attempts."""
    scored = [one for one in tries if one.correct is not None]
    right = [one for one in scored if one.correct]
    turns = sum(one.turns for one in scored) / len(scored) if scored else 0.0
    length = length_band(max(one.length for one in right), settings.lengths) if right else ""
    return Difficulty(_band(len(scored), len(right), settings), len(scored), len(right), length, turns)


def _band(scored: int, right: int, settings: BandSettings) -> Band:
    """Told as soon as the missing attempts could not change it."""
    missing = max(settings.attempts - scored, 0)
    if right > settings.most_right:
        return Band.TOO_EASY
    if right + missing < settings.least_right:
        return Band.TOO_HARD
    if right >= settings.least_right and right + missing <= settings.most_right:
        return Band.KEPT
    return Band.UNTOLD


def length_band(length: int, ends: Sequence[int]) -> str:
    """The name of a length's band.

    Example: ``length_band(20_000, (16_000, 32_000)) == "16k-32k"``
    """
    names = [f"{end / 1_000:g}k" for end in ends]
    for place, end in enumerate(ends):
        if length < end:
            return f"lt{names[0]}" if place == 0 else f"{names[place - 1]}-{names[place]}"
    return f"ge{names[-1]}" if names else "all"


def by_difficulty(
    questions: Iterable[Question], tries: Iterable[Try], settings: BandSettings, agent: str
) -> tuple[dict[Band, list[Question]], Counter[str]]:
    """The questions by band, in order and with their figures in ``meta``; and how many were right how often ("3/8")."""
    of: defaultdict[str, list[Try]] = defaultdict(list)
    for one in tries:
        of[one.question].append(one)
    bands: dict[Band, list[Question]] = {band: [] for band in Band}
    rates: Counter[str] = Counter()
    for question in questions:
        found = difficulty(of[question.id], settings)
        rates[f"{found.right}/{found.scored}"] += 1
        measured = {
            "agent": agent,
            "attempts": settings.attempts,
            "band": found.band.value,
            "scored": found.scored,
            "right": found.right,
            "length": found.length,
            "turns": found.turns,
        }
        bands[found.band].append(question.model_copy(update={"meta": {**question.meta, META: measured}}))
    return bands, rates


# -- within a stage ------------------------------------------------------------------------------------------------------


class CurriculumConfig(Frozen):
    """Online difficulty: what the run itself sees of its questions. Off by default."""

    retire_after: int = Field(default=0, ge=0)
    """Visits in a row at which every scored rollout was right (its outcome above 1/2), after which a question is mastered; 0:
    never."""
    rest_after: int = Field(default=0, ge=0)
    """Visits in a row at which none was right, after which a question rests; 0: never."""


class Standing(StrEnum):
    """Whether a question is asked."""

    OPEN = "open"
    MASTERED = "mastered"
    RESTING = "resting"


@dataclass
class Progress:
    """What the run has seen of one question."""

    standing: Standing = Standing.OPEN
    visits: int = 0
    """Groups with a scored rollout."""
    scored: int = 0
    right: int = 0
    right_in_row: int = 0
    """Visits in a row at which every scored rollout was right."""
    wrong_in_row: int = 0
    since: int = 0
    """When it left the open ones, in groups heard."""

    @property
    def success(self) -> float:
        """Share of its scored rollouts that were right; 0 before the first."""
        return self.right / self.scored if self.scored else 0.0


class Curriculum:
    """The questions of a run, and how they stand."""

    def __init__(self, config: CurriculumConfig, questions: Sequence[Question], seed: int) -> None:
        self._config, self._questions, self._seed = config, questions, seed
        self._progress = {question.id: Progress() for question in questions}
        self._open = np.ones(len(questions), dtype=np.bool_)
        self._heard = 0
        self._order = lru_cache(maxsize=4)(self._permutation)

    def at(self, number: int) -> Question:
        """The question of the group of this number, as things stand.

        Every pass over the questions has an order of its own. A question that is not open leaves its place to one that is:
        these take such places in turn, in another order.
        """
        turn, index = divmod(number, len(self._questions))
        order = self._order(turn, 0)
        place = int(order[index])
        if not self._open[place]:
            free = int((~self._open[order[:index]]).sum())
            others = self._order(turn, 1)
            others = others[self._open[others]]
            place = int(others[free % len(others)])
        return self._questions[place]

    def heard(self, groups: Iterable[tuple[str, Sequence[float]]]) -> None:
        """Take note of groups that ended, used or not: question ids and the outcomes of their scored rollouts.

        Call it with the same groups in the same order on every rank and in every replay. Raises ValueError for a question that
        is not in the run.
        """
        for name, outcomes in groups:
            if name not in self._progress:
                raise ValueError(f"question {name!r} was asked, and is none of the run's {len(self._progress)}")
            self._heard += 1
            if outcomes:
                self._visited(self._progress[name], outcomes)
        self._wake()
        self._reopen()
        standing = [self._progress[question.id].standing for question in self._questions]
        self._open = np.array([one is Standing.OPEN for one in standing])

    def progress(self, question: str) -> Progress:
        """What the run has seen of a question."""
        return self._progress[question]

    def figures(self) -> dict[str, float]:
        """How many questions are open, mastered and resting, how many were visited, and the mean success of those."""
        found = list(self._progress.values())
        visited = [one.success for one in found if one.visits]
        counts = {f"questions_{standing}": float(sum(one.standing is standing for one in found)) for standing in Standing}
        success = sum(visited) / len(visited) if visited else 0.0
        return {**counts, "questions_visited": float(len(visited)), "question_success": success}

    def _permutation(self, turn: int, stream: int) -> IntArray:
        # The first stream is the plain order of a run without a curriculum.
        return np.random.default_rng((self._seed, turn, stream) if stream else (self._seed, turn)).permutation(
            len(self._questions)
        )

    def _visited(self, question: Progress, outcomes: Sequence[float]) -> None:
        config, right = self._config, sum(outcome > RIGHT_ABOVE for outcome in outcomes)
        question.visits += 1
        question.scored += len(outcomes)
        question.right += right
        question.right_in_row = question.right_in_row + 1 if right == len(outcomes) else 0
        question.wrong_in_row = question.wrong_in_row + 1 if right == 0 else 0
        if question.standing is not Standing.OPEN:
            return  # it was asked before it left, and is heard of after
        if config.retire_after and question.right_in_row >= config.retire_after:
            question.standing, question.since = Standing.MASTERED, self._heard
        elif config.rest_after and question.wrong_in_row >= config.rest_after:
            question.standing, question.since = Standing.RESTING, self._heard

    def _wake(self) -> None:
        """Whoever has rested long enough is open again: a pass is as many groups as there are questions."""
        for question in self._progress.values():
            rested = self._heard - question.since
            if question.standing is Standing.RESTING and rested >= _REST * len(self._questions):
                _back(question)

    def _reopen(self) -> None:
        """Too few open: mastered ones come back, the longest retired first; after them, resting ones."""
        found = list(self._progress.values())
        least = min(_LEAST_OPEN, len(found))
        missing = max(0, least - sum(one.standing is Standing.OPEN for one in found))
        away = [one for one in found if one.standing is not Standing.OPEN]
        for question in sorted(away, key=lambda one: (one.standing is Standing.RESTING, one.since))[:missing]:
            _back(question)


def _back(question: Progress) -> None:
    """Open, with its rows begun anew: one more visit like those before does not send it away."""
    question.standing, question.right_in_row, question.wrong_in_row = Standing.OPEN, 0, 0
