"""Attempts at questions: each several times, judged, stored, resumable, and honest about outages.

A *rollout* is the one agent loop, handed in. An attempt is stored the moment it is judged, so a run that is killed at any
moment goes on with the same call and repeats nothing that was finished. An attempt that ends in an outage is tried again a few
times, then stored as unscored; the next run (or, where rounds are counted, the next *round*) tries it once more. When only the
judge failed, or accepted answers were mended, the next run judges an attempt without repeating it. Once a budget is spent,
somebody cancels, or the model is out of reach in attempt after attempt, nothing more is begun.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, NamedTuple

from sanderling.agent.agent import Agent, Silence
from sanderling.agent.journal import Journal
from sanderling.agent.loop import Event
from sanderling.core.errors import UserError
from sanderling.core.record import Question, Seeds, Trajectory
from sanderling.core.types import BudgetSpentError, Ending
from sanderling.evaluate.episodes import ROUND, Episode, Key, asked_digest
from sanderling.evaluate.log import AttemptStore
from sanderling.judge.verdict import META_KEY, Judge, patiently_rule_on, recorded
from sanderling.policy.contract import PolicyOutageError
from sanderling.tools.contract import ToolOutageError

Rollout = Callable[[Question, int], Awaitable[Trajectory]]
"""``(question, attempt) -> trajectory``; its ``seeds.attempt`` is the attempt."""
PAUSES = (1.0, 2.0)
"""Seconds before an outage of the tools, the model or the judge is tried once more."""


class Watch:
    """What whoever watches a run hears while it happens, on the event loop; does nothing: override what is wanted."""

    def resumed(self, episodes: Iterable[Episode]) -> None:
        """Attempts that earlier runs had finished; before anything is begun."""

    def begun(self, key: Key) -> None:
        """An attempt has a place among those under way."""

    def heard(self, key: Key, event: Event) -> None:
        """What the agent does. No text."""

    def waits(self, key: Key, why: str, pause_s: float) -> None:
        """An attempt met an outage, and is tried again after the pause."""

    def ended(self, episode: Episode) -> None:
        """An attempt is stored; told again when a verdict comes later."""

    def judged(self, count: int) -> None:
        """All attempts are made, and the judges have looked through so many of them."""

    def freed(self, key: Key) -> None:
        """Its place is free again, whether it was stored or put off (cancelled, or out of budget)."""


class Progress(NamedTuple):
    """How far a run is."""

    done: int
    total: int
    scored: int
    correct: int


class Counting(Watch):
    """Tells how far a run is whenever that changes.

    Example: ``evaluate(agent, questions, watch=Counting(len(questions), print))``
    """

    def __init__(self, total: int, tell: Callable[[Progress], None]) -> None:
        self._total, self._tell = total, tell
        self._counts: Counter[bool | None] = Counter()

    def resumed(self, episodes: Iterable[Episode]) -> None:
        self._counts.update(episode.correct for episode in episodes)
        right, wrong = self._counts[True], self._counts[False]
        self._tell(Progress(self._counts.total(), self._total, right + wrong, right))

    def ended(self, episode: Episode) -> None:
        self.resumed([episode])


@dataclass(frozen=True)
class Attempts:
    """What is to be attempted, in which order: every question once, then twice, so that a spent budget leaves an average."""

    questions: Sequence[Question]
    each: int
    seed: int  # ``seeds.run`` of every episode
    round: int | None = None  # outages of this round are not tried again; None: every run tries them
    unjudged: bool = False  # questions without accepted answers are attempted as well, and never scored
    together: bool = False  # all attempts at a question in a row: a policy in this process computes once what they begin with

    def order(self) -> list[tuple[Question, int]]:
        """Questions and attempts as they are begun. Raises UserError."""
        if not self.questions:
            raise UserError("There are no questions to attempt: give a file with at least one.")
        ids = Counter(question.id for question in self.questions)
        if (id := max(ids, key=lambda id: ids[id])) and ids[id] > 1:
            raise UserError(f"Two questions have the id {id!r}: give each its own.")
        silent = next((question.id for question in self.questions if not question.answers), None)
        if silent is not None and not self.unjudged:
            raise UserError(f"Question {silent!r} has no accepted answer: add one, or leave the question out.")
        if self.together:
            return [(question, attempt) for question in self.questions for attempt in range(self.each)]
        return [(question, attempt) for attempt in range(self.each) for question in self.questions]


@dataclass(frozen=True)
class Made:
    """What a store holds when a run ends."""

    episodes: dict[Key, Episode]  # with the judge's verdict
    resumed: int  # that an earlier run had finished
    stopped: str = ""  # why nothing more was begun; empty: everything was
    cancelled: bool = False  # somebody stopped it


def rollout_of(
    agent: Agent,
    seed: int,
    *,
    journal: Journal | None = None,
    cancel: asyncio.Event | None = None,
    watch: Watch | None = None,
) -> Rollout:
    """An agent's attempts under one seed: attempt k of a question is the same episode whoever runs it and whenever."""

    async def rollout(question: Question, attempt: int) -> Trajectory:
        seeds = Seeds(run=seed, episode=seed, attempt=attempt)
        on_event = None if watch is None else partial(watch.heard, (question.id, attempt))
        return await agent.run(question, seeds, journal=journal, cancel=cancel, on_event=on_event, texts=False)

    return rollout


