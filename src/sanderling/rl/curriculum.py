"""Which questions a stage asks: those of the right difficulty, measured before it.

LiteResearcher (arXiv 2604.17931) has a stage's first model attempt every question, keeps what is right 1 to 7 times of 8, and
sorts by length: below 16K, 32K, 48K and 64K tokens (:func:`by_difficulty`; `sanderling synth difficulty` does the same for any
agent). An attempt that could not be scored is none: a question with fewer scored attempts than were wanted is untold, neither
kept nor dropped, until its missing attempts have been made or could not change its band.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from pydantic import Field, model_validator

from sanderling.core.config import Frozen
from sanderling.core.record import Question, Trajectory
from sanderling.judge.verdict import verdict_of

META = "difficulty"
"""Where a question's ``meta`` has its figures."""


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
