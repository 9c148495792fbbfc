"""Attempts at questions: each question several times, judged, stored, resumable, and honest about outages.

What an evaluation, the making of trajectories and the measuring of difficulty have in common. There is no agent loop here:
``rollout`` is the one loop, handed in. An episode is stored the moment it is judged, so a run that is killed at any moment goes
on with the same call and repeats nothing that was finished; episodes under way go on, too, where ``rollout`` keeps a journal
and ``on_stored`` tells it what has become of them. An attempt that ends in an outage is tried again a few times, then stored as
unscored; the next run of the same store tries it once more, or the next *round* where rounds are counted: there an outage is
settled until its round is over, so that how often a run was interrupted changes nothing. When only the judge fails, the episode
is stored without a verdict and the next run judges it without repeating it; so does a question whose accepted answers were
mended. Once a budget is spent, somebody cancels, or the model is out of reach in attempt after attempt, nothing more is begun.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace

from sanderling.agent.agent import Silence
from sanderling.core.asking import BudgetSpentError
from sanderling.core.errors import UserError
from sanderling.core.record import Question, Seeds, Trajectory
from sanderling.core.types import Ending
from sanderling.evaluate.attempt_stores import AttemptStore
from sanderling.evaluate.episodes import Episode
from sanderling.evaluate.rows import ROUND, AttemptRow, Key, asked_digest
from sanderling.evaluate.watch import Watch
from sanderling.judge.verdict import META_KEY, Code, Judge, Ruling, Verdict, recorded, rule_on
from sanderling.policy.contract import PolicyOutageError
from sanderling.tools.contract import ToolOutageError

Rollout = Callable[[Question, int], Awaitable[Trajectory]]
"""``(question, attempt) -> trajectory``; its ``seeds.attempt`` is the attempt."""


@dataclass(frozen=True)
class Retry:
    """How patient a run is with outages of the tools, the model and the judge."""

    times: int = 2
    pause_s: float = 1.0
    """Before the first retry; doubled before each further one."""

    def pauses(self) -> list[float]:
        """Seconds before each retry."""
        return [self.pause_s * 2**index for index in range(self.times)]


PATIENT = Retry()


@dataclass(frozen=True)
class Attempts:
    """What is to be attempted."""

    questions: Sequence[Question]
    each: int
    seed: int
    """``seeds.run`` of every episode."""
    round: int | None = None
    """Outages of this round are not tried again; None: every run tries them."""
    unjudged: bool = False
    """Questions without accepted answers are attempted as well, and never scored."""
    together: bool = False
    """All attempts at a question next to each other, so that a policy in this process computes once what they begin with.

    False: every question once, then twice, so that what a spent budget or a stop leaves is an average over all questions.
    """

    def order(self) -> list[tuple[Question, int]]:
        """Questions and attempts as they are begun."""
        if self.together:
            return [(question, attempt) for question in self.questions for attempt in range(self.each)]
        return [(question, attempt) for attempt in range(self.each) for question in self.questions]


@dataclass(frozen=True)
class Made:
    """What a store holds when a run ends."""

    episodes: dict[Key, Episode]
    """With the judge's verdict."""
    rows: dict[Key, AttemptRow]
    """What is stored of them."""
    resumed: int
    """Episodes that an earlier run had finished."""
    stopped: str = ""
    """Why nothing more was begun; empty: everything was."""
    cancelled: bool = False
    """Somebody stopped it."""


@dataclass(frozen=True)
class _Stored:
    """What an earlier run left behind."""

    settled: dict[Key, AttemptRow]
    unjudged: dict[Key, AttemptRow]


