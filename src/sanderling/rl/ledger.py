"""What an RL run keeps on disk between its checkpoints, so that a kill at any moment loses at most the turn under way.

Three tables of the run's database. ``groups``: as a group begins, which question it has and under which version. ``records``: a
group's rollouts as they end, with their outcomes, so that no judge is asked twice. ``batches``: before a step's update, what
became of each group that it settles. A run that goes on does the updates after its last checkpoint again from these, to the
same weights, and the rest is what was waiting or under way. Rollouts under way are in their maker's episode journal.

In a team every rank has a database of its own, which it alone reads and writes, and rank 0 has the batches.
"""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

from sanderling.core.record import Question, Trajectory, encode_trajectory
from sanderling.rl.contract import Ended, Fate, Group
from sanderling.runs.run import RECORDS, Run

META = "rl"
"""Where a trajectory's ``meta`` says its group and outcome."""


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
    fate: Fate
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
        return [group.number for group in self.groups if group.fate is Fate.USED]


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

    def keep(self, number: int, attempt: int, ended: Ended) -> Trajectory:
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

    def ended(self, number: int) -> dict[int, Ended]:
        """A group's stored rollouts by attempt. Raises UserError for one that is damaged."""
        stored = self._records.items(_of(number))
        return {told["attempt"]: Ended(self._records.record(key), told["outcome"]) for key, told in stored}

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


def _settled(number: int, fate: str, question: str, outcomes: list[float]) -> Settled:
    return Settled(number, Fate(fate), question, tuple(outcomes))


def settled_numbers(batches: Iterable[Batch]) -> set[int]:
    """Groups with a fate."""
    return {group.number for batch in batches for group in batch.groups}
