"""Some trajectories cleaned at once: lines ready to be written, and the report of these alone. Knows no files and no processes.

A dropped one is written as it came in, with its step and reason in ``meta``.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from sanderling.core.errors import UserError
from sanderling.core.record import Trajectory, encode_trajectory
from sanderling.data.cleaning.contract import Dropped
from sanderling.data.cleaning.report import CleanReport
from sanderling.data.cleaning.run import Cleaner

DROPPED_KEY = "dropped"
"""Where a dropped trajectory's step, reason and detail stand in its ``meta``."""


@dataclass(frozen=True)
class Batch:
    """What became of some trajectories."""

    kept: list[bytes]
    """Lines of a store, in the order in which they came in."""
    dropped: list[bytes]
    report: CleanReport


def clean_batch(cleaner: Cleaner, trajectories: Sequence[Trajectory]) -> Batch:
    """Clean some trajectories; the cleaner's own report begins anew. Raises UserError for one that no line can hold."""
    cleaner.report = cleaner.empty_report()
    batch = Batch([], [], cleaner.report)
    for trajectory in trajectories:
        found = cleaner.clean(trajectory)
        if isinstance(found, Trajectory):
            batch.kept.append(_line(found))
        else:
            batch.dropped.append(_line(_with_reason(found)))
    return batch


def _line(trajectory: Trajectory) -> bytes:
    try:
        return encode_trajectory(trajectory)
    except UserError as error:
        raise UserError(
            f"The trajectory {trajectory.id!r} cannot be written ({error}): run sanderling data import first, which leaves "
            "such records out and counts them."
        ) from error


def _with_reason(one: Dropped) -> Trajectory:
    told = {"step": one.step, "reason": one.reason.value, "detail": one.detail}
    return one.trajectory.model_copy(update={"meta": {**one.trajectory.meta, DROPPED_KEY: told}})
