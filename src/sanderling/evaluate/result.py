"""What an evaluation gives: attempts in short, verdicts on them, and the figures with their intervals, as one JSON file.

A judge is shown a question, its accepted answers and the agent's own answer, so an `Episode` can be judged as its record can.
An answer is the agent's own or none: text of a tool result is never looked at. Pass@1 is accuracy averaged over attempts,
never "any of k". None is always "not known", never 0. See `figures`.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from sanderling.core.errors import UserError
from sanderling.core.record import NodeKind, Question, Seeds, Trajectory, encode_record
from sanderling.core.types import Ending
from sanderling.evaluate.statistics import Interval
from sanderling.judge.verdict import META_KEY, Code, verdict_in
from sanderling.runs.files import or_cannot, replace_file
from sanderling.world.guard import GuardKind


class Record(BaseModel):
    """Base of the frozen models of this room; no number in them is infinite or NaN."""

    model_config = ConfigDict(frozen=True, extra="ignore", allow_inf_nan=False)  # earlier versions wrote figures that are gone


# Attempts ---------------------------------------------------------------------------------------------------------------

Key = tuple[str, int]
"""A question's id and the number of an attempt."""


@dataclass(frozen=True, slots=True)
class Episode:
    """One attempt."""

    question: str
    attempt: int
    ending: Ending | None  # None: the record of somebody else, which does not say
    correct: bool | None  # None: unscored, or not judged yet
    model: str
    world: str
    turns: int  # on the main branch; rejected attempts at a turn are not turns
    calls: int
    visits: int
    sampled_tokens: int | None  # rejected attempts at a turn included; None where a server did not say
    seconds: float
    prompt_tokens: int | None = None  # sum over all that the policy was asked
    # What going on with a run and judging it take:
    id: str = ""  # of its trajectory
    seed: int = 0  # the run's
    asked: str = ""  # digest of the question's text and masks: what makes it the same question for an agent
    accepted: str = ""  # digest of the accepted answers that its verdict rests on
    answer: str | None = None
    profile: str = ""
    verdict: dict[str, Any] = field(default_factory=dict[str, Any])  # as `judge.verdict.recorded` gives it

    @property
    def key(self) -> Key:
        return self.question, self.attempt

    def ruling(self, judge: str, question: Question, places: Sequence[str] | None = None) -> bool | None:
        """What the judge of this name (at these places) said under these accepted answers; None: nothing, or it failed."""
        return verdict_in(self.verdict, judge, places) if self.accepted == answers_digest(question) else None

    def case(self, question: Question) -> Trajectory:
        """What a judge is shown of it."""
        seeds = Seeds(run=self.seed, attempt=self.attempt)
        found = {"id": self.id, "question": question, "ending": self.ending, "answer": self.answer, "seeds": seeds}
        return Trajectory(nodes=(), leaf=None, **found)


def episode_of(trajectory: Trajectory) -> Episode:
    """A trajectory in short, not judged yet."""
    branch = trajectory.branch() if trajectory.leaf is not None else []
    turns = [node for node in trajectory.nodes if node.kind is NodeKind.TURN]
    events = [event for node in branch for event in node.events]
    verdict, question = trajectory.meta.get(META_KEY), trajectory.question
    return Episode(
        question=question.id,
        attempt=trajectory.seeds.attempt,
        ending=trajectory.ending,
        correct=None,
        model=trajectory.model,
        world=trajectory.world,
        turns=sum(node.kind is NodeKind.TURN for node in branch),
        calls=len(events),
        visits=sum(event.role == "visit" for event in events),
        sampled_tokens=_sum([one.sampled_tokens if one.token_ids is None else len(one.token_ids) for one in turns]),
        seconds=trajectory.seconds,
        prompt_tokens=_sum([node.prompt_tokens for node in turns]),
        id=trajectory.id,
        seed=trajectory.seeds.run,
        asked=asked_digest(question),
        accepted=answers_digest(question),
        answer=trajectory.answer,
        profile=trajectory.profile,
        verdict=verdict if isinstance(verdict, dict) else {},
    )


def asked_digest(question: Question) -> str:
    """What makes a question the same for an agent."""
    return _digest(question.text, *sorted(set(question.masked_urls)))


def answers_digest(question: Question) -> str:
    """What makes it the same for a judge."""
    return _digest(*question.answers)


@lru_cache(maxsize=1 << 16)  # a question has many attempts
def _digest(*texts: str) -> str:
    return hashlib.sha256(encode_record(list(texts))).hexdigest()[:16]


def _sum(counts: list[int]) -> int | None:
    """None where one of them is not known; a turn takes one token at least."""
    return sum(counts) if counts and all(counts) else None