@dataclass
class _Run:
    """What attempts at the same time share, and what has come of them so far."""

    wanted: Attempts
    rollout: Rollout
    judge: Judge
    store: AttemptStore
    retry: Retry
    hear: Callable[[AttemptRow], None]
    watch: Watch
    cancel: asyncio.Event | None
    stored: _Stored
    silent: Silence
    writer: ThreadPoolExecutor
    """Encoding and flushing a long record would hold up every other episode: one thread writes, in their order."""
    rows: dict[Key, AttemptRow] = field(default_factory=dict)
    episodes: dict[Key, Episode] = field(default_factory=dict)
    stops: list[str] = field(default_factory=list)

    @property
    def cancelled(self) -> bool:
        return self.cancel is not None and self.cancel.is_set()

    def holds(self, row: AttemptRow, question: Question) -> Episode:
        """Take in what the store holds of an attempt."""
        self.rows[row.key] = row
        self.episodes[row.key] = episode = _judged(row, question, self.judge.name)
        return episode

    async def work(self, pending: Iterator[tuple[Question, int]]) -> None:
        """One attempt after the other, of those that nobody has begun."""
        for question, attempt in pending:
            if self.stops or self.cancelled:
                return
            self.watch.begun((question.id, attempt))
            try:
                if (row := await self._row(question, attempt)) is not None:
                    self.hear(row)
                    self.watch.ended(self.holds(row, question))
            except BudgetSpentError as error:
                self.stops.append(str(error))
            finally:
                self.watch.freed((question.id, attempt))

    async def _row(self, question: Question, attempt: int) -> AttemptRow | None:
        """Make an attempt, or only judge it where it was made before, and store it; None: it was cancelled."""
        if (known := self.stored.unjudged.get((question.id, attempt))) is not None:
            verdict = await verdict_on(known.case(question), self.judge, self.retry)
            return await self._write(self.store.judged, known, question, recorded(verdict, self.judge.name, self.judge.places))
        trajectory = await _attempt(self.rollout, question, attempt, self.wanted.seed, self.retry, self.watch)
        if trajectory.ending is Ending.CANCELLED and self.cancelled:
            return None
        if why := self.silent.after(trajectory):
            self.stops.append(why)
        _check_model(trajectory.model, self.rows.values())
        return await self._write(self.store.append, await _finished(trajectory, self.judge, self.retry, self.wanted.round))

    async def _write(self, write: Callable[..., AttemptRow], *what: object) -> AttemptRow:
        return await asyncio.get_running_loop().run_in_executor(self.writer, write, *what)


async def make_attempts(
    wanted: Attempts,
    rollout: Rollout,
    judge: Judge,
    store: AttemptStore,
    *,
    concurrency: int = 8,
    retry: Retry = PATIENT,
    on_stored: Callable[[AttemptRow], None] | None = None,
    watch: Watch | None = None,
    cancel: asyncio.Event | None = None,
) -> Made:
    """Make the attempts, or go on with what ``store`` already holds.

    ``on_stored`` hears of every record of this run that the store holds, those of earlier runs included. At most
    ``concurrency`` episodes run at once. A cancelled episode is not stored: it is still to be made. Raises UserError for
    questions without accepted answers, repeated ids, or a store that holds another run; other exceptions of ``rollout``
    propagate.
    """
    _check(wanted)
    hear, watch = on_stored or _nobody, watch or Watch()
    asked = {question.id: question for question in wanted.questions}
    stored = _read(store, wanted, asked, judge.name, hear)
    with ThreadPoolExecutor(1, "writer") as writer:
        run = _Run(wanted, rollout, judge, store, retry, hear, watch, cancel, stored, Silence(concurrency), writer)
        watch.resumed([run.holds(row, asked[key[0]]) for key, row in stored.settled.items()])
        pending = iter([one for one in wanted.order() if (one[0].id, one[1]) not in stored.settled])
        left = len(asked) * wanted.each - len(stored.settled)
        await _together(run.work(pending) for _ in range(min(concurrency, left)))
    if run.cancelled:
        run.stops.append("It was stopped.")
    stopped = run.stops[0] if run.stops and len(run.episodes) < len(asked) * wanted.each else ""
    return Made(run.episodes, run.rows, len(stored.settled), stopped, run.cancelled)


def _check(wanted: Attempts) -> None:
    if not wanted.questions:
        raise UserError("There are no questions to attempt: give a file with at least one.")
    if wanted.each < 1:
        raise UserError(f"{wanted.each} attempts were asked for: give at least 1.")
    seen: set[str] = set()
    for question in wanted.questions:
        if question.id in seen:
            raise UserError(f"Two questions have the id {question.id!r}: give each its own.")
        if not question.answers and not wanted.unjudged:
            raise UserError(f"Question {question.id!r} has no accepted answer: add one, or leave the question out.")
        seen.add(question.id)


def _nobody(row: AttemptRow) -> None:
    """Hears of a stored attempt, and does nothing about it."""


