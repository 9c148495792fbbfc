"""Warnings of the same kind, a few words at a time: hundreds of sessions that wait for one server say so once a minute."""

import time
import warnings
from collections.abc import Callable


class Seldom:
    """Warns with what it is called with, unless it has just done so."""

    def __init__(self, every_s: float = 60.0, clock: Callable[[], float] = time.monotonic) -> None:
        self._every_s, self._clock = every_s, clock
        self._next = clock()
        self._heard = 0

    def __call__(self, text: str) -> None:
        now = self._clock()
        self._heard += 1
        if now < self._next:
            return
        self._next = now + self._every_s
        # The count is news, too: Python shows the same words from the same line once only.
        more = f" ({self._heard:,} times so far)" if self._heard > 1 else ""
        warnings.warn(f"{text}{more}", stacklevel=2)
