"""The producing half of an RL run: groups of rollouts that are begun, made and kept while updates go on.

A group begins when the bound on staleness and the depth of the queue let it (admission); it is waiting when all its rollouts
have ended; :meth:`Rollouts.batch` takes those that a step trains on. Which question a group has, its seed and its attempts
follow from its number alone, so neither order nor time changes what is sampled but for the weights.

One event loop per rank; each rank makes its own share of every step's groups. Knows no model, no credit, no files but through
the ledger.
"""

import asyncio
import hashlib
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Self

from sanderling.train.rl.config import RlConfig, Straggler
from sanderling.train.rl.contract import Actor, Ask, Ended, Fate, Group, Score
from sanderling.train.rl.ledger import Begun, Ledger
from sanderling.trajectory.record import Question

Judge = Callable[[Group, int], Fate]
"""``(group, version) -> fate``: whether a step that updates that version can train on it."""


def episode_seed(seed: int, step: int, question: Question) -> int:
    """What a group's rollouts share: the same faults for all of them, others when the question comes up again."""
    digest = hashlib.sha256(f"{seed}\x1f{step}\x1f{question.id}".encode()).digest()
    return int.from_bytes(digest[:7], "big")


@dataclass
class _UnderWay:
    """A group whose rollouts are being made."""

    begun: Begun
    question: Question
    asks: list[Ask] = field(default_factory=list)
    ended: dict[int, Ended] = field(default_factory=dict)
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
        questions: Mapping[str, Question],
        question_at: Callable[[int], Question],
        judge: Judge,
        places: Sequence[int],
        settled: set[int],
        steps_left: int,
    ) -> None:
        """Nothing begins before the context is entered.

        ``questions``: by id. ``question_at``: the question of a group that begins now. ``places``: which of a step's groups (0
        to ``questions_per_step - 1``) are this rank's. ``settled``: numbers that were dealt with before. ``steps_left``: how
        many steps groups are begun for.
        """
        self._config, self._actor, self._score, self._ledger = config, actor, score, ledger
        self._questions, self._question_at, self._judge, self._places = questions, question_at, judge, places
        self._begun = ledger.begun()
        self._numbers = (number for number in _numbers(places, config.questions_per_step) if number not in settled)
        self._under_way: dict[int, _UnderWay] = {}
        self._waiting: list[Group] = []
        self._steps_left = steps_left
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

    async def batch(self) -> list[tuple[Group, Fate]]:
        """The groups that the next step settles: as many to use as this rank has places, and those dropped on the way.

        Fewer where ``denoise.most_groups`` were tried. Groups of later steps go on being made. Raises what a rollout raised.
        """
        self._updating = False
        wanted = len(self._places)
        dropped: list[tuple[Group, Fate]] = []
        while True:
            if self._failure is not None:
                raise self._failure
            self._news.clear()
            used = self._sift(wanted, dropped)
            tried = len(used) + len(dropped)
            if len(used) == wanted or tried >= self._config.denoise.most_groups * wanted:
                break
            self._admit()
            self._hurry()
            await self._news.wait()
        self._waiting = [group for group in self._waiting if all(group is not one for one, _ in used)]
        self._updating = True
        self._steps_left -= 1
        return sorted((*used, *dropped), key=lambda pair: pair[0].number)

    def published(self) -> None:
        """Newer weights sample from now on: more groups may begin."""
        self._updating = False
        self._admit()
        self._hurry()

    def _sift(self, wanted: int, dropped: list[tuple[Group, Fate]]) -> list[tuple[Group, Fate]]:
        """The first waiting groups that can be used; those that never will are moved to ``dropped``."""
        version = self._actor.sync.version
        used: list[tuple[Group, Fate]] = []
        for group in list(self._waiting):
            if len(used) == wanted:
                break
            fate = self._judge(group, version)
            if fate is Fate.USED:
                used.append((group, fate))
            else:
                dropped.append((group, fate))
                self._waiting.remove(group)
        return used

    # -- making --------------------------------------------------------------------------------------------------------

    def _admit(self) -> None:
        """Begin groups as long as there is room."""
        pipeline = self._config.pipeline
        # What begins amid an update is sampled with the weights before it, and so counts as a step older.
        steps = pipeline.max_staleness + (0 if self._updating else 1)
        ahead = len(self._places) * min(steps, self._steps_left)
        most = ahead if pipeline.most_under_way is None else pipeline.most_under_way
        while len(self._under_way) + len(self._waiting) < ahead and len(self._under_way) < most:
            self._begin(next(self._numbers))

    def _begin(self, number: int) -> None:
        begun = self._begun.get(number)
        if begun is None:
            begun = Begun(number, self._question_at(number).id, self._actor.sync.version)
            self._ledger.begin(begun)
        group = _UnderWay(begun, self._questions[begun.question])
        self._under_way[number] = group
        task = asyncio.get_running_loop().create_task(self._make(group))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _make(self, group: _UnderWay) -> None:
        """All rollouts of a group; those that an earlier process has finished are not made again."""
        number, size = group.begun.number, self._config.group_size
        seed = episode_seed(self._config.seed, number // self._config.questions_per_step, group.question)
        group.ended = self._ledger.ended(number)
        attempts = [at for at in range(number * size, (number + 1) * size) if at not in group.ended]
        group.asks = [Ask(group.question, seed, attempt) for attempt in attempts]
        try:
            async with asyncio.TaskGroup() as together:
                for ask in group.asks:
                    together.create_task(self._rollout(group, ask))
        except BaseExceptionGroup as failures:
            self._failure = self._failure or failures.exceptions[0]
        else:
            rollouts = tuple(group.ended[at] for at in sorted(group.ended))
            self._waiting.append(Group(number, group.question, rollouts))
        del self._under_way[number]
        self._news.set()
        if self._failure is None:
            self._admit()

    async def _rollout(self, group: _UnderWay, ask: Ask) -> None:
        """One rollout until it is on disk; after an outage it is tried again a few times."""
        trajectory = await self._actor.rollout(ask)
        for _ in range(self._config.denoise.outage_retries):
            if trajectory.ending is None or trajectory.ending.scored:
                break
            trajectory = await self._actor.rollout(ask)
        ended = Ended(trajectory, await self._score(trajectory))
        kept = self._ledger.keep(group.begun.number, ask.attempt, ended)
        self._actor.stored(kept)
        group.ended[ask.attempt] = Ended(kept, ended.outcome)
        self._news.set()

    def _hurry(self) -> None:
        """Ask stragglers for their answers, where that is wanted."""
        pipeline, version = self._config.pipeline, self._actor.sync.version
        if pipeline.straggler is Straggler.CARRY_OVER:
            return
        late = list(self._under_way.values())
        if pipeline.max_staleness:
            oldest = version - pipeline.max_staleness * self._config.updates_per_step
            late = [group for group in late if group.begun.version <= oldest]
        else:
            done = sum(len(group.ended) for group in late) + len(self._waiting) * self._config.group_size
            if done < pipeline.cut_off_share * (len(late) + len(self._waiting)) * self._config.group_size:
                return
        for ask in (ask for group in late for ask in group.asks):
            ask.hurry.set()


def _numbers(places: Sequence[int], per_step: int) -> Iterator[int]:
    """The numbers of all groups that have these places in their steps."""
    return (step * per_step + place for step in itertools.count() for place in places)