def _read(
    store: AttemptStore, wanted: Attempts, asked: Mapping[str, Question], judge: str, hear: Callable[[AttemptRow], None]
) -> _Stored:
    """Sort an earlier run's attempts into settled and unjudged ones; an outage of another round is neither, and tried again."""
    digests = {id: asked_digest(question) for id, question in asked.items()}
    settled: dict[Key, AttemptRow] = {}
    unjudged: dict[Key, AttemptRow] = {}
    for row in store.rows():
        (id, attempt), key = row.key, row.key
        if id not in asked or attempt >= wanted.each:
            continue
        if row.asked != digests[id] or row.run != wanted.seed:
            raise UserError(f"The store already holds another run of question {id!r}: choose another store.")
        hear(row)
        settled.pop(key, None)
        unjudged.pop(key, None)
        if row.ending is None or not row.ending.scored:
            if row.ending is not None and wanted.round is not None and row.round == wanted.round:
                settled[key] = row
        elif row.correct(judge, asked[id]) is None:
            unjudged[key] = row
        else:
            settled[key] = row
    return _Stored(settled, unjudged)


def _judged(row: AttemptRow, question: Question, judge: str) -> Episode:
    ended = row.ending is None or row.ending.scored
    return replace(row.episode, correct=row.correct(judge, question) if ended else None)


async def _attempt(rollout: Rollout, question: Question, attempt: int, seed: int, retry: Retry, watch: Watch) -> Trajectory:
    """One episode, tried again after outages; the last outage is returned as it is. Cancellation is never retried."""
    seeds = Seeds(run=seed, attempt=attempt)
    trajectory = await _once(rollout, question, seeds)
    for pause in retry.pauses():
        if trajectory.ending not in (Ending.TOOL_OUTAGE, Ending.POLICY_OUTAGE):
            break
        watch.waits((question.id, attempt), trajectory.detail, pause)
        await asyncio.sleep(pause)
        trajectory = await _once(rollout, question, seeds)
    return trajectory


async def _once(rollout: Rollout, question: Question, seeds: Seeds) -> Trajectory:
    try:
        trajectory = await rollout(question, seeds.attempt)
    except PolicyOutageError as error:
        return _outage(question, seeds, Ending.POLICY_OUTAGE, error)
    except ToolOutageError as error:
        return _outage(question, seeds, Ending.TOOL_OUTAGE, error)
    found = (trajectory.question.id, trajectory.seeds.run, trajectory.seeds.attempt)
    if found != (question.id, seeds.run, seeds.attempt):
        raise ValueError(f"the rollout of question {question.id!r} with {seeds} returned the trajectory of {found}")
    return trajectory


def _outage(question: Question, seeds: Seeds, ending: Ending, error: Exception) -> Trajectory:
    """A record of an outage before the episode could begin."""
    name = f"{question.id}-{seeds.attempt}"
    return Trajectory(id=name, question=question, nodes=(), leaf=None, ending=ending, seeds=seeds, detail=str(error))


async def _finished(trajectory: Trajectory, judge: Judge, retry: Retry, number: int | None) -> Trajectory:
    """The trajectory with its verdict, unless it met an outage, and its round."""
    meta = {**trajectory.meta}
    if trajectory.ending is not None and trajectory.ending.scored:
        meta[META_KEY] = recorded(await verdict_on(trajectory, judge, retry), judge.name, judge.places)
    if number is not None:
        meta[ROUND] = number
    return trajectory.model_copy(update={"meta": meta})


async def verdict_on(trajectory: Trajectory, judge: Judge, retry: Retry) -> Verdict:
    """A judge's word, asked for again while that may help."""
    verdict = await rule_on(trajectory, judge)
    for pause in retry.pauses():
        if verdict.ruling is not Ruling.UNSCORED or verdict.code not in (Code.JUDGED, Code.OUTAGE):
            break
        await asyncio.sleep(pause)
        verdict = await rule_on(trajectory, judge)
    return verdict


def _check_model(model: str, rows: Iterable[AttemptRow]) -> None:
    other = next((row.episode.model for row in rows if row.episode.model), "")
    if other and model and model != other:
        raise UserError(f"The store holds episodes of the model {other!r}, not {model!r}: choose another store.")


async def _together(work: Iterable[Awaitable[None]]) -> None:
    """Run all; the first failure stops the others and is raised as itself."""
    try:
        async with asyncio.TaskGroup() as group:
            for one in work:
                group.create_task(_awaited(one))
    except ExceptionGroup as failures:
        raise failures.exceptions[0] from None


async def _awaited(one: Awaitable[None]) -> None:
    await one
