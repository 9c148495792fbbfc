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
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import numpy as np

from sanderling.agent.agent import Silence
from sanderling.core.errors import UserError
from sanderling.core.record import Question, Trajectory, encode_record
from sanderling.rl.config import RlConfig, Straggler
from sanderling.rl.rollouts import Actor, Ask, FinishedRollout, Group, GroupStatus, Score, ScorerAwayError
from sanderling.rl.step import group_status
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

    def keep(self, number: int, attempt: int, ended: FinishedRollout) -> FinishedRollout:
        """Store a rollout for good; returns it as it is stored."""
        kept = with_outcome(ended, {"group": number, "attempt": attempt})
        about = {"id": kept.id, **kept.meta[META]}
        self._records.put(f"{_prefix(number)}{attempt}", about, blob=encode_record(kept))
        return FinishedRollout(kept, ended.outcome)

    def settle(self, step: int, batch: Batch) -> None:
        """Write down a step's groups, before its update. ``step``: steps done before it."""
        self._batches.put(str(step), batch)

    def batches(self) -> list[Batch]:
        """Those of all settled steps, in order."""
        found = sorted((int(step), batch) for step, batch in self._batches.items())
        return [{int(number): GroupStatus(status) for number, status in batch.items()} for _, batch in found]

    def ended(self, number: int) -> dict[int, FinishedRollout]:
        """A group's stored rollouts by attempt. Raises UserError for one that is damaged."""
        stored = self._records.items(_prefix(number))
        return {meta["attempt"]: FinishedRollout(self._records.record(key), meta["outcome"]) for key, meta in stored}

    def group(self, number: int) -> Group | None:
        """A group that ended; None where it is another rank's, or its rollouts are gone."""
        rollouts = [one for _, one in sorted(self.ended(number).items())]
        return Group(number, rollouts[0].trajectory.question, tuple(rollouts)) if rollouts else None


def _prefix(number: int) -> str:
    """How the keys of a group's rollouts begin."""
    return f"{number:08d}/"


def with_outcome(ended: FinishedRollout, about: Mapping[str, Any]) -> Trajectory:
    """A rollout whose ``meta`` says its outcome and ``about``."""
    meta = {**ended.trajectory.meta, META: {**about, "outcome": ended.outcome}}
    return ended.trajectory.model_copy(update={"meta": meta})


# -- what is made --------------------------------------------------------------------------------------------------------


def asks_of(number: int, questions: Sequence[Question], config: RlConfig) -> tuple[Question, list[Ask]]:
    """A group's question and rollouts: every pass over the questions has a seeded order of its own."""
    turn, index = divmod(number, len(questions))
    question = questions[int(np.random.default_rng((config.seed, turn)).permutation(len(questions))[index])]
    seed, first = episode_seed(config.seed, number, question), number * config.group_size
    return question, [Ask(question, seed, attempt) for attempt in range(first, first + config.group_size)]


def episode_seed(seed: int, number: int, question: Question) -> int:
    """What a group's rollouts share: the same faults for all of them, others when the question comes up again."""
    digest = hashlib.sha256(f"{seed}\x1f{number}\x1f{question.id}".encode()).digest()
    return int.from_bytes(digest[:7], "big")


