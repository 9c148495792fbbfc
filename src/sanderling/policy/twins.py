"""Which branches have gone the same way, so that one computation serves them all.

Branches are alike when their slots hold the same keys and values, which is what sharing a *lane* says, and the ids that are to
be computed now are the same too. What was computed for one of them is stored for each, so any of them can go its own way at any
moment and nothing has to be settled. Lanes are never found by comparing histories: two branches that said the same under
different weights are not alike. So those who take their steps at different times part for good: a tool that answers one of them
later, or a batch that has no room for all. Knows no model and no slots.
"""

from collections.abc import Sequence
from typing import Protocol


class Lane:
    """A name that branches with equal keys and values share."""


class Alike(Protocol):
    """What is looked at."""

    ids: list[int]
    cached: int
    lane: Lane | None


def alike(branches: Sequence[Alike]) -> list[list[int]]:
    """Branches (by index) that can be computed as one, in the order of their first; a branch like no other is alone.

    Nothing cached counts as the same for all of one policy version, which callers see to.
    """
    found: dict[tuple[object, ...], list[int]] = {}
    for index, branch in enumerate(branches):
        # Nothing cached is the same for all; what is cached and of no lane is like nobody's.
        lane = (branch.lane or index) if branch.cached else None
        found.setdefault((lane, branch.cached, *branch.ids[branch.cached :]), []).append(index)
    return list(found.values())


def put_in_one_lane(group: Sequence[Alike]) -> None:
    """These were computed as one, and nobody else with them."""
    lane = Lane() if len(group) > 1 else None
    for branch in group:
        branch.lane = lane
