"""Time as something handed in: the date a prompt shows, and the seconds a budget counts.

Nothing in the package reads the machine's clock behind a caller's back, so prompts and budgets can be replayed.
"""

import datetime
import time
from dataclasses import dataclass
from typing import Protocol


class Clock(Protocol):
    """Where dates and seconds come from."""

    def today(self) -> datetime.date:
        """The date shown to the model."""
        ...

    def monotonic(self) -> float:
        """Seconds since some fixed moment; never runs backwards."""
        ...


class SystemClock:
    """The machine's own clock."""

    def today(self) -> datetime.date:
        return datetime.datetime.now().astimezone().date()

    def monotonic(self) -> float:
        return time.monotonic()


@dataclass
class FixedClock:
    """A clock that stands still until it is advanced: for replays, worlds with a date of their own, and tests."""

    day: datetime.date
    seconds: float = 0.0

    def today(self) -> datetime.date:
        return self.day

    def monotonic(self) -> float:
        return self.seconds

    def advance(self, seconds: float) -> None:
        """Let ``seconds`` pass. Raises ValueError for a negative number."""
        if seconds < 0:
            raise ValueError(f"a clock cannot go back by {seconds} seconds")
        self.seconds += seconds