@dataclass
class _UnderWay:
    """A group whose rollouts are being made."""

    number: int
    question: Question
    asks: list[Ask]
    late: bool
    """It began in another's place, and is not cut off with its step."""
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
        places: Sequence[int],
        settled: set[int],
        steps_left: int,
        room: asyncio.Semaphore,
    ) -> None:
        """Nothing begins before the context is entered.

        ``places``: which of a step's groups (0 to ``questions_per_step - 1``) are this rank's. ``settled``: numbers that were
        dealt with before. ``steps_left``: how many steps groups are begun for. ``room``: for rollouts at once, whoever else
        makes some.
        """
        self._config, self._actor, self._score, self._ledger = config, actor, score, ledger
        self._questions, self._places, self._steps_left, self._room = questions, len(places), steps_left, room
        every = (step * config.questions_per_step + place for step in itertools.count() for place in places)
        self._numbers = (number for number in every if number not in settled)
        self._under_way: dict[int, _UnderWay] = {}
        self._waiting: dict[int, Group] = {}
        self._dropped: list[tuple[Group, GroupStatus]] = []
        """Since the last step."""
        self._statuses: dict[int, GroupStatus] = {}
        """Under the present version."""
        self._begun = 0
        """Groups begun since the last step was taken."""
        self._silence = Silence(len(places) * (config.pipeline.max_staleness + 1) * config.group_size)
        self._most_tried = max(len(places), int(config.denoise.most_groups * len(places)))
        """Groups that a step tries at most."""
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

    async def batch(self) -> list[tuple[Group, GroupStatus]]:
        """The groups that the next step settles: as many to use as this rank has places, and those dropped on the way.

        Fewer where ``denoise.most_groups`` were tried. Groups of later steps go on being made. Raises what a rollout raised,
        and UserError when the model is out of reach in rollout after rollout.
        """
        while True:
            if self._failure is not None:
                raise self._failure
            self._news.clear()
            used = self._usable()
            if len(used) == self._places or len(used) + len(self._dropped) >= self._most_tried:
                break
            self._admit()
            self._cut_off()
            await self._news.wait()
        found = [*((self._waiting.pop(number), GroupStatus.USED) for number in used), *self._dropped]
        self._dropped, self._updating, self._begun = [], True, 0
        self._steps_left -= 1
        return sorted(found, key=lambda pair: pair[0].number)

    def published(self) -> None:
        """Newer weights sample from now on: more groups may begin."""
        self._updating = False
        self._statuses.clear()
        self._admit()

    def _usable(self) -> list[int]:
        """The waiting groups to use, the longest begun first; those that never can be are moved to the dropped ones."""
        used: list[int] = []
        for number, group in sorted(self._waiting.items()):
            if len(used) == self._places:
                break
            if number not in self._statuses:
                self._statuses[number] = group_status(group, self._actor.sync.version, self._config)
            if (status := self._statuses[number]) is GroupStatus.USED:
                used.append(number)
            else:
                self._dropped.append((self._waiting.pop(number), status))
        return used

    def _admit(self) -> None:
        """Begin groups as long as the bound on staleness lets them."""
        # What begins amid an update is sampled with the weights before it, and so counts as a step older.
        steps = self._config.pipeline.max_staleness + (0 if self._updating else 1)
        # The last tries of a step that drops much are not replaced: nothing of it is under way when it ends.
        spent = max(0, len(self._dropped) - (self._most_tried - self._places))
        while len(self._under_way) + len(self._waiting) < self._places * min(steps, self._steps_left) - spent:
            number = next(self._numbers)
            question, asks = asks_of(number, self._questions, self._config)
            group = self._under_way[number] = _UnderWay(number, question, asks, late=self._begun >= self._places)
            self._begun += 1
            task = asyncio.get_running_loop().create_task(self._make(group))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _make(self, group: _UnderWay) -> None:
        """All rollouts of a group; what an earlier process has finished is not made again."""
        try:
            stored = self._ledger.ended(group.number)
            async with asyncio.TaskGroup() as together:
                for ask in group.asks:
                    together.create_task(self._rollout(group, ask, stored.get(ask.attempt)))
            if len(group.ended) < self._config.group_size:  # a task group takes no notice of one that was cancelled by itself
                raise RuntimeError(f"group {group.number} ended with {len(group.ended)} rollouts")
            rollouts = tuple(one for _, one in sorted(group.ended.items()))
            self._waiting[group.number] = Group(group.number, group.question, rollouts)
            del self._under_way[group.number]
            self._admit()
        except Exception as failure:  # whoever waits for a batch must hear of it
            first = failure.exceptions[0] if isinstance(failure, ExceptionGroup) else failure
            self._failure = self._failure or first
        finally:
            self._news.set()

    async def _rollout(self, group: _UnderWay, ask: Ask, stored: FinishedRollout | None) -> None:
        """One rollout until it is on disk; one that is stored without an outcome met an outage, and is tried again."""
        if stored is None or stored.outcome is None:
            async with self._room:
                ended = await made(ask, self._actor, self._score, self._config, stored and stored.trajectory)
            stored = self._ledger.keep(group.number, ask.attempt, ended)
            check_reached(self._silence, stored.trajectory)
        self._actor.stored(stored.trajectory)  # of one stored before as well: a kill may have come between
        group.ended[ask.attempt] = stored
        self._news.set()

    def _cut_off(self) -> None:
        """Ask the stragglers of a synchronous step for their answers, once most of it is done and where that is wanted."""
        pipeline, size = self._config.pipeline, self._config.group_size
        first = [group for group in self._under_way.values() if not group.late]
        left, whole = sum(size - len(group.ended) for group in first), size * self._places
        if pipeline.straggler is Straggler.CUT_OFF and whole - left >= pipeline.cut_off_share * whole:
            for ask in (ask for group in first for ask in group.asks):
                ask.finish_early.set()


def check_reached(silence: Silence, trajectory: Trajectory) -> None:
    """Raises UserError when the model is out of reach in rollout after rollout."""
    if why := silence.after(trajectory, "rollouts"):
        raise UserError(f"{why} See that the model answers, then run the same command again to resume.")


async def made(ask: Ask, actor: Actor, score: Score, config: RlConfig, before: Trajectory | None = None) -> FinishedRollout:
    """A rollout and its outcome; after an outage it is tried again a few times, with growing pauses.

    ``before``: the rollout as it was left. Where it came to an end and only its judge did not answer, the judge alone is asked.
    Raises UserError when who scores stays away.
    """
    retry = 0
    while True:
        if before is None or before.ending is None or not before.ending.scored:
            before = await actor.rollout(ask)
        outcome = await _scored(before, score, config.denoise.judge_patience_s)
        if outcome is not None or retry == config.denoise.outage_retries:
            return FinishedRollout(before, outcome)
        await asyncio.sleep(config.denoise.outage_wait_s * 2**retry)
        retry += 1


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
                    f"The judge was not reached ({str(away).removesuffix('.')}): see that it answers, then run the same "
                    "command again to resume; rl.denoise.judge_patience_s says how long it is waited for."
                ) from away
        await asyncio.sleep(pause)
        pause = min(2 * pause, _LONGEST_PAUSE_S)
