"""How a run of attempts stands while it runs: what is done, how good, what it takes, what is stuck; and that on the terminal.

`Live` hears the run as an `attempts.Watch`; a note costs the same however large the run is. Figures move: pass so far rests on
what ended first, which is what is short. On a terminal a few lines are written over; a log gets a line at times.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass

from rich.console import Console, Group, RenderableType
from rich.constrain import Constrain
from rich.live import Live as Screen
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from sanderling.agent.events import CallsMade, Ended, Event, TurnSampled, TurnStarted
from sanderling.core.text import visible
from sanderling.evaluate.attempts import Watch
from sanderling.evaluate.episodes import Episode, Key
from sanderling.evaluate.statistics import wilson_interval
from sanderling.report.numbers import compact, duration, ending_words, percent, roughly, span

FEWEST_FOR_TIME_LEFT = 5
"""So many attempts have to be scored in this run before it is said how long it will take."""
LINE_EVERY_S = 30.0
_LOOK_S = 0.5
_STILL_S = 60.0
"""An attempt that was heard of within this time is not told as one that stands still."""
_ECHO = 6
"""Columns left free for the ^C that a terminal writes behind the last line: wrapped, it would shift what is written over."""
_NAME_CHARS, _WARNING_CHARS = 20, 220
_SEPARATOR = " · "


@dataclass(slots=True)
class _UnderWay:
    """What is known of an attempt under way."""

    began: float
    heard: float
    doing: str = "beginning"
    turn: int = 0  # the turn it is in, from 1
    turns: int = 0  # sampled
    sampled: int = 0
    prompt: int = 0
    was_heard: bool = False


class Live(Watch):
    """Hears a run, and says how it stands.

    Example: ``live = Live(total=40, concurrency=8, now=time.monotonic); ...; live.lines(cost=0.0)``
    """

    def __init__(self, total: int, concurrency: int, now: Callable[[], float] = time.monotonic) -> None:
        self._total, self._concurrency, self._now = total, concurrency, now
        self._began = now()
        self._done: dict[Key, Episode] = {}
        self._running: dict[Key, _UnderWay] = {}
        self._counts: dict[str, tuple[int, int]] = {}  # of each question: scored and right attempts
        self._turns = self._sampled = self._prompt = 0
        self._ended_here = self._scored_here = self._judged = 0
        self._spent_s = 0.0  # in places, by attempts that have left them
        self._warning, self._warned = "", 0.0
        self.is_stopping = False
        """Nothing more is begun."""

    def resumed(self, episodes: Iterable[Episode]) -> None:
        for episode in episodes:
            self._put(episode)

    def begun(self, key: Key) -> None:
        now = self._now()
        self._running[key] = _UnderWay(began=now, heard=now)

    def heard(self, key: Key, event: Event) -> None:
        at = self._running[key]
        at.heard, at.was_heard = self._now(), True
        match event:
            case TurnStarted():
                if event.turn == event.retry == 0:
                    self._forget(at)
                at.doing, at.turn = "the model", event.turn + 1
            case TurnSampled():
                stands = event.turn + 1
                self._turns += stands - at.turns
                self._sampled += event.sampled_tokens or 0
                self._prompt += event.prompt_tokens or 0
                at.turns = stands
                at.sampled += event.sampled_tokens or 0
                at.prompt += event.prompt_tokens or 0
            case CallsMade():
                at.doing = ", ".join(dict.fromkeys(_brief(call.name) for call in event.calls)) or "its tools"
            case Ended():
                at.doing = "the verdict"
            case _:
                pass

    def waits(self, key: Key, why: str, pause_s: float) -> None:
        at = self._running[key]
        at.heard, at.doing = self._now(), "a retry"
        self.warned(f"{why} {key[0]} #{key[1]} is tried again in {pause_s:.3g} s.")

    def ended(self, episode: Episode) -> None:
        at = self._running.get(episode.key)
        if at is not None:
            self._forget(at)
            if at.was_heard and episode.key not in self._done:
                self._ended_here += 1
                self._scored_here += episode.correct is not None
        self._put(episode)
        if episode.ending is not None and not episode.ending.scored:
            self.warned(f"{episode.question} #{episode.attempt} is left unscored: {ending_words(episode.ending)}.")

    def freed(self, key: Key) -> None:
        at = self._running.pop(key)
        self._forget(at)
        if at.was_heard:  # one that only wanted its verdict says nothing of the others
            self._spent_s += self._now() - at.began

    def judged(self, count: int) -> None:
        self._judged = count

    def warned(self, text: str) -> None:
        """Something that a person should know; only the last one is kept."""
        self._warning, self._warned = text, self._now()

    def _forget(self, at: _UnderWay) -> None:
        """Take an attempt's turns and tokens out of the sums: it begins again, or its record says them."""
        self._turns, self._sampled, self._prompt = self._turns - at.turns, self._sampled - at.sampled, self._prompt - at.prompt
        at.turns = at.sampled = at.prompt = 0

    def _put(self, episode: Episode) -> None:
        """An attempt's record, in place of an earlier one."""
        for one, sign in ((self._done.get(episode.key), -1), (episode, 1)):
            if one is not None:
                scored, right = self._counts.get(one.question, (0, 0))
                counted = scored + sign * (one.correct is not None), right + sign * (one.correct is True)
                self._counts[one.question] = counted
                self._turns += sign * one.turns
                self._sampled += sign * (one.sampled_tokens or 0)
                self._prompt += sign * (one.prompt_tokens or 0)
        self._done[episode.key] = episode

    # -- in words ------------------------------------------------------------------------------------------------------

    def headline(self) -> str:
        """How far it is."""
        done = len(self._done)
        if done >= self._total:
            left = f"{self._judged:,} looked through by the judges" if self._judged else "all made"
        else:
            seconds = self.left_s()
            left = "time left: too early to tell" if seconds is None else f"about {roughly(seconds)} left"
        elapsed = duration(self._now() - self._began)
        return _SEPARATOR.join((f"{done:,}/{self._total:,}", f"{len(self._running):,} running", elapsed, left))

    def lines(self, cost: float) -> list[str]:
        """How good it is so far, what it took, and what may be stuck."""
        taken = f"{compact(self._turns)} turns"
        if self._sampled or self._prompt:
            taken += f"{_SEPARATOR}tokens {compact(self._sampled)} sampled, {compact(self._prompt)} read"
        return [self._quality(), f"{taken}{_SEPARATOR}cost {cost:.4g}", *self._under_way()]

    def warning(self) -> str:
        """The last thing that went wrong; empty: nothing did."""
        if not self._warning:
            return ""
        waiting = sum(at.doing == "a retry" for at in self._running.values())
        more = f" ({waiting:,} to be tried again)" if waiting else ""
        return f"warning {roughly(self._now() - self._warned)} ago{more}: {_brief(self._warning)}"

    def left_s(self) -> float | None:
        """Seconds that remain, at the mean time of an attempt of this run; not the median, since a run's length is a sum."""
        remaining = self._total - len(self._done)
        if remaining <= 0:
            return 0.0
        if self._scored_here < FEWEST_FOR_TIME_LEFT:
            return None
        now = self._now()
        spent = self._spent_s + sum(now - at.began for at in self._running.values() if at.was_heard)
        return remaining / min(self._concurrency, remaining) * spent / self._ended_here

    def _quality(self) -> str:
        """The mean over questions of the share of right ones among scored attempts, with Wilson's interval over questions."""
        shares = [right / scored for scored, right in self._counts.values() if scored]
        scored, right = (sum(column) for column in zip(*self._counts.values(), strict=True)) if self._counts else (0, 0)
        parts = ["pass so far: nothing scored"]
        if shares:
            interval = wilson_interval(min(max(sum(shares), 0.0), float(len(shares))), len(shares))
            asked = f"{len(shares):,} question{'' if len(shares) == 1 else 's'}"
            so_far = f"pass so far {percent(sum(shares) / len(shares))} ({span(interval)}) over {asked}"
            parts = [so_far, f"{right:,} of {scored:,} right"]
        unscored = len(self._done) - scored
        return _SEPARATOR.join([*parts, *([f"{unscored:,} unscored"] if unscored else [])])

    def _under_way(self) -> list[str]:
        """The attempt that takes longest, and one that nothing was heard of for a while."""
        if not self._running:
            return []
        now = self._now()
        longest, first = min(self._running.items(), key=lambda one: one[1].began)
        stillest, still = min(self._running.items(), key=lambda one: one[1].heard)
        told = f"turn {first.turn}, waits {duration(now - first.heard)} for {first.doing}"
        lines = [f"longest {_name(longest)}: {duration(now - first.began)}, {told}"]
        if now - still.heard >= _STILL_S and stillest != longest:
            lines.append(
                f"stillest {_name(stillest)}: turn {still.turn}, waits {duration(now - still.heard)} for {still.doing}"
            )
        return lines

    def pane(self, about: str, cost: float) -> RenderableType:
        """A bar and a few lines; none is longer than the terminal is wide."""
        head = Table.grid(padding=(0, 1), expand=True)
        head.add_column(no_wrap=True, overflow="ellipsis")
        head.add_column(ratio=1, min_width=8)
        head.add_column(no_wrap=True)
        head.add_row(
            Text(_brief(about), style="bold"), ProgressBar(max(self._total, 1), len(self._done)), Text(self.headline())
        )
        lines: list[RenderableType] = [Text(line, no_wrap=True, overflow="ellipsis") for line in self.lines(cost)]
        if self.is_stopping:
            lines.append(Text("stopping: what is finished is kept; Ctrl-C once more interrupts at once", style="yellow"))
        if warning := self.warning():
            lines.append(Text(warning[:_WARNING_CHARS], style="yellow"))
        return Group(head, *lines)

    def plain(self, about: str, cost: float) -> str:
        """Everything in one line."""
        stopping = ["stopping"] if self.is_stopping else []
        parts = [f"{_brief(about)} {self.headline()}", *stopping, *self.lines(cost), self.warning()]
        return _SEPARATOR.join(filter(None, parts))


