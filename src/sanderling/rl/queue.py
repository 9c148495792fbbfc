"""The producing half of an RL run: groups of rollouts that are begun, made and kept while updates go on.

A group begins when the bound on staleness and the depth of the queue let it (admission); it waits when all its rollouts have
ended; :meth:`Rollouts.batch` takes those that a step trains on. Which question a group has, its seed and its attempts follow
from its number alone, so neither order nor time changes what is sampled but for the weights. One event loop per rank; each rank
makes its own share of every step's groups.

What is kept, so that a kill at any moment loses at most the turn under way, is a :class:`Ledger`: three tables of the run's
database. ``groups``: as a group begins, which question it has and under which version. ``records``: a group's rollouts as they
end, with their outcomes, so that no judge is asked twice. ``batches``: before a step's update, what became of each group in it.
A run that goes on does the updates after its last checkpoint again from these, to the same weights, and the rest is
what was waiting or under way. Rollouts under way are in their maker's episode journal. In a team every rank has a database of
its own, which it alone reads and writes, and rank 0 has the batches.
"""

import asyncio
import hashlib
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Self

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
Judge = Callable[[Group, int], GroupStatus]
"""``(group, version) -> status``: whether a step that updates that version can train on it."""


# -- what is kept --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Begun:
    """A group that was begun."""

    number: int
    question: str
    """The question's id."""
    version: int
    """Updates behind the weights that it began under: its tokens are no older."""


@dataclass(frozen=True)
class Settled:
    """What became of a group."""

    number: int
    status: GroupStatus
    question: str
    """The question's id."""
    outcomes: tuple[float, ...]
    """Of its scored rollouts."""


@dataclass(frozen=True)
class Batch:
    """A step's groups, settled; written before its update."""

    step: int
    """Steps done before it."""
    groups: tuple[Settled, ...]

    @property
    def used(self) -> list[int]:
        """Numbers of the groups that it trains on."""
        return [group.number for group in self.groups if group.status is GroupStatus.USED]


class Ledger:
    """The groups of one rank, in the run of a directory; who calls has the directory to itself."""

    def __init__(self, directory: Path, rank: int = 0) -> None:
        self._run = Run(directory, rank=rank, locked=True)
        self._groups, self._records = self._run.table("groups"), self._run.table(RECORDS)
        self._batches = self._run.table("batches")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._run.close()

    def claim(self, about: Mapping[str, Any]) -> None:
        """Rank 0: say what a group's number stands for, or see that it still does.

        Raises UserError when the directory holds groups that were made with other settings.
        """
        self._run.claim(about, "groups", "go on with the settings of before, or begin in another directory")

    def begin(self, begun: Begun) -> None:
        """Note that a group begins: a rollout on disk must never be another question's."""
        self._groups.put(str(begun.number), asdict(begun))

    def keep(self, number: int, attempt: int, ended: FinishedRollout) -> Trajectory:
        """Store a rollout for good; returns it as it is stored."""
        told = {"group": number, "attempt": attempt, "outcome": ended.outcome}
        trajectory = ended.trajectory.model_copy(update={"meta": {**ended.trajectory.meta, META: told}})
        self._records.put(f"{_of(number)}{attempt}", {"id": trajectory.id, **told}, blob=encode_trajectory(trajectory))
        return trajectory

    def settle(self, batch: Batch) -> None:
        """Note a step's groups, before its update."""
        self._batches.put(str(batch.step), [asdict(group) for group in batch.groups])

    def batches(self) -> list[Batch]:
        """All settled steps, in order."""
        found = sorted((int(step), groups) for step, groups in self._batches.items())
        return [Batch(step, tuple(_settled(**group) for group in groups)) for step, groups in found]

    def begun(self) -> dict[int, Begun]:
        """Every group that this rank ever began, by number."""
        return {one.number: one for one in (Begun(**entry) for _, entry in self._groups.items())}

    def ended(self, number: int) -> dict[int, FinishedRollout]:
        """A group's stored rollouts by attempt. Raises UserError for one that is damaged."""
        stored = self._records.items(_of(number))
        return {told["attempt"]: FinishedRollout(self._records.record(key), told["outcome"]) for key, told in stored}

    def forget(self, numbers: Iterable[int]) -> None:
        """Remove the rollouts of groups that no replay will ask for."""
        for number in numbers:
            self._records.remove(*(key for key, _ in self._records.items(_of(number))))

    def group(self, number: int, questions: Mapping[str, Question]) -> Group | None:
        """A group that ended, None where it is another rank's, or its rollouts are gone."""
        rollouts = self.ended(number)
        if not rollouts:
            return None
        first = next(iter(rollouts.values())).trajectory
        return Group(number, questions.get(first.question.id, first.question), tuple(rollouts[at] for at in sorted(rollouts)))


def _of(number: int) -> str:
    """How the keys of a group's rollouts begin."""
    return f"{number:08d}/"


def _settled(number: int, status: str, question: str, outcomes: list[float]) -> Settled:
    return Settled(number, GroupStatus(status), question, tuple(outcomes))


def settled_numbers(batches: Iterable[Batch]) -> set[int]:
    """Groups with a status."""
    return {group.number for batch in batches for group in batch.groups}


