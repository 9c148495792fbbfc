"""The producing half of an RL run: groups of rollouts that are begun, made and kept while updates go on.

A group begins when the bound on staleness lets it (admission); it waits when all its rollouts have ended;
:meth:`Rollouts.batch` takes those that a step trains on. Its question, seed and attempts follow from its number alone, so
neither order nor time changes what is sampled but for the weights. One event loop per rank; each rank makes its own share of
every step's groups.

What is kept, so that a kill at any moment loses at most the turn under way, is a :class:`Ledger`: two tables of the run's
database. ``records``: rollouts as they end, with their outcomes, so that no judge is asked twice. ``batches``: before a step's
update, what became of each group in it. A run that goes on does the updates after its last checkpoint again from these, to the
same weights. Rollouts under way are in the agent's episode journal. In a team every rank has a database of its own, and rank 0
has the batches.
"""

import asyncio
import hashlib
import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import numpy as np

from sanderling.agent.agent import Silence
from sanderling.core.errors import UserError
from sanderling.core.record import Question, Trajectory, encode_trajectory
from sanderling.rl.config import RlConfig, Straggler
from sanderling.rl.contract import Actor, Ask, FinishedRollout, Group, GroupStatus, Score, ScorerAwayError
from sanderling.runs.jsonl import TrajectoryStore
from sanderling.runs.run import RECORDS, Run

META = "rl"
"""Where a trajectory's ``meta`` says its group and outcome."""
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 5.0, 60.0
"""Before a judge who is away is asked again, doubled each time."""
Batch = dict[int, GroupStatus]
"""What became of a step's groups, by their numbers."""


# -- what is kept --------------------------------------------------------------------------------------------------------


class Ledger:
    """The groups of one rank, in the run of a directory; who calls has the directory to itself."""

    def __init__(self, directory: Path, rank: int = 0) -> None:
        self._run = Run(directory, rank=rank, locked=True)
        self._records, self._batches = self._run.table(RECORDS), self._run.table("batches")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._run.close()

    def claim(self, about: Mapping[str, Any]) -> None:
        """Rank 0: record what group numbers depend on. Raises UserError where earlier groups were made with other settings."""
        self._run.claim(about, "groups", "go on with the settings of before, or begin in another directory")

    def keep(self, number: int, attempt: int, ended: FinishedRollout) -> Trajectory:
        """Store a rollout for good; returns it as it is stored."""
        meta = {"group": number, "attempt": attempt, "outcome": ended.outcome}
        trajectory = ended.trajectory.model_copy(update={"meta": {**ended.trajectory.meta, META: meta}})
        self._records.put(f"{_of(number)}{attempt}", {"id": trajectory.id, **meta}, blob=encode_trajectory(trajectory))
        return trajectory

    def settle(self, step: int, batch: Batch) -> None:
        """Write down a step's groups, before its update. ``step``: steps done before it."""
        self._batches.put(str(step), batch)

    def batches(self) -> list[Batch]:
        """Those of all settled steps, in order."""
        found = sorted((int(step), batch) for step, batch in self._batches.items())
        return [{int(number): GroupStatus(status) for number, status in batch.items()} for _, batch in found]

    def ended(self, number: int) -> dict[int, FinishedRollout]:
        """A group's stored rollouts by attempt. Raises UserError for one that is damaged."""
        stored = self._records.items(_of(number))
        return {meta["attempt"]: FinishedRollout(self._records.record(key), meta["outcome"]) for key, meta in stored}

    def group(self, number: int) -> Group | None:
        """A group that ended; None where it is another rank's, or its rollouts are gone."""
        rollouts = [one for _, one in sorted(self.ended(number).items())]
        return Group(number, rollouts[0].trajectory.question, tuple(rollouts)) if rollouts else None


def _of(number: int) -> str:
    """How the keys of a group's rollouts begin."""
    return f"{number:08d}/"


# -- what is made --------------------------------------------------------------------------------------------------------