@asynccontextmanager
async def showing(
    live: Live, about: str, cost: Callable[[], float], console: Console, stop: asyncio.Event
) -> AsyncIterator[None]:
    """Show a run while it lasts; ``cost`` is what was paid so far, ``stop`` what asks the run to end."""
    screen = None
    if console.is_terminal:
        screen = Screen(console=console, auto_refresh=False, transient=True)  # what follows says more
        screen.start()
    task = asyncio.create_task(_look(live, about, cost, console, screen, stop))
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
        if screen is None:
            _say(live, about, cost, console)
        else:
            screen.stop()


async def _look(
    live: Live, about: str, cost: Callable[[], float], console: Console, screen: Screen | None, stop: asyncio.Event
) -> None:
    """Write over the terminal's lines twice a second; to a log one line each half a minute, and when the run is to stop."""
    said = time.monotonic()
    while True:
        is_new = stop.is_set() and not live.is_stopping
        live.is_stopping = stop.is_set()
        if screen is not None:
            screen.update(Constrain(live.pane(about, cost()), max(console.width - _ECHO, 1)), refresh=True)
        elif is_new or time.monotonic() - said >= LINE_EVERY_S:
            said = time.monotonic()
            _say(live, about, cost, console)
        await asyncio.sleep(_LOOK_S)


def _say(live: Live, about: str, cost: Callable[[], float], console: Console) -> None:
    console.print(live.plain(about, cost()), markup=False, highlight=False, soft_wrap=True)


def _name(key: Key) -> str:
    """The id of its trajectory, of which the end tells it from others."""
    name = _brief(f"{key[0]}-{key[1]}")
    return name if len(name) <= _NAME_CHARS else "…" + name[1 - _NAME_CHARS :]


def _brief(text: str) -> str:
    """Text from outside on one line, without control characters."""
    return visible(" ".join(text.split()))
