"""How a run of attempts stands while it runs: what is done, how good, how fast, what it takes, what is stuck.

:class:`Live` hears the run as a `watch.Watch` and answers a `live_snapshot.Snapshot` when asked. A note costs the same however
large the run is; a snapshot costs as much as attempts are under way. Figures move: pass so far rests on what ended first,
which is what is short. Time is given, and so is the cost. Knows no display, no clock and no ledger.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from sanderling.agent.events import CallsMade, Ended, Event, TurnSampled, TurnStarted
from sanderling.evaluate.attempts import Watch
from sanderling.evaluate.episodes import Episode, Key
from sanderling.evaluate.live_snapshot import Attempt, Doing, Snapshot
from sanderling.evaluate.live_sums import LastMinute, PassSoFar, Tokens
from sanderling.report.numbers import ending_words

FEWEST_FOR_TIME_LEFT = 5
"""So many attempts have to be scored in this run before it is said how long it will take."""
_ROUNDING_S = 1e-6


@dataclass(slots=True)
class _UnderWay:
    """What is known of an attempt under way; turns and tokens of it are in the run's sums, and are taken out with it."""

    began: float
    heard: float
    doing: Doing = Doing.BEGINNING
    calls: tuple[str, ...] = ()
    turn: int = 0
    asked: float = 0.0
    """When the model was."""
    turns: int = 0
    was_heard: bool = False
    sampled: Tokens | None = None
    prompt: Tokens | None = None


