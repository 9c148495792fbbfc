"""Sums that a live view keeps up to date: one note costs the same however many came before. Knows no attempts."""

from collections import deque

from sanderling.evaluate.statistics import Interval, wilson_interval

_MINUTE_S = 60


class Tokens:
    """A sum of counts, some of which nobody told."""

    __slots__ = ("told", "total", "untold")

    def __init__(self) -> None:
        self.total = self.told = self.untold = 0

    @property
    def known(self) -> int | None:
        """The sum of those that were told; None where none was."""
        return None if self.untold and not self.told else self.total

    def add(self, count: int | None, sign: int = 1) -> None:
        """One more count, or with ``sign`` -1 one less; None: it was not told."""
        if count is None:
            self.untold += sign
        else:
            self.told += sign
            self.total += sign * count

    def take(self, other: "Tokens") -> None:
        """Leave out what another sum holds."""
        self.total -= other.total
        self.told -= other.told
        self.untold -= other.untold


class LastMinute:
    """How much of something came within the last 60 seconds, the running one included."""

    def __init__(self) -> None:
        self._seconds: deque[tuple[int, int]] = deque()
        self._sum = 0

    def add(self, now: float, count: int) -> None:
        """So much came."""
        second = int(now)
        self._drop(second)
        self._sum += count
        if self._seconds and self._seconds[-1][0] == second:
            count += self._seconds.pop()[1]
        self._seconds.append((second, count))

    def sum(self, now: float) -> int:
        """All that came."""
        self._drop(int(now))
        return self._sum

    def rate(self, now: float, elapsed_s: float) -> float:
        """A second's share of it, where so much time has passed since the beginning."""
        return self.sum(now) / min(_MINUTE_S, max(elapsed_s, 1.0))

    def _drop(self, second: int) -> None:
        while self._seconds and self._seconds[0][0] <= second - _MINUTE_S:
            self._sum -= self._seconds.popleft()[1]


class PassSoFar:
    """The mean over questions of the share of right ones among scored attempts, as verdicts come and change."""

    def __init__(self) -> None:
        self.scored = self.correct = 0
        self._counts: dict[str, tuple[int, int]] = {}
        """Of each question with a scored attempt: scored and right ones."""
        self._shares = 0.0

    @property
    def questions(self) -> int:
        """With a scored attempt."""
        return len(self._counts)

    @property
    def mean(self) -> float | None:
        """None without any."""
        return self._within() / self.questions if self._counts else None

    @property
    def interval(self) -> Interval | None:
        """Wilson's over questions; None without any."""
        return wilson_interval(self._within(), self.questions) if self._counts else None

    def put(self, question: str, was: bool | None, now: bool | None) -> None:
        """The verdict on an attempt at a question in place of what it was before; None: there is none."""
        scored, correct = self._counts.pop(question, (0, 0))
        before = correct / scored if scored else 0.0
        more, right = (now is not None) - (was is not None), (now is True) - (was is True)
        self.scored += more
        self.correct += right
        scored, correct = scored + more, correct + right
        if scored:
            self._counts[question] = (scored, correct)
        self._shares += (correct / scored if scored else 0.0) - before

    def _within(self) -> float:
        """The sum of shares, which rounding may have led out of where it can be."""
        return min(max(self._shares, 0.0), float(self.questions))
