"""What a step of cleaning is: a pure function from a trajectory to an outcome, for one target.

A step returns the very object it was handed where it changes nothing. It never raises for any trajectory, and doing it twice is
doing it once. Whatever it removes or rewrites it names in a :class:`Note`; whatever it drops has a :class:`Reason`.
Knows no files and no order of steps.
"""

import datetime
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum

from sanderling.core.profiles import Profile
from sanderling.core.prompts import default_specs, render_system
from sanderling.core.record import Trajectory
from sanderling.core.types import FixedClock

_DATE = re.compile(r"date[^\n]{0,24}?\b(\d{4}-\d{2}-\d{2})\b", re.I)


class Reason(StrEnum):
    """Why a trajectory is left out."""

    OUTAGE = "outage"
    """It ended in an outage or was stopped: not the agent's doing."""
    EMPTY = "empty"
    """The policy said nothing."""
    UNREADABLE = "unreadable"
    """It holds an imported message nobody could classify."""
    NO_ANSWER = "no_answer"
    """It does not end with the agent's own answer, so there is no end to imitate."""
    SYSTEM_NOT_FIRST = "system_not_first"
    NO_QUESTION = "no_question"
    """No question follows the system prompt."""
    BROKEN_ORDER = "broken_order"
    """Turns and responses do not alternate."""
    UNWRAPPED_RESPONSE = "unwrapped_response"
    """A response stands without its tags: a chat template would drop all reasoning before it."""
    MALFORMED_TURN = "malformed_turn"
    MALFORMED_ANSWER = "malformed_answer"
    REPEATED_CALLS = "repeated_calls"
    TOO_FEW_CALLS = "too_few_calls"
    TOOL_ERRORS = "tool_errors"
    ARTEFACTS = "artefacts"
    """Text that went through a wrong encoding, or a ``\\boxed`` answer."""
    NO_REASONING = "no_reasoning"
    """A call or an answer without reasoning before it, which the target's grammar demands."""
    FORBIDDEN_TOOL = "forbidden_tool"
    TOO_LONG = "too_long"


@dataclass(frozen=True, slots=True)
class Note:
    """Something a step removed or rewrote within one trajectory."""

    code: str
    number: int = 1
    before: str = ""
    """For an example in the report: text as it was, and what became of it."""
    after: str = ""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a trajectory in one step."""

    trajectory: Trajectory | None
    """None: dropped."""
    notes: tuple[Note, ...] = ()
    reason: Reason | None = None
    """Why it was dropped."""
    detail: str = ""
    """What shows the reason: a piece of text, or a figure."""


@dataclass(frozen=True, slots=True)
class Dropped:
    """A trajectory that was left out: as it came in, and why."""

    trajectory: Trajectory
    step: str
    reason: Reason
    detail: str = ""


IsRight = Callable[[Trajectory], bool | None]
"""A judge's verdict that is there already; None: nobody judged it."""


def recorded_verdict(trajectory: Trajectory) -> bool | None:
    """The verdict that a judge left in the record (``reward.verdict``), if any."""
    verdict = trajectory.meta.get("evaluation")
    correct = verdict.get("correct") if isinstance(verdict, dict) else None
    return correct if isinstance(correct, bool) else None


@dataclass(frozen=True)
class Target:
    """What trajectories are cleaned for: a profile, and whose verdicts count."""

    profile: Profile
    is_right: IsRight = recorded_verdict
    _prompts: dict[datetime.date, str] = field(default_factory=dict, compare=False)

    @property
    def allowed(self) -> tuple[str, str]:
        """The tools of the profile."""
        return self.profile.tools.search, self.profile.tools.visit

    def system_prompt(self, recorded: str, otherwise: datetime.date) -> str:
        """The profile's system prompt with the date that a recorded one names, or else another."""
        day = _date_in(recorded) or otherwise
        if day not in self._prompts:
            self._prompts[day] = render_system(self.profile, default_specs(self.profile), FixedClock(day))
        return self._prompts[day]


Step = Callable[[Trajectory], Outcome]


def _date_in(prompt: str) -> datetime.date | None:
    for found in reversed(_DATE.findall(prompt)):
        try:
            return datetime.date.fromisoformat(found)
        except ValueError:
            continue
    return None