def question_at(questions: Sequence[Question], number: int, seed: int) -> Question:
    """The question of a group: every pass over the questions has a seeded order of its own."""
    turn, index = divmod(number, len(questions))
    return questions[int(np.random.default_rng((seed, turn)).permutation(len(questions))[index])]


def episode_seed(seed: int, number: int, question: Question) -> int:
    """What a group's rollouts share: the same faults for all of them, others when the question comes up again."""
    digest = hashlib.sha256(f"{seed}\x1f{number}\x1f{question.id}".encode()).digest()
    return int.from_bytes(digest[:7], "big")


@dataclass
class _UnderWay:
    """A group whose rollouts are being made."""

    number: int
    question: Question
    late: bool
    """It began in another's place, and is not cut off with its step."""
    asks: list[Ask] = field(default_factory=list)
    ended: dict[int, FinishedRollout] = field(default_factory=dict)
    """By attempt."""


class Rollouts:
    """A rank's groups: those under way, and those that wait for a step.

    Example: ``async with Rollouts(...) as rollouts: groups = await rollouts.batch()``
    """

    def __init__(
        self,
        config: RlConfig,
        actor: Actor,
        score: Score,
        ledger: Ledger,
        questions: Sequence[Question],
        judge: Callable[[Group, int], GroupStatus],
        places: Sequence[int],
        settled: set[int],
        steps_left: int,
        room: asyncio.Semaphore,
    ) -> None:
        """Nothing begins before the context is entered.

        ``judge``: ``(group, version) -> status``, whether a step that updates that version can train on it. ``places``: which
        of a step's groups (0 to ``questions_per_step - 1``) are this rank's. ``settled``: numbers that were dealt with before.
        ``steps_left``: how many steps groups are begun for. ``room``: for rollouts at once, whoever else makes some.
        """
        self._config, self._actor, self._score, self._ledger = config, actor, score, ledger
        self._questions, self._judge, self._places = questions, judge, places
        every = (step * config.questions_per_step + place for step in itertools.count() for place in places)
        self._numbers = (number for number in every if number not in settled)
        self._under_way: dict[int, _UnderWay] = {}
        self._waiting: list[Group] = []
        self._dropped: list[tuple[Group, GroupStatus]] = []
        """Since the last step."""
        self._statuses: dict[int, GroupStatus] = {}
        """Under the present version."""
        self._begun = 0
        """Groups begun since the last step was taken."""
        self._steps_left, self._room = steps_left, room
        self._silence = Silence(len(places) * (config.pipeline.max_staleness + 1) * config.group_size)
        self._updating = False
        self._news = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self._failure: BaseException | None = None

    async def __aenter__(self) -> Self:
        self._admit()
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    @property
    def under_way(self) -> int:
        """Groups whose rollouts are being made."""
        return len(self._under_way)

    @property
    def waiting(self) -> int:
        """Groups that wait for a step."""
        return len(self._waiting)

    async def batch(self) -> list[tuple[Group, GroupStatus]]:
        """The groups that the next step settles: as many to use as this rank has places, and those dropped on the way.

        Fewer where ``denoise.most_groups`` were tried. Groups of later steps go on being made. Raises what a rollout raised,
        and UserError when the model is out of reach in rollout after rollout.
        """
        wanted = len(self._places)
        while True:
            if self._failure is not None:
                raise self._failure
            self._news.clear()
            used = self._take(wanted)
            if len(used) == wanted or len(used) + len(self._dropped) >= self._most_tried:
                break
            self._admit()
            self._cut_off()
            await self._news.wait()
        taken = {group.number for group in used}
        self._waiting = [group for group in self._waiting if group.number not in taken]
        found, self._dropped = [*((group, GroupStatus.USED) for group in used), *self._dropped], []
        self._updating, self._begun = True, 0
        self._steps_left -= 1
        return sorted(found, key=lambda pair: pair[0].number)

    def settled(self, groups: Sequence[tuple[Group, GroupStatus]]) -> None:
        """What became of these is written down: their outages are not tried again."""
        for group, _ in groups:
            for one in group.rollouts:
                if one.outcome is None:
                    self._actor.forget(one.trajectory)

    def published(self) -> None:
        """Newer weights sample from now on: more groups may begin."""
        self._updating = False
        self._statuses.clear()
        self._admit()

    def _take(self, wanted: int) -> list[Group]:
        """The waiting groups to use, the longest begun first; those that never can be are moved to the dropped ones."""
        used: list[Group] = []
        for group in sorted(self._waiting, key=lambda group: group.number):
            if len(used) == wanted:
                break
            if group.number not in self._statuses:
                self._statuses[group.number] = self._judge(group, self._actor.sync.version)
            if (status := self._statuses[group.number]) is GroupStatus.USED:
                used.append(group)
            else:
                self._dropped.append((group, status))
                self._waiting.remove(group)
        return used

    @property
    def _most_tried(self) -> int:
        """Groups that a step tries at most."""
        return max(len(self._places), int(self._config.denoise.most_groups * len(self._places)))

    def _admit(self) -> None:
        """Begin groups as long as the bound on staleness lets them."""
        places = len(self._places)
        # What begins amid an update is sampled with the weights before it, and so counts as a step older.
        steps = self._config.pipeline.max_staleness + (0 if self._updating else 1)
        # The last tries of a step that drops much are not replaced: nothing of it is under way when it ends.
        spent = max(0, len(self._dropped) - (self._most_tried - places))
        while len(self._under_way) + len(self._waiting) < places * min(steps, self._steps_left) - spent:
            number = next(self._numbers)
            question = question_at(self._questions, number, self._config.seed)
            group = self._under_way[number] = _UnderWay(number, question, late=self._begun >= places)
            self._begun += 1
            task = asyncio.get_running_loop().create_task(self._make(group))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _make(self, group: _UnderWay) -> None:
        """All rollouts of a group; what an earlier process has finished is not made again."""
        try:
            unscored = self._recall(group)
            async with asyncio.TaskGroup() as together:
                for ask in group.asks:
                    together.create_task(self._rollout(group, ask, unscored.get(ask.attempt)))
            if len(group.ended) < self._config.group_size:  # a task group takes no notice of one that was cancelled by itself
                raise RuntimeError(f"group {group.number} ended with {len(group.ended)} rollouts")
            rollouts = tuple(one for _, one in sorted(group.ended.items()))
            self._waiting.append(Group(group.number, group.question, rollouts))
            del self._under_way[group.number]
            self._admit()
        except Exception as failure:  # whoever waits for a batch must hear of it
            first = failure.exceptions[0] if isinstance(failure, ExceptionGroup) else failure
            self._failure = self._failure or first
        finally:
            self._news.set()

    def _recall(self, group: _UnderWay) -> dict[int, Trajectory]:
        """What is on disk of a group; returns what is there without an outcome, by attempt: an outage is tried again."""
        stored, size = self._ledger.ended(group.number), self._config.group_size
        group.ended = {attempt: one for attempt, one in stored.items() if one.outcome is not None}
        for one in group.ended.values():
            self._actor.stored(one.trajectory)  # a kill may have come between
        seed = episode_seed(self._config.seed, group.number, group.question)
        attempts = range(group.number * size, (group.number + 1) * size)
        group.asks = [Ask(group.question, seed, attempt) for attempt in attempts if attempt not in group.ended]
        return {attempt: one.trajectory for attempt, one in stored.items() if one.outcome is None}

    async def _rollout(self, group: _UnderWay, ask: Ask, before: Trajectory | None) -> None:
        """One rollout until it is on disk."""
        ended = await made(ask, self._actor, self._score, self._config, self._room, before)
        kept = self._ledger.keep(group.number, ask.attempt, ended)
        self._actor.stored(kept)
        group.ended[ask.attempt] = FinishedRollout(kept, ended.outcome)
        self._news.set()
        check_reached(self._silence, kept)

    def _cut_off(self) -> None:
        """Ask the stragglers of a synchronous step for their answers, once most of it is done and where that is wanted."""
        pipeline, size = self._config.pipeline, self._config.group_size
        first = [group for group in self._under_way.values() if not group.late]
        left = sum(size - len(group.ended) for group in first)
        whole = size * len(self._places)
        if pipeline.straggler is Straggler.CUT_OFF and whole - left >= pipeline.cut_off_share * whole:
            for ask in (ask for group in first for ask in group.asks):
                ask.finish_early.set()


