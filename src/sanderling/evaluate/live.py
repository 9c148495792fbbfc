"""How a run of attempts stands while it runs: what is done, how good, what it takes, what is stuck; and that on the terminal.

Figures move: pass so far rests on what ended first, which is what is short. On a terminal a few lines are written over; a log
gets a line each half a minute.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager, suppress

from rich.console import Console, Group
from rich.live import Live as Screen
from rich.text import Text

from sanderling.agent.loop import CallsMade, Ended, Event, TurnStarted
from sanderling.core.text import visible
from sanderling.evaluate.attempts import Watch
from sanderling.evaluate.episodes import Episode, Key
from sanderling.evaluate.statistics import wilson_interval
from sanderling.report.numbers import compact, duration, ending_words, percent, roughly, span

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
        self._running: dict[Key, tuple[float, str]] = {}  # since when, and what is waited for
        self._ended_here = self._judged = 0
        self._warning, self._warned = "", 0.0
        self.is_stopping = False

    def resumed(self, episodes: Iterable[Episode]) -> None:
        self._done |= {episode.key: episode for episode in episodes}

    def begun(self, key: Key) -> None:
        self._running[key] = self._now(), "its beginning"

    def heard(self, key: Key, event: Event) -> None:
        began, doing = self._running[key]
        if isinstance(event, TurnStarted):
            doing = f"the model, turn {event.turn + 1}"
        elif isinstance(event, CallsMade):
            doing = ", ".join(dict.fromkeys(call.name for call in event.calls)) or "its tools"
        elif isinstance(event, Ended):
            doing = "the verdict"
        self._running[key] = began, doing

    def waits(self, key: Key, why: str, pause_s: float) -> None:
        self._running[key] = self._running[key][0], "a retry"
        self.warned(f"{why} {key[0]} #{key[1]} is tried again in {pause_s:.3g} s.")

    def ended(self, episode: Episode) -> None:
        self._ended_here += episode.key in self._running and episode.key not in self._done
        self._done[episode.key] = episode
        if episode.ending is not None and not episode.ending.scored:
            self.warned(f"{episode.question} #{episode.attempt} is left unscored: {ending_words(episode.ending)}.")

    def freed(self, key: Key) -> None:
        del self._running[key]

    def judged(self, count: int) -> None:
        self._judged = count

    def warned(self, text: str) -> None:
        """Something that a person should know; only the last one is kept."""
        self._warning, self._warned = text, self._now()

    def lines(self, cost: float) -> list[str]:
        """How far it is, how good so far, what it took, the attempt that takes longest, and the last warning."""
        done, now = self._done.values(), self._now()
        sampled, read = (sum(getattr(one, name) or 0 for one in done) for name in ("sampled_tokens", "prompt_tokens"))
        took = [f"{compact(sum(one.turns for one in done))} turns", f"cost {cost:.4g}"]
        if sampled or read:
            took.insert(1, f"tokens {compact(sampled)} sampled, {compact(read)} read")
        lines = [
            _SEPARATOR.join((f"{len(done):,}/{self._total:,}", f"{len(self._running):,} running", duration(now - self._began),
                             self._time_left())),
            _SEPARATOR.join((*self._quality(), *took)),
        ]  # fmt: skip
        if self._running:
            (question, attempt), (began, doing) = min(self._running.items(), key=lambda one: one[1][0])
            lines.append(f"longest {question} #{attempt}: {duration(now - began)}, waits for {doing}")
        if self._warning:
            lines.append(f"warning {roughly(now - self._warned)} ago: {self._warning}")
        if self.is_stopping:
            lines.append("stopping: what is finished is kept; Ctrl-C once more interrupts at once")
        return [visible(" ".join(line.split())) for line in lines]

    def _time_left(self) -> str:
        """At the pace of this run."""
        remaining = self._total - len(self._done)
        if remaining <= 0:
            return f"{self._judged:,} looked through by the judges" if self._judged else "all made"
        if self._ended_here < FEWEST_FOR_TIME_LEFT:
            return "time left: too early to tell"
        return f"about {roughly(remaining * (self._now() - self._began) / self._ended_here)} left"

    def _quality(self) -> list[str]:
        """The mean over questions of the share of right ones among scored attempts, with Wilson's interval over questions."""
        by_question: dict[str, list[bool]] = {}
        for one in self._done.values():
            if one.correct is not None:
                by_question.setdefault(one.question, []).append(one.correct)
        verdicts = [correct for of in by_question.values() for correct in of]
        parts = ["pass so far: nothing scored"]
        if verdicts:
            shares = [sum(of) / len(of) for of in by_question.values()]
            interval = wilson_interval(min(sum(shares), float(len(shares))), len(shares))
            so_far = f"pass so far {percent(sum(shares) / len(shares))} ({span(interval)})"
            asked = f"{len(shares):,} question{'' if len(shares) == 1 else 's'}"
            parts = [f"{so_far} over {asked}", f"{sum(verdicts):,} of {len(verdicts):,} right"]
        unscored = len(self._done) - len(verdicts)
        return [*parts, *([f"{unscored:,} unscored"] if unscored else [])]


@asynccontextmanager
async def showing(
    live: Live, about: str, cost: Callable[[], float], console: Console, stop: asyncio.Event
) -> AsyncIterator[None]:
    """Show a run while it lasts; ``cost`` is what was paid so far, ``stop`` what asks the run to end."""
    screen = Screen(console=console, auto_refresh=False, transient=True) if console.is_terminal else None

    def say() -> None:
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
                say()
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
            say()
        else:
            screen.stop()
