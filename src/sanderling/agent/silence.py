"""When a model is out of reach: attempt after attempt ends before it said a word. Knows no run and begins or ends nothing."""

from dataclasses import dataclass

from sanderling.core.record import Trajectory
from sanderling.core.types import Ending, Role

LEAST = 16


def silence(at_once: int) -> "Silence":
    """For runs that have so many attempts under way: all of them twice over, for an outage that passes ends no run."""
    return Silence(max(LEAST, 2 * at_once))


@dataclass
class Silence:
    """Attempts in a row, as they end, that met an outage before the model's first turn.

    Outages later in an attempt do not count: they can be the question's own (a page that never comes, a context too long).
    """

    most: int
    count: int = 0

    def after(self, trajectory: Trajectory, what: str = "attempts") -> str:
        """Why nothing more should be begun after this one has ended; empty: nothing speaks against it."""
        outage = trajectory.ending in (Ending.TOOL_OUTAGE, Ending.POLICY_OUTAGE)
        spoke = any(node.role is Role.ASSISTANT for node in trajectory.nodes)
        self.count = self.count + 1 if outage and not spoke else 0
        if self.count < self.most:
            return ""
        why = trajectory.detail.removesuffix(".")
        return f"The last {self.count} {what} met outages before their first turn ({why}): nothing more was begun."