def check_reached(silence: Silence, trajectory: Trajectory) -> None:
    """Raises UserError when the model is out of reach in rollout after rollout."""
    if why := silence.after(trajectory, "rollouts"):
        raise UserError(f"{why} See that the model answers: the same command goes on where this one stopped.")


async def made(
    ask: Ask, actor: Actor, score: Score, config: RlConfig, room: asyncio.Semaphore, before: Trajectory | None = None
) -> FinishedRollout:
    """A rollout and its outcome; after an outage it is tried again a few times, with growing pauses.

    ``room``: for rollouts at once. ``before``: the rollout as it was left. Where it came to an end and only its judge did not
    answer, the judge alone is asked. Raises UserError when who scores stays away.
    """
    retry = 0
    while True:
        if before is None or before.ending is None or not before.ending.scored:
            async with room:
                before = await actor.rollout(ask)
        outcome = await _scored(before, score, config.denoise.judge_patience_s)
        if outcome is not None or retry == config.denoise.outage_retries:
            return FinishedRollout(before, outcome)
        await asyncio.sleep(config.denoise.outage_wait_s * 2**retry)
        retry += 1


async def answered(
    asks: Sequence[Ask],
    store: TrajectoryStore,
    actor: Actor,
    score: Score,
    config: RlConfig,
    room: asyncio.Semaphore,
    at_once: int,
) -> list[FinishedRollout]:
    """Rollouts that nothing is trained on, in the order of ``asks``; the store gets each as it ends, so that a kill loses none.

    Those that an earlier process left without an outcome are tried again. ``room``: for ``at_once`` of them. Raises as
    :func:`made`, and UserError when the model is out of reach in rollout after rollout.
    """
    before = {(one.question.id, one.meta[META]["attempt"]): one for one in store}
    silence = Silence(at_once)

    async def one(ask: Ask) -> FinishedRollout:
        found = before.get((ask.question.id, ask.attempt))
        if found is None or found.meta[META]["outcome"] is None:
            ended = await made(ask, actor, score, config, room, found)
            meta = {META: {"attempt": ask.attempt, "outcome": ended.outcome}}
            found = ended.trajectory.model_copy(update={"meta": {**ended.trajectory.meta, **meta}})
            store.append(found)
            check_reached(silence, found)
        actor.forget(found)  # other weights may make the same attempt again: nothing of this one may be gone on with
        return FinishedRollout(found, found.meta[META]["outcome"])

    try:
        async with asyncio.TaskGroup() as together:
            tasks = [together.create_task(one(ask)) for ask in asks]
    except ExceptionGroup as failures:
        raise failures.exceptions[0] from None
    return [task.result() for task in tasks]


async def _scored(trajectory: Trajectory, score: Score, patience_s: float) -> float | None:
    """Its outcome from a judge who may be away for a while. Raises UserError when that takes longer than ``patience_s``."""
    clock = asyncio.get_running_loop().time
    until, pause = clock() + patience_s, _FIRST_PAUSE_S
    while True:
        try:
            return await score(trajectory)
        except ScorerAwayError as away:
            if clock() + pause > until:
                raise UserError(
                    f"The judge was not reached ({str(away).removesuffix('.')}): see that it answers, and the same command "
                    "goes on where this one stopped; rl.denoise.judge_patience_s says how long it is waited for."
                ) from away
        await asyncio.sleep(pause)
        pause = min(2 * pause, _LONGEST_PAUSE_S)