class JudgedAttempt(Record):
    """One attempt and all that was said of it. A person stands before every judge; the second judge decides nothing."""

    question: str
    attempt: int
    id: str  # of its trajectory
    ending: Ending | None
    correct: bool | None  # None: unscored
    score: float | None = None
    code: Code = Code.JUDGED
    judge: str  # whose verdict it is: the judge, or ``by hand``
    reason: str = ""
    before: dict[str, Any] = Field(default_factory=dict[str, Any])  # the judge's, where a person decides
    second: bool | None = None  # the second judge's verdict; None: unscored by it, or there is none
    second_reason: str = ""

    @property
    def key(self) -> Key:
        return self.question, self.attempt

    @property
    def overruled(self) -> bool | None:
        """What the judge had said before a person did; None: it had not, or no person did."""
        return self.before.get("correct")

    @property
    def by_judge(self) -> bool | None:
        """The judge's own verdict, whatever a person said."""
        return self.overruled if self.code is Code.BY_HAND else self.correct


# Figures ----------------------------------------------------------------------------------------------------------------


class QuestionCounts(Record):
    """One question's attempts."""

    id: str
    text_digest: str = ""  # of what was asked, blanks counting as one
    groups: dict[str, tuple[str, ...]] = {}  # what it belongs to: ``{"level": ("2",), "topic": ("sports", "history")}``
    attempts: int
    scored: int
    correct: int


class Estimate(Record):
    """A mean over questions with its 95% interval (bootstrap over questions; Wilson where it would have no width)."""

    value: float | None  # None when no question has enough scored attempts
    interval: Interval | None
    questions: int  # in the mean
    too_few: int  # left out for want of scored attempts


class Group(Record):
    """Pass@1 over a part of the questions."""

    pass_at_1: Estimate
    attempts: int
    unscored: int


class Cost(Record):
    """The agent's tokens at the run's prices. Every prompt counts in full: what a server's cache saves is not known."""

    prompt_price: float  # per million tokens, in the user's currency
    sampled_price: float
    total: float | None  # None where a server did not say what an attempt took
    attempt: float | None
    right: float | None  # what all attempts cost, over the number of right ones


class GuardFigures(Record):
    """What the guard of a run did; the same thing hidden twice from one attempt counts once."""

    kinds: dict[GuardKind, int]
    attempts: int  # that something was hidden from


class Agreed(Record):
    """How far two judges of the same attempts agree."""

    first: str
    second: str
    both: int  # both said right
    neither: int
    first_only: int
    second_only: int
    first_unscored: int  # the first gave no verdict; the second may have
    second_unscored: int  # the first gave one, the second did not
    kappa: float | None  # None where it is not defined: nothing scored by both, or both always of the one same verdict
    agreed: float | None  # share of what both scored
    questions: int


class EvalResult(Record):
    """The figures of one evaluation, with what made them.

    Example: ``EvalResult.load(path).pass_at_1.interval``
    """

    schema_version: int = 2
    model: str
    world: str
    judge: str
    second_judge: str = ""  # compared with the first, and decides nothing
    by_hand: int = 0  # attempts that a person has judged
    command: str  # that made the attempts
    judging_command: str = ""  # that judged them again; empty: the same one
    seed: int
    version: str  # of the package
    date: str  # ISO date and time of the end of the run, UTC
    attempts: int  # at each question; of others' runs the most at any
    questions: tuple[QuestionCounts, ...]
    pass_at_k: dict[int, Estimate]  # for every k up to ``attempts``: the chance that one of k attempts is right, unbiased
    pass_hat_k: dict[int, Estimate]  # the chance that all k attempts are right, unbiased
    groups: dict[str, dict[str, Group]] = {}
    cost: Cost | None = None
    guard: GuardFigures | None = None  # None: there was no guard
    agreement: tuple[Agreed, ...] = ()  # the judge with the second one, and with a person
    endings: dict[Ending, int]  # of records that say how they ended
    unscored: int
    mean_turns: float | None  # means are over scored attempts
    mean_calls: float | None
    visit_share: float | None = None  # visits among all tool calls; None without calls
    mean_sampled_tokens: float | None
    seconds: float  # wall time of the run that wrote this result
    episode_seconds: float  # sum of all attempts' wall times, resumed ones included
    resumed: int  # attempts that an earlier, interrupted run had finished
    invalid_because: str = ""  # one sentence; empty: the run is valid

    @property
    def pass_at_1(self) -> Estimate:
        """Accuracy averaged over attempts, each question weighing the same."""
        return self.pass_at_k[1]

    @property
    def made(self) -> int:
        """Attempts at all questions together."""
        return sum(one.attempts for one in self.questions)

    @property
    def valid(self) -> bool:
        """Whether few enough attempts were unscored for the figures to mean something."""
        return not self.invalid_because

    def per_question(self) -> dict[str, float]:
        """Share of right attempts of each question that has a scored one."""
        return {q.id: q.correct / q.scored for q in self.questions if q.scored}

    def save(self, path: Path) -> None:
        """Write as JSON, whole or not at all."""
        replace_file(path, self.model_dump_json(indent=1) + "\n")

    @classmethod
    def load(cls, path: Path) -> "EvalResult":
        """Read what :meth:`save` wrote. Raises UserError when it is missing or damaged."""
        with or_cannot(f"read {path}", "run the evaluation that writes it first"):
            text = path.read_bytes()
        try:
            return cls.model_validate_json(text)
        except ValidationError as error:
            raise UserError(f"{path} is not an evaluation result of this version: run the evaluation again.") from error
