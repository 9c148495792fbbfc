"""What an RL run keeps on disk between its checkpoints, so that a kill at any moment loses at most the turn under way.

Three kinds of files, all append-only. ``begun-RANK.jsonl``: a line as a group begins, which question it has and under which
version. ``rollouts/NNNNNNNN.jsonl``: a group's rollouts as they end, an ordinary store of trajectories; the outcome stands in
each one's ``meta``, so that no judge is asked twice. ``batches.jsonl``: a line before a step's update, naming what became of
each group that it settles. A run that goes on does the updates after its last checkpoint again from these lines, to the same
weights, and the rest is what was waiting or under way. Rollouts under way are kept by whoever makes them (an episode journal).

In a team every rank writes its own groups' files, and rank 0 the batches; all read everything.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from sanderling.core.errors import UserError
from sanderling.core.record import Question, Trajectory
from sanderling.runs.files import replace_file
from sanderling.runs.jsonl import JsonlLog, TrajectoryStore
from sanderling.train.rl.contract import Ended, Fate, Group

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
    """The files of one run; ``rank`` writes."""

    def __init__(self, directory: Path, rank: int = 0) -> None:
        self._directory, self._rank = directory, rank
        self._begun = JsonlLog(directory / f"begun-{rank}.jsonl")  # a rollout on disk must never be another question's
        self._batches = JsonlLog(directory / "batches.jsonl")

    def claim(self, about: Mapping[str, Any]) -> None:
        """Rank 0: say what a group's number stands for, or see that it still does.

        Raises UserError when the directory holds groups that were made with other settings.
        """
        file = self._directory / "about.json"
        if not file.exists():
            replace_file(file, json.dumps(about, indent=2, sort_keys=True))
            return
        was = json.loads(file.read_text(encoding="utf-8"))
        if other := sorted(name for name in {*was, *about} if was.get(name) != about.get(name)):
            raise UserError(
                f"{self._directory} holds rollouts that were made with another {' and '.join(other)}: "
                "go on with the settings of before, or begin in another directory."
            )

    def begin(self, begun: Begun) -> None:
        """Note that a group begins."""
        self._begun.append(asdict(begun))

    def keep(self, number: int, attempt: int, ended: Ended) -> Trajectory:
        """Store a rollout for good; returns it as it is stored."""
        meta = {**ended.trajectory.meta, META: {"group": number, "attempt": attempt, "outcome": ended.outcome}}
        trajectory = ended.trajectory.model_copy(update={"meta": meta})
        self._store(number).append(trajectory)
        return trajectory

    def settle(self, batch: Batch) -> None:
        """Note a step's groups, before its update."""
        groups = [{**asdict(group), "fate": group.fate.value, "outcomes": list(group.outcomes)} for group in batch.groups]
        self._batches.append({"step": batch.step, "groups": groups})

    def batches(self) -> list[Batch]:
        """All settled steps, in order. Raises UserError when one is missing."""
        found = [_batch(line) for line in self._batches]
        for step, batch in enumerate(found):
            if batch.step != step:
                raise UserError(f"{self._batches.path} lacks step {step}: begin the run again, in another directory.")
        return found

    def begun(self) -> dict[int, Begun]:
        """Every group that was ever begun, by number, whichever rank did."""
        lines = (line for file in sorted(self._directory.glob("begun-*.jsonl")) for line in JsonlLog(file))
        return {one.number: one for one in (Begun(**line) for line in lines)}

    def ended(self, number: int) -> dict[int, Ended]:
        """A group's stored rollouts by attempt; of one that was stored more than once the first that is scored, or the last."""
        found: dict[int, Ended] = {}
        for trajectory in self._store(number):
            said = trajectory.meta[META]
            if said["attempt"] not in found or found[said["attempt"]].outcome is None:
                found[said["attempt"]] = Ended(trajectory, said["outcome"])
        return found

    def forget(self, numbers: Iterable[int]) -> None:
        """Remove the rollouts of groups that no replay will ask for."""
        for number in numbers:
            self._store(number).path.unlink(missing_ok=True)

    def group(self, number: int, questions: Mapping[str, Question]) -> Group:
        """A group that ended. Raises UserError when its rollouts are gone."""
        rollouts = self.ended(number)
        if not rollouts:
            raise UserError(f"The rollouts of group {number} are gone from {self._directory}: begin the run again.")
        first = next(iter(rollouts.values())).trajectory
        return Group(number, questions.get(first.question.id, first.question), tuple(rollouts[at] for at in sorted(rollouts)))

    def _store(self, number: int) -> TrajectoryStore:
        return TrajectoryStore(self._directory / "rollouts" / f"{number:08d}.jsonl")


def _batch(line: dict[str, Any]) -> Batch:
    groups = (Settled(one["number"], Fate(one["fate"]), one["question"], tuple(one["outcomes"])) for one in line["groups"])
    return Batch(line["step"], tuple(groups))


def settled_numbers(batches: Iterable[Batch]) -> set[int]:
    """Groups with a fate."""
    return {group.number for batch in batches for group in batch.groups}
