"""What an engine spent its time on. A clock that only counts: nothing is ever decided by it.

A step's seconds are shared out among the turns it served: a forward of prompts by the tokens each had in it, a decode step
evenly: each had one token. What was spent on turns that were cancelled, or failed, is in the totals and in no turn. Knows no
requests and no tensors.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Self


@dataclass(frozen=True)
class Usage:
    """Totals since an engine was made. Example: ``used = engine.usage() - before``."""

    seconds: float = 0.0
    """In all; what is left of it by the other three is :attr:`idle_seconds`."""
    prefill_seconds: float = 0.0
    decode_seconds: float = 0.0
    paused_seconds: float = 0.0
    """While nobody could sample, whether anybody wanted to or not."""
    prefilled_tokens: int = 0
    """Prompt tokens that were computed."""
    recomputed_tokens: int = 0
    """Of these, tokens whose keys and values had been computed before: by a process that was killed, or under older weights."""
    sampled_tokens: int = 0

    @property
    def idle_seconds(self) -> float:
        """Neither computing nor paused: tools, the event loop's other work, or nobody to serve."""
        return max(0.0, self.seconds - self.prefill_seconds - self.decode_seconds - self.paused_seconds)

    def __sub__(self, earlier: Self) -> "Usage":
        """What was spent since ``earlier``."""
        return Usage(**{one.name: getattr(self, one.name) - getattr(earlier, one.name) for one in fields(self)})


class Meter:
    """Counts for one engine."""

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self._clock = clock
        self._began = clock()
        self._paused_since: float | None = None
        self._prefill = self._decode = self._paused = 0.0
        self._prefilled = self._recomputed = self._sampled = 0

    def usage(self) -> Usage:
        """The totals so far, a pause under way included."""
        now = self._clock()
        paused = self._paused + (0.0 if self._paused_since is None else now - self._paused_since)
        return Usage(now - self._began, self._prefill, self._decode, paused, self._prefilled, self._recomputed, self._sampled)

    def now(self) -> float:
        return self._clock()

    def prompts(self, tokens: int, recomputed: int) -> None:
        """So many prompt tokens are about to be computed."""
        self._prefilled += tokens
        self._recomputed += recomputed

    def prefilled(self, since: float) -> float:
        """A forward of prompts has ended; returns its seconds."""
        spent = self._clock() - since
        self._prefill += spent
        return spent

    def decoded(self, since: float) -> float:
        """A decode step has ended; returns its seconds."""
        spent = self._clock() - since
        self._decode += spent
        return spent

    def sampled(self, tokens: int) -> None:
        self._sampled += tokens

    def pause_begins(self) -> None:
        self._paused_since = self._clock()

    def pause_ends(self) -> None:
        if self._paused_since is not None:
            self._paused += self._clock() - self._paused_since
            self._paused_since = None
