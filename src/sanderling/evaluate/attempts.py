"""Attempts at questions: each several times, judged, stored, resumable, and honest about outages.

A *rollout* is the one agent loop, handed in. An attempt is stored the moment it is judged, so a run that is killed at any
moment goes on with the same call and repeats nothing that was finished. An attempt that ends in an outage is tried again a few
times, then stored as unscored; the next run tries it once more. When only the judge failed, or accepted answers were mended,
the next run judges an attempt without repeating it. Once a budget is spent, somebody cancels, or the model is out of reach in
attempt after attempt, nothing more is begun.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from sanderling.agent.agent import Agent, Silence
from sanderling.agent.journal import Journal
from sanderling.core.errors import UserError
from sanderling.core.record import Question, Seeds, Trajectory
from sanderling.core.types import BudgetSpentError, Ending
from sanderling.data.questions import require_distinct
from sanderling.evaluate.log import AttemptStore
from sanderling.evaluate.result import Episode, Key, asked_digest
from sanderling.judge.verdict import META_KEY, Judge, patiently_rule_on, recorded
from sanderling.policy.contract import PolicyOutageError
from sanderling.runs.work import in_parallel
from sanderling.tools.contract import ToolOutageError

Rollout = Callable[[Question, int], Awaitable[Trajectory]]
"""``(question, attempt) -> trajectory``; its ``seeds.attempt`` is the attempt."""
PAUSES = (1.0, 2.0)
"""Seconds before an outage of the tools, the model or the judge is tried once more."""


Watch = Callable[[Sequence[Episode], str], None]
"""Hears, on the event loop, of attempts that are stored (again when a verdict comes later), or in words what else happens."""


@dataclass(frozen=True)
class Made:
    """What a store holds when a run ends."""

    episodes: dict[Key, Episode]  # with the judge's verdict
    resumed: int  # that an earlier run had finished
    stopped: str = ""  # why nothing more was begun; empty: everything was
    cancelled: bool = False  # somebody stopped it


def rollout_of(agent: Agent, seed: int, *, journal: Journal | None = None, cancel: asyncio.Event | None = None) -> Rollout:
    """An agent's attempts under one seed: attempt k of a question is the same episode whoever runs it and whenever."""

    async def rollout(question: Question, attempt: int) -> Trajectory:
        seeds = Seeds(run=seed, episode=seed, attempt=attempt)
        return await agent.run(question, seeds, journal=journal, cancel=cancel, texts=False)

    return rollout


