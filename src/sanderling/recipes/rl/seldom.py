"""Warnings of the same kind, a few words at a time: hundreds of sessions that wait for one server say so once a minute."""

import time
import warnings
from collections.abc import Callable


class Seldom:
    """Warns with what it is called with, unless it has just done so."""

    def __init__(self, every_s: float = 60.0, clock: Callable[[], float] = time.monotonic) -> None:
        self._every_s, self._clock = every_s, clock
        self._next = clock()
        self._kept = 0

    def __call__(self, text: str) -> None:
        now = self._clock()
        if now < self._next:
            self._kept += 1
            return
        more = f" (and {self._kept:,} like it since the last)" if self._kept else ""
        self._next, self._kept = now + self._every_s, 0
        warnings.warn(f"{text}{more}", stacklevel=2)
