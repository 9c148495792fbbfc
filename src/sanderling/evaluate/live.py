"""How a run of attempts stands while it runs: what is done, how good, what it takes; and that on the terminal.

Figures move: pass so far rests on what ended first, which is what is short. On a terminal a few lines are written over; a log
gets a line each half a minute.
"""

import asyncio
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager, suppress

from rich.console import Console, Group
from rich.live import Live as Screen
from rich.text import Text

from sanderling.core.text import visible
from sanderling.evaluate.attempts import Watch
from sanderling.evaluate.result import Episode, Key
from sanderling.evaluate.statistics import wilson_interval
from sanderling.report.numbers import compact, duration, ending_words, percent, span

FEWEST_FOR_TIME_LEFT = 5
"""So many attempts have to end in this run before it is said how long it will take."""
LINE_EVERY_S, _LOOK_S = 30.0, 0.5
_SEPARATOR = " · "


class Live(Watch):
    """Hears a run, and says how it stands.

    Example: ``live = Live(total=40); ...; live.lines(cost=0.0)``
    """

    def __init__(self, total: int, now: Callable[[], float] = time.monotonic) -> None:
        self._total, self._now, self._began = total, now, now()
        self._done: dict[Key, Episode] = {}
        self._ended_here = self._judged = 0
        self.warning = ""
        self.is_stopping = False

    def resumed(self, episodes: Iterable[Episode]) -> None:
        self._done |= {episode.key: episode for episode in episodes}

    def waits(self, key: Key, why: str, pause_s: float) -> None:
        self.warning = f"{why} {key[0]} #{key[1]} is tried again in {pause_s:.3g} s."

    def ended(self, episode: Episode) -> None:
        self._ended_here += episode.key not in self._done
        self._done[episode.key] = episode
        if episode.ending is not None and not episode.ending.scored:
            self.warning = f"{episode.question} #{episode.attempt} is left unscored: {ending_words(episode.ending)}."

    def judged(self, count: int) -> None:
        self._judged = count

    def lines(self, cost: float) -> list[str]:
        """How far it is, how good so far, what it took, and the last warning."""
        done, elapsed = self._done.values(), self._now() - self._began
        sampled, read = (sum(getattr(one, name) or 0 for one in done) for name in ("sampled_tokens", "prompt_tokens"))
        took = [f"{compact(sum(one.turns for one in done))} turns", f"cost {cost:.4g}"]
        if sampled or read:
            took.insert(1, f"tokens {compact(sampled)} sampled, {compact(read)} read")
        lines = [
            _SEPARATOR.join((f"{len(done):,}/{self._total:,}", duration(elapsed), self._time_left(elapsed))),
            _SEPARATOR.join((*self._quality(), *took)),
        ]
        if self.warning:
            lines.append(f"warning: {self.warning}")
        if self.is_stopping:
            lines.append("stopping: what is finished is kept; Ctrl-C once more interrupts at once")
        return [visible(" ".join(line.split())) for line in lines]

    def _time_left(self, elapsed: float) -> str:
        """At the pace of this run."""
        remaining = self._total - len(self._done)
        if remaining <= 0:
            return f"{self._judged:,} looked through by the judges" if self._judged else "all made"
        if self._ended_here < FEWEST_FOR_TIME_LEFT:
            return "time left: too early to tell"
        return f"about {duration(remaining * elapsed / self._ended_here)} left"

    def _quality(self) -> list[str]:
        """The mean over questions of the share of right ones among scored attempts, with Wilson's interval over questions."""
        by_question = defaultdict[str, list[bool]](list)
        for one in self._done.values():
            if one.correct is not None:
                by_question[one.question].append(one.correct)
        parts = ["pass so far: nothing scored"]
        if by_question:
            shares = [sum(of) / len(of) for of in by_question.values()]
            interval = wilson_interval(min(sum(shares), float(len(shares))), len(shares))
            asked = f"{len(shares):,} question{'' if len(shares) == 1 else 's'}"
            parts = [f"pass so far {percent(sum(shares) / len(shares))} ({span(interval)}) over {asked}"]
        unscored = len(self._done) - sum(map(len, by_question.values()))
        return [*parts, *([f"{unscored:,} unscored"] if unscored else [])]


@asynccontextmanager
async def showing(
    live: Live, about: str, cost: Callable[[], float], console: Console, stop: asyncio.Event
) -> AsyncIterator[None]:
    """Show a run while it lasts; ``cost`` is what was paid so far, ``stop`` what asks the run to end."""
    screen = Screen(console=console, auto_refresh=False, transient=True) if console.is_terminal else None

    def show() -> None:
        head, *rest = live.lines(cost())
        lines = [f"{visible(about)} {head}", *rest]
        if screen is None:
            console.print(_SEPARATOR.join(lines), markup=False, highlight=False, soft_wrap=True)
        else:
            screen.update(Group(*(Text(line, no_wrap=True, overflow="ellipsis") for line in lines)), refresh=True)

    async def look() -> None:
        last = time.monotonic()
        while True:
            began = time.monotonic()
            is_new, live.is_stopping = stop.is_set() and not live.is_stopping, stop.is_set()
            if screen is not None or is_new or began - last >= LINE_EVERY_S:
                show()
                last = began
            await asyncio.sleep(max(_LOOK_S, 50.0 * (time.monotonic() - began)))  # a large run is looked at less often

    if screen is not None:
        screen.start()
    task = asyncio.create_task(look())
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
        if screen is None:
            show()
        else:
            screen.stop()