class Live(Watch):
    """Hears a run, and says how it stands.

    Example: ``live = Live(total=40, concurrency=8, now=time.monotonic); ...; live.snapshot(cost=0.0).done``
    """

    def __init__(self, total: int, concurrency: int, now: Callable[[], float]) -> None:
        self._total, self._concurrency, self._now = total, concurrency, now
        self._began = now()
        self._done: dict[Key, Episode] = {}
        self._running: dict[Key, _UnderWay] = {}
        self._pass = PassSoFar()
        self._resumed = self._turns = 0
        self._sampled, self._prompt = Tokens(), Tokens()
        self._minute_turns, self._minute_tokens, self._minute_warnings = LastMinute(), LastMinute(), LastMinute()
        self._ended_here = self._scored_here = 0
        self._spent_s = 0.0
        """In places, by attempts that have left them."""
        self._warning, self._warned = "", 0.0
        self._judged = 0
        self._is_stopping = False

    # -- what is heard -------------------------------------------------------------------------------------------------

    def resumed(self, episodes: Iterable[Episode]) -> None:
        for episode in episodes:
            self._put(episode)
        self._resumed = len(self._done)

    def begun(self, key: Key) -> None:
        now = self._now()
        self._running[key] = _UnderWay(began=now, heard=now)

    def heard(self, key: Key, event: Event) -> None:
        at = self._running[key]
        now = at.heard = self._now()
        at.was_heard = True
        match event:
            case TurnStarted():
                if event.turn == event.retry == 0:
                    self._forget(at)
                at.doing, at.calls, at.turn, at.asked = Doing.MODEL, (), event.turn + 1, now
            case TurnSampled():
                self._sampled_turn(at, event, now)
            case CallsMade():
                at.doing, at.calls = Doing.TOOLS, tuple(call.name for call in event.calls)
            case Ended():
                at.doing, at.calls = Doing.VERDICT, ()
            case _:
                pass

    def waits(self, key: Key, why: str, pause_s: float) -> None:
        at = self._running[key]
        at.heard, at.doing, at.calls = self._now(), Doing.RETRY, ()
        self.warned(f"{why} {key[0]} #{key[1]} is tried again in {pause_s:.3g} s.")

    def ended(self, episode: Episode) -> None:
        key = (episode.question, episode.attempt)
        at = self._running.get(key)
        if at is not None:
            self._forget(at)
            if at.was_heard and key not in self._done:
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
        self._minute_warnings.add(self._warned, 1)

    def stopping(self) -> None:
        """Nothing more is begun."""
        self._is_stopping = True

    # -- what is said --------------------------------------------------------------------------------------------------

    def snapshot(self, cost: float) -> Snapshot:
        """How the run stands now."""
        now = self._now()
        elapsed = now - self._began
        running = self._running.items()
        longest = min(running, key=lambda one: one[1].began, default=None)
        stillest = min(running, key=lambda one: one[1].heard, default=None)
        sampled = self._sampled.known
        seen = self._pass
        return Snapshot(
            total=self._total,
            done=len(self._done),
            resumed=self._resumed,
            running=len(running),
            judged=self._judged,
            correct=seen.correct,
            scored=seen.scored,
            unscored=len(self._done) - seen.scored,
            questions=seen.questions,
            pass_so_far=seen.mean,
            interval=seen.interval,
            turns=self._turns,
            sampled_tokens=sampled,
            prompt_tokens=self._prompt.known,
            some_tokens_untold=self._sampled.untold > 0 or self._prompt.untold > 0,
            cost=cost,
            turns_per_s=self._minute_turns.rate(now, elapsed),
            tokens_per_s=None if sampled is None else self._minute_tokens.rate(now, elapsed),
            elapsed_s=elapsed,
            left_s=self._left(now),
            longest=longest and _attempt(*longest, now),
            stillest=stillest and _attempt(*stillest, now),
            waiting=sum(at.doing is Doing.RETRY for at in self._running.values()),
            warnings_last_minute=self._minute_warnings.sum(now),
            warning=self._warning,
            warning_age_s=now - self._warned if self._warning else 0.0,
            is_stopping=self._is_stopping,
        )

    def _left(self, now: float) -> float | None:
        """Not the median: a run's length is a sum, and most attempts are shorter than their mean."""
        remaining = self._total - len(self._done)
        if remaining <= 0:
            return 0.0
        if self._scored_here < FEWEST_FOR_TIME_LEFT:
            return None
        spent = self._spent_s + sum(now - at.began for at in self._running.values() if at.was_heard)
        return remaining / min(self._concurrency, remaining) * spent / self._ended_here

    # -- sums ----------------------------------------------------------------------------------------------------------

    def _sampled_turn(self, at: _UnderWay, event: TurnSampled, now: float) -> None:
        stands = event.turn + 1
        self._turns += stands - at.turns
        at.turns = stands
        at.sampled, at.prompt = at.sampled or Tokens(), at.prompt or Tokens()
        for sums, own, count in (
            (self._sampled, at.sampled, event.sampled_tokens),
            (self._prompt, at.prompt, event.prompt_tokens),
        ):
            sums.add(count or None)
            own.add(count or None)
        if now - at.asked >= event.seconds - _ROUNDING_S:  # else a journal remembered it
            self._minute_turns.add(now, 1)
            self._minute_tokens.add(now, event.sampled_tokens)

    def _forget(self, at: _UnderWay) -> None:
        """Take an attempt's turns and tokens out of the sums: it begins again, or its record says them."""
        self._turns -= at.turns
        at.turns = 0
        for sums, own in ((self._sampled, at.sampled), (self._prompt, at.prompt)):
            if own is not None:
                sums.take(own)
        at.sampled = at.prompt = None

    def _put(self, episode: Episode) -> None:
        """An attempt's record, in place of what was known of it."""
        key = (episode.question, episode.attempt)
        was = self._done.get(key)
        self._done[key] = episode
        self._pass.put(episode.question, None if was is None else was.correct, episode.correct)
        for one, sign in ((was, -1), (episode, 1)):
            if one is not None:
                self._turns += sign * one.turns
                for sums, count in ((self._sampled, one.sampled_tokens), (self._prompt, one.prompt_tokens)):
                    if count is not None or one.turns:
                        sums.add(count, sign)


def _attempt(key: Key, at: _UnderWay, now: float) -> Attempt:
    return Attempt(key[0], key[1], at.turn, now - at.began, at.doing, at.calls, now - at.heard)
