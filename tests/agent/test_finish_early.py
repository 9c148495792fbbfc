"""Asked for the answer early: the forced answer of a spent budget, at the next turn, the same after a kill."""

import asyncio
from pathlib import Path

from journal_fakes import PLAIN, Killed, Life, Speaker, live

from sanderling.agent.journal import Journal
from sanderling.agent.loop import Event, TurnStarted
from sanderling.core.record import Trajectory
from sanderling.runs.run import Run


class Early(Life):
    """A life that is hurried once so many turns have begun."""

    def __init__(self, length: int | None, after: int | None) -> None:
        super().__init__(length)
        self.early, self.until = asyncio.Event(), after

    def on_event(self, event: Event) -> None:
        if isinstance(event, TurnStarted) and self.until is not None:
            self.until -= 1
            if self.until == 0:
                self.early.set()
        super().on_event(event)


async def finished(directory: Path, length: int | None, after: int | None) -> tuple[Trajectory | None, Life]:
    """One life of the episode ``PLAIN``."""
    life = Early(length, after)
    with Journal(directory) as journal:
        try:
            done = await live(Speaker(PLAIN, life), journal, finish_early=life.early)
        except Killed:
            return None, life
        journal.stored(done)
        return done, life


async def test_killed_anywhere_it_was_hurried_where_it_was_hurried(tmp_path: Path) -> None:
    """A second life that nobody hurries makes the first one's requests, and does nothing finished again."""
    whole, first = await finished(tmp_path / "whole", None, 2)
    assert whole is not None and len(first.said) == 3 and "early" in whole.detail
    early_again = length = 0
    for length in range(100):
        directory = tmp_path / str(length)
        done, killed = await finished(directory, length, 2)
        if done is not None:
            break
        with Run(directory) as run:
            entered = "finish early 2" in run.table("episode e/1")
        early_again += entered
        done, again = await finished(directory, None, None if entered else 2)
        assert done is not None and repr(done) == repr(whole)
        assert [*killed.said, *again.said] == first.said and sorted([*killed.called, *again.called]) == first.called
    assert length > 8 and early_again