# -- what is made --------------------------------------------------------------------------------------------------------


def episode_seed(seed: int, number: int, question: Question) -> int:
    """What a group's rollouts share: the same faults for all of them, others when the question comes up again."""
    digest = hashlib.sha256(f"{seed}\x1f{number}\x1f{question.id}".encode()).digest()
    return int.from_bytes(digest[:7], "big")


@dataclass
class _UnderWay:
    """A group whose rollouts are being made."""

    begun: Begun
    question: Question
    asks: list[Ask] = field(default_factory=list)
    ended: dict[int, FinishedRollout] = field(default_factory=dict)
    """By attempt."""
    unscored: dict[int, Trajectory] = field(default_factory=dict)
    """What an earlier process left without an outcome, by attempt."""
    late: bool = False
    """It began in another's place, or when most of its step was done."""


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
        questions: Mapping[str, Question],
        question_at: Callable[[int], Question],
        judge: Judge,
        places: Sequence[int],
        settled: set[int],
        steps_left: int,
        room: asyncio.Semaphore,
    ) -> None:
        """Nothing begins before the context is entered.

        ``questions``: by id. ``question_at``: the question of a group that begins now. ``places``: which of a step's groups (0
        to ``questions_per_step - 1``) are this rank's. ``settled``: numbers that were dealt with before. ``steps_left``: how
        many steps groups are begun for. ``room``: for rollouts at once, whoever else makes some.
        """
        self._config, self._actor, self._score, self._ledger = config, actor, score, ledger
        self._questions, self._question_at, self._judge, self._places = questions, question_at, judge, places
        self._begun = ledger.begun()
        self._numbers = (number for number in _numbers(places, config.questions_per_step) if number not in settled)
        self._under_way: dict[int, _UnderWay] = {}
        self._waiting: list[Group] = []
        self._dropped: list[tuple[Group, GroupStatus]] = []
        """Since the last step."""
        self._statuses: dict[tuple[int, int], GroupStatus] = {}
        """By number and version."""
        self._begun_since = 0
        """Groups begun since the last step was taken."""
        self._steps_left, self._room = steps_left, room
        at_once = config.pipeline.groups_at_once(len(places), config.questions_per_step)
        self._silence = Silence(at_once * config.group_size)
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
        self._updating = False
        wanted = len(self._places)
        while True:
            if self._failure is not None:
                raise self._failure
            self._news.clear()
            used = self._take(wanted)
            if (len(used) == wanted or len(used) + len(self._dropped) >= self._most_tried) and not self._last_chance():
                break
            self._admit()
            self._finish_early()
            await self._news.wait()
        taken = {group.number for group, _ in used}
        self._waiting = [group for group in self._waiting if group.number not in taken]
        settled, self._dropped = [*used, *self._dropped], []
        for key in [key for key in self._statuses if key[0] in {group.number for group, _ in settled}]:
            del self._statuses[key]
        self._updating = True
        self._steps_left -= 1
        self._begun_since = 0
        return sorted(settled, key=lambda pair: pair[0].number)

    def settled(self, groups: Sequence[tuple[Group, GroupStatus]]) -> None:
        """What became of these is written down: their outages are not tried again."""
        for group, _ in groups:
            for one in group.rollouts:
                if one.outcome is None:
                    self._actor.forget(one.trajectory)

    def published(self) -> None:
        """Newer weights sample from now on: more groups may begin."""
        self._updating = False
        self._admit()
        self._finish_early()

    def _take(self, wanted: int) -> list[tuple[Group, GroupStatus]]:
        """The waiting groups to use, the longest begun first; those that never can be are moved to the dropped ones."""
        version = self._actor.sync.version
        used: list[tuple[Group, GroupStatus]] = []
        for group in sorted(self._waiting, key=lambda group: (self._begun[group.number].version, group.number)):
            if len(used) == wanted:
                break
            if (group.number, version) not in self._statuses:
                self._statuses[group.number, version] = self._judge(group, version)
            status = self._statuses[group.number, version]
            if status is GroupStatus.USED:
                used.append((group, status))
            else:
                self._dropped.append((group, status))
                self._waiting.remove(group)
        return used

    # -- making --------------------------------------------------------------------------------------------------------

    @property
    def _most_tried(self) -> int:
        """Groups that a step tries at most."""
        return max(len(self._places), int(self._config.denoise.most_groups * len(self._places)))

    def _admit(self) -> None:
        """Begin groups as long as there is room."""
        pipeline, places = self._config.pipeline, len(self._places)
        # What begins amid an update is sampled with the weights before it, and so counts as a step older.
        steps = pipeline.max_staleness + (0 if self._updating else 1)
        # The last tries of a step that drops much are not replaced: nothing of it is under way when it ends.
        spent = max(0, len(self._dropped) - (self._most_tried - places))
        ahead = places * min(steps, self._steps_left) - spent
        most = pipeline.groups_at_once(places, self._config.questions_per_step)
        while len(self._under_way) + len(self._waiting) < ahead and len(self._under_way) < most:
            self._begin(next(self._numbers))

    def _begin(self, number: int) -> None:
        begun = self._begun.get(number)
        if begun is None:
            begun = Begun(number, self._question_at(number).id, self._actor.sync.version)
            self._ledger.begin(begun)
            self._begun[number] = begun
        late = self._begun_since >= len(self._places) or self._mostly_done()
        group = _UnderWay(begun, self._questions[begun.question], late=late)
        self._begun_since += 1
        self._under_way[number] = group
        task = asyncio.get_running_loop().create_task(self._make(group))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _make(self, group: _UnderWay) -> None:
        """All rollouts of a group; what an earlier process has finished is not made again."""
        number = group.begun.number
        try:
            self._recall(group)
            async with asyncio.TaskGroup() as together:
                for ask in group.asks:
                    together.create_task(self._rollout(group, ask))
            if len(group.ended) < self._config.group_size:  # a task group takes no notice of one that was cancelled by itself
                raise RuntimeError(f"group {number} ended with {len(group.ended)} of {self._config.group_size} rollouts")
        except BaseExceptionGroup as failures:
            self._failure = self._failure or failures.exceptions[0]
        except Exception as failure:  # whoever waits for a batch must hear of it
            self._failure = self._failure or failure
        else:
            rollouts = tuple(group.ended[at] for at in sorted(group.ended))
            self._waiting.append(Group(number, group.question, rollouts))
        finally:
            del self._under_way[number]
            self._news.set()
        try:
            if self._failure is None:
                self._admit()
        except Exception as failure:
            self._failure = failure

    def _recall(self, group: _UnderWay) -> None:
        """What is on disk of a group, and what is left to be made. An outage ends nothing: it is tried again."""
        number, size = group.begun.number, self._config.group_size
        seed = episode_seed(self._config.seed, number, group.question)
        for attempt, ended in self._ledger.ended(number).items():
            if ended.outcome is None:
                group.unscored[attempt] = ended.trajectory
                continue
            group.ended[attempt] = ended
            self._actor.stored(ended.trajectory)  # a kill may have come between
        attempts = (at for at in range(number * size, (number + 1) * size) if at not in group.ended)
        group.asks = [Ask(group.question, seed, attempt) for attempt in attempts]

    async def _rollout(self, group: _UnderWay, ask: Ask) -> None:
        """One rollout until it is on disk."""
        before = group.unscored.get(ask.attempt)
        ended = await made(ask, self._actor, self._score, self._config, self._room, before)
        kept = self._ledger.keep(group.begun.number, ask.attempt, ended)
        self._actor.stored(kept)
        group.ended[ask.attempt] = FinishedRollout(kept, ended.outcome)
        self._news.set()
        if why := self._silence.after(kept, "rollouts"):
            raise UserError(f"{why} See that the model answers: the same command goes on where this one stopped.")

    # -- stragglers ----------------------------------------------------------------------------------------------------

    def _age(self, group: _UnderWay) -> int:
        """Steps' worth of updates since a group began."""
        return (self._actor.sync.version - group.begun.version) // self._config.updates_per_step

    def _finish_early(self) -> None:
        """Ask stragglers for their answers, where that is wanted: a step before they are too old, if there is one."""
        pipeline, groups = self._config.pipeline, list(self._under_way.values())
        if pipeline.straggler is Straggler.CARRY_OVER:
            return
        if pipeline.max_staleness:
            groups = [group for group in groups if self._age(group) >= max(1, pipeline.max_staleness - 1)]
        else:
            mostly, own = self._mostly_done(), pipeline.cut_off_share * self._config.group_size
            groups = [group for group in groups if (len(group.ended) >= own if group.late else mostly)]
        for ask in (ask for group in groups for ask in group.asks):
            ask.finish_early.set()

    def _mostly_done(self) -> bool:
        """Whether so much of a synchronous step is done that its stragglers may be cut off; groups in others' place aside."""
        size, places = self._config.group_size, len(self._places)
        first = (group for group in self._under_way.values() if not group.late)
        left = size * max(0, places - self._begun_since) + sum(size - len(group.ended) for group in first)
        return size * places - left >= self._config.pipeline.cut_off_share * size * places

    def _last_chance(self) -> bool:
        """Whether stragglers that were asked for their answers would be too old for the step after this one."""
        pipeline = self._config.pipeline
        if pipeline.straggler is Straggler.CARRY_OVER or not pipeline.max_staleness:
            return False
        return any(self._age(group) >= pipeline.max_staleness for group in self._under_way.values())


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
            told = {META: {"attempt": ask.attempt, "outcome": ended.outcome}}
            found = ended.trajectory.model_copy(update={"meta": {**ended.trajectory.meta, **told}})
            store.append(found)
            if why := silence.after(found, "rollouts"):
                raise UserError(f"{why} See that the model answers: the same command goes on where this one stopped.")
        # The same attempt may be made again with other weights: nothing of this one may be gone on with.
        actor.forget(found)  # a kill may have come between
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


def _numbers(places: Sequence[int], per_step: int) -> Iterator[int]:
    """The numbers of all groups that have these places in their steps."""
    return (step * per_step + place for step in itertools.count() for place in places)