async def make_attempts(
    wanted: Attempts,
    rollout: Rollout,
    judge: Judge,
    store: AttemptStore,
    *,
    concurrency: int = 8,
    pauses: Sequence[float] = PAUSES,
    on_stored: Callable[[Episode], None] | None = None,
    watch: Watch | None = None,
    cancel: asyncio.Event | None = None,
) -> Made:
    """Make the attempts, or go on with what ``store`` already holds.

    ``on_stored`` hears of every attempt that the store holds, those of earlier runs included. At most ``concurrency`` episodes
    run at once. A cancelled episode is not stored: it is still to be made. Raises UserError for questions without accepted
    answers, repeated ids, or a store that holds another run; other exceptions of ``rollout`` propagate.
    """
    run = _Making(wanted, rollout, judge, store, pauses, watch or Watch(), on_stored, cancel, Silence(concurrency))
    return await run.made(concurrency)


@dataclass
class _Making:
    """What attempts at the same time share, and what has come of them so far."""

    wanted: Attempts
    rollout: Rollout
    judge: Judge
    store: AttemptStore
    pauses: Sequence[float]
    watch: Watch
    on_stored: Callable[[Episode], None] | None
    cancel: asyncio.Event | None
    silence: Silence
    episodes: dict[Key, Episode] = field(default_factory=dict[Key, Episode])
    unjudged: dict[Key, Episode] = field(default_factory=dict[Key, Episode])
    stops: list[str] = field(default_factory=list[str])
    writing: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def made(self, concurrency: int) -> Made:
        """Attempt what the store does not hold."""
        order, asked = self.wanted.order(), {question.id: question for question in self.wanted.questions}
        settled = self._read(asked)
        self.watch.resumed([self._take(one, asked[one.question]) for one in settled.values()])
        pending = [(question, attempt) for question, attempt in order if (question.id, attempt) not in settled]
        queue = iter(pending)
        try:  # the first failure stops the others and is raised as itself
            async with asyncio.TaskGroup() as group:
                for _ in range(min(concurrency, len(pending))):
                    group.create_task(self._work(queue))
        except ExceptionGroup as failures:
            raise failures.exceptions[0] from None
        if self._cancelled:
            self.stops.append("It was stopped.")
        stopped = self.stops[0] if self.stops and len(self.episodes) < len(order) else ""
        return Made(self.episodes, len(settled), stopped, self._cancelled)

    @property
    def _cancelled(self) -> bool:
        return self.cancel is not None and self.cancel.is_set()

    def _read(self, asked: Mapping[str, Question]) -> dict[Key, Episode]:
        """What an earlier run settled; those that it left without a verdict are kept apart, and other outages tried again."""
        digests = {id: asked_digest(question) for id, question in asked.items()}
        settled: dict[Key, Episode] = {}
        for one in self.store.episodes():
            if one.question not in asked or one.attempt >= self.wanted.each:
                continue
            if one.asked != digests[one.question] or one.seed != self.wanted.seed:
                raise UserError(f"The store already holds another run of question {one.question!r}: choose another store.")
            if self.on_stored is not None:
                self.on_stored(one)
            settled.pop(one.key, None)
            self.unjudged.pop(one.key, None)
            if one.ending is not None and one.ending.scored:
                is_judged = one.ruling(self.judge.name, asked[one.question]) is not None
                (settled if is_judged else self.unjudged)[one.key] = one
            elif one.ending is not None and one.round is not None and one.round == self.wanted.round:
                settled[one.key] = one
        return settled

    def _take(self, episode: Episode, question: Question) -> Episode:
        """Take in what the store holds of an attempt."""
        correct = episode.ruling(self.judge.name, question) if episode.can_be_judged else None
        self.episodes[episode.key] = found = replace(episode, correct=correct)
        return found

    async def _work(self, pending: Iterator[tuple[Question, int]]) -> None:
        """One attempt after the other, of those that nobody has begun."""
        for question, attempt in pending:
            if self.stops or self._cancelled:
                return
            self.watch.begun((question.id, attempt))
            try:
                if (episode := await self._stored(question, attempt)) is not None:
                    if self.on_stored is not None:
                        self.on_stored(episode)
                    self.watch.ended(self._take(episode, question))
            except BudgetSpentError as error:
                self.stops.append(str(error))
            finally:
                self.watch.freed((question.id, attempt))

    async def _stored(self, question: Question, attempt: int) -> Episode | None:
        """Make an attempt, or only judge it where it was made before, and store it; None: it was cancelled."""
        if (known := self.unjudged.get((question.id, attempt))) is not None:
            return await self._write(self.store.judged, known, question, await self._verdict(known.case(question)))
        trajectory = await self._once(question, attempt)
        for pause in self.pauses:
            if trajectory.ending not in (Ending.TOOL_OUTAGE, Ending.POLICY_OUTAGE):
                break
            self.watch.waits((question.id, attempt), trajectory.detail, pause)
            await asyncio.sleep(pause)
            trajectory = await self._once(question, attempt)
        if trajectory.ending is Ending.CANCELLED and self._cancelled:
            return None
        if why := self.silence.after(trajectory):
            self.stops.append(why)
        meta = {**trajectory.meta}
        if trajectory.ending is not None and trajectory.ending.scored:
            meta[META_KEY] = await self._verdict(trajectory)
        if self.wanted.round is not None:
            meta[ROUND] = self.wanted.round
        return await self._write(self.store.append, trajectory.model_copy(update={"meta": meta}))

    async def _verdict(self, trajectory: Trajectory) -> dict[str, Any]:
        verdict = await patiently_rule_on(trajectory, self.judge, self.pauses)
        return recorded(verdict, self.judge.name, self.judge.places)

    async def _write(self, write: Callable[..., Episode], *what: object) -> Episode:
        async with self.writing:  # in a thread: encoding and flushing a long record would hold up every other episode
            return await asyncio.to_thread(write, *what)

    async def _once(self, question: Question, attempt: int) -> Trajectory:
        try:
            return await self.rollout(question, attempt)
        except (PolicyOutageError, ToolOutageError) as error:  # before the episode could begin
            ending = Ending.POLICY_OUTAGE if isinstance(error, PolicyOutageError) else Ending.TOOL_OUTAGE
            seeds = Seeds(run=self.wanted.seed, attempt=attempt)
            told = {"id": f"{question.id}-{attempt}", "question": question, "seeds": seeds, "detail": str(error)}
            return Trajectory(nodes=(), leaf=None, ending=ending, **told)
