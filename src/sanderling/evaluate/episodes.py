"""An attempt in short, and who was right: what going on with a run, judging it and its figures need, without its tokens.

A judge is shown a question, its accepted answers and the agent's own answer, so an `Episode` can be judged as its record can.
An answer is the agent's own or none: text of a tool result is never looked at.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from pydantic import Field

from sanderling.core.record import NodeKind, Question, Seeds, Trajectory, encode_record
from sanderling.core.types import Ending
from sanderling.evaluate.guarding import read_its_question
from sanderling.evaluate.result import Record
from sanderling.judge.rules import answer_tokens
from sanderling.judge.verdict import META_KEY, Code, verdict_in

ROUND = "round"
"""In a record's meta: the round of the run that made it."""
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
    vote: str | None = None  # the answer as answers are told apart when attempts vote; None: no answer
    contaminated: bool | None = None  # whether it read its question word for word; None: too short to be told
    # What going on with a run and judging it take:
    id: str = ""  # of its trajectory
    seed: int = 0  # the run's
    round: int | None = None
    asked: str = ""  # digest of the question's text and masks: what makes it the same question for an agent
    accepted: str = ""  # digest of the accepted answers that its verdict rests on
    answer: str | None = None
    profile: str = ""
    detail: str = ""  # how it ended, in words
    verdict: dict[str, Any] = field(default_factory=dict[str, Any])  # as `judge.verdict.recorded` gives it

    @property
    def key(self) -> Key:
        return self.question, self.attempt

    @property
    def can_be_judged(self) -> bool:
        """Whether it met no outage; others' records often do not say how they ended."""
        return self.ending is None or self.ending.scored

    def ruling(self, judge: str, question: Question, places: Sequence[str] | None = None) -> bool | None:
        """What the judge of this name (at these places) said under these accepted answers; None: nothing, or it failed."""
        return verdict_in(self.verdict, judge, places) if self.accepted == accepted_digest(question) else None

    def case(self, question: Question) -> Trajectory:
        """What a judge is shown of it."""
        seeds = Seeds(run=self.seed, attempt=self.attempt)
        found = {"id": self.id, "question": question, "ending": self.ending, "answer": self.answer, "seeds": seeds}
        return Trajectory(nodes=(), leaf=None, **found)


def episode_of(trajectory: Trajectory) -> Episode:
    """A trajectory in short, not judged yet."""
    branch = trajectory.branch() if trajectory.leaf is not None else []
    spoken = [node for node in trajectory.nodes if node.kind is NodeKind.TURN]
    events = [event for node in branch for event in node.events]
    meta, question = trajectory.meta, trajectory.question
    verdict, number = meta.get(META_KEY), meta.get(ROUND)
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
        sampled_tokens=_sum([one.sampled_tokens if one.token_ids is None else len(one.token_ids) for one in spoken]),
        seconds=trajectory.seconds,
        prompt_tokens=_sum([node.prompt_tokens for node in spoken]),
        vote=_vote(trajectory.answer),
        contaminated=read_its_question(trajectory),
        id=trajectory.id,
        seed=trajectory.seeds.run,
        round=number if isinstance(number, int) else None,
        asked=asked_digest(question),
        accepted=accepted_digest(question),
        answer=trajectory.answer,
        profile=trajectory.profile,
        detail=trajectory.detail,
        verdict=verdict if isinstance(verdict, dict) else {},
    )


def asked_digest(question: Question) -> str:
    """What makes a question the same for an agent."""
    return _digest(question.text, *sorted(set(question.masked_urls)))


def accepted_digest(question: Question) -> str:
    """What makes it the same for a judge."""
    return _digest(*question.answers)


@lru_cache(maxsize=1 << 16)  # a question has many attempts
def _digest(*texts: str) -> str:
    return hashlib.sha256(encode_record(list(texts))).hexdigest()[:16]


def _sum(counts: list[int]) -> int | None:
    """None where one of them is not known; a turn takes one token at least."""
    return sum(counts) if counts and all(counts) else None


def _vote(answer: str | None) -> str | None:
    if answer is None or not answer.strip():
        return None
    return " ".join(answer_tokens(answer)) or answer.strip()


# Who was right ------------------------------------------------------------------------------------------------------------

PUBLISHED = "published"
"""The second judge's name where others' own verdicts on what they made are compared with a judge's."""


class JudgedAttempt(Record):
    """One attempt and all that was said of it. A person stands before every judge; the second judge decides nothing."""

    question: str
    attempt: int
    id: str  # of its trajectory
    ending: Ending | None
    correct: bool | None  # None: unscored
    score: float | None = None
    code: Code = Code.JUDGED
    judge: str  # whose word it is: the judge, or ``by hand``
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