@dataclass
class Attempts:
    """Attempts at questions: every question once, then twice, so that a spent budget leaves an average.

    Example: ``await Attempts(questions, 4, 0, rollout_of(agent, 0), judge, RunLog(place)).make()``
    """

    questions: Sequence[Question]
    each: int
    seed: int  # ``seeds.run`` of every episode
    rollout: Rollout
    judge: Judge
    store: AttemptStore
    together: bool = False  # all attempts at a question in a row: a policy in this process computes once what they begin with
    pauses: Sequence[float] = PAUSES
    on_stored: Callable[[Episode], None] | None = None  # hears of all that the store holds, earlier runs' included
    watch: Watch | None = None
    cancel: asyncio.Event | None = None
    _episodes: dict[Key, Episode] = field(default_factory=dict[Key, Episode])
    _unjudged: dict[Key, Episode] = field(default_factory=dict[Key, Episode])
    _stops: list[str] = field(default_factory=list[str])
    _writing: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def make(self, concurrency: int = 8) -> Made:
        """Make the attempts that ``store`` does not hold, at most so many at once.

        A cancelled episode is not stored: it is still to be made. Raises UserError for questions without accepted answers,
        repeated ids, or a store that holds another run; other exceptions of ``rollout`` propagate.
        """
        order, asked = self._order(), {question.id: question for question in self.questions}
        self._silence, self._heard = Silence(concurrency), self.watch or (lambda episodes, note: None)
        settled = self._read(asked)
        self._heard([self._take(one, asked[one.question]) for one in settled.values()], "")
        pending = [(question, attempt) for question, attempt in order if (question.id, attempt) not in settled]
        pending.sort(key=lambda one: (one[0].id, one[1]) in self._episodes)  # earlier outages last, which may meet another
        await in_parallel(self._work, pending, concurrency)
        if self._cancelled:
            self._stops.append("It was stopped.")
        stopped = self._stops[0] if self._stops and (self._cancelled or len(self._episodes) < len(order)) else ""
        return Made(self._episodes, len(settled), stopped, self._cancelled)

    def _order(self) -> list[tuple[Question, int]]:
        """Questions and attempts as they are begun. Raises UserError."""
        if not self.questions:
            raise UserError("There are no questions to attempt: give a file with at least one.")
        require_distinct(self.questions)
        silent = next((question.id for question in self.questions if not question.answers), None)
        if silent is not None:
            raise UserError(f"Question {silent!r} has no accepted answer: add one, or leave the question out.")
        if self.together:
            return [(question, attempt) for question in self.questions for attempt in range(self.each)]
        return [(question, attempt) for attempt in range(self.each) for question in self.questions]

    @property
    def _cancelled(self) -> bool:
        return self.cancel is not None and self.cancel.is_set()

    def _read(self, asked: Mapping[str, Question]) -> dict[Key, Episode]:
        """What an earlier run settled; those that it left without a verdict are kept apart, and outages are tried again."""
        digests = {id: asked_digest(question) for id, question in asked.items()}
        settled: dict[Key, Episode] = {}
        for one in self.store.episodes():
            if one.question not in asked or one.attempt >= self.each:
                continue
            if one.asked != digests[one.question] or one.seed != self.seed:
                raise UserError(f"The store already holds another run of question {one.question!r}: choose another store.")
            if self.on_stored is not None:
                self.on_stored(one)
            for earlier in (settled, self._unjudged, self._episodes):
                earlier.pop(one.key, None)
            if one.ending is None or not one.ending.scored:
                self._take(one, asked[one.question])
            elif one.ruling(self.judge.name, asked[one.question]) is not None:
                settled[one.key] = one
            else:
                self._unjudged[one.key] = one
        return settled

    def _take(self, episode: Episode, question: Question) -> Episode:
        """Take in what the store holds of an attempt."""
        can_be_judged = episode.ending is None or episode.ending.scored  # others' records often do not say how they ended
        correct = episode.ruling(self.judge.name, question) if can_be_judged else None
        self._episodes[episode.key] = found = replace(episode, correct=correct)
        return found

    async def _work(self, one: tuple[Question, int]) -> None:
        """Make one attempt, unless nothing more is to be begun."""
        if self._stops or self._cancelled:
            return
        try:
            if (episode := await self._stored(*one)) is not None:
                if self.on_stored is not None:
                    self.on_stored(episode)
                self._heard([self._take(episode, one[0])], "")
        except BudgetSpentError as error:
            self._stops.append(str(error))

    async def _stored(self, question: Question, attempt: int) -> Episode | None:
        """Make an attempt, or only judge it where it was made before, and store it; None: it was cancelled."""
        if (known := self._unjudged.get((question.id, attempt))) is not None:
            return await self._write(self.store.judged, known, question, await self._verdict(known.case(question)))
        trajectory = await self._once(question, attempt)
        for pause in self.pauses:
            if trajectory.ending not in (Ending.TOOL_OUTAGE, Ending.POLICY_OUTAGE):
                break
            self._heard((), f"{trajectory.detail} {question.id} #{attempt} is tried again in {pause:.3g} s.")
            await asyncio.sleep(pause)
            trajectory = await self._once(question, attempt)
        if trajectory.ending is Ending.CANCELLED and self._cancelled:
            return None
        if why := self._silence.after(trajectory):
            self._stops.append(why)
        if trajectory.ending is not None and trajectory.ending.scored:
            meta = {**trajectory.meta, META_KEY: await self._verdict(trajectory)}
            trajectory = trajectory.model_copy(update={"meta": meta})
        return await self._write(self.store.append, trajectory)

    async def _verdict(self, trajectory: Trajectory) -> dict[str, Any]:
        verdict = await patiently_rule_on(trajectory, self.judge, self.pauses)
        return recorded(verdict, self.judge.name, self.judge.places)

    async def _write(self, write: Callable[..., Episode], *what: object) -> Episode:
        async with self._writing:  # in a thread: encoding and flushing a long record would hold up every other episode
            return await asyncio.to_thread(write, *what)

    async def _once(self, question: Question, attempt: int) -> Trajectory:
        try:
            return await self.rollout(question, attempt)
        except (PolicyOutageError, ToolOutageError) as error:  # before the episode could begin
            ending = Ending.POLICY_OUTAGE if isinstance(error, PolicyOutageError) else Ending.TOOL_OUTAGE
            seeds = Seeds(run=self.seed, attempt=attempt)
            about = {"id": f"{question.id}-{attempt}", "question": question, "seeds": seeds, "detail": str(error)}
            return Trajectory(nodes=(), leaf=None, ending=ending, **about)
